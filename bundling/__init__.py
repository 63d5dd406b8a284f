"""Bundling: a handler and its locked dependencies as a reproducible Lambda zip, and the check that the zip runs.

This file and ``runtime_api`` import the standard library alone, so that they can run beside any other program.
"""
