"""The command line: ``towpath``."""

from towpath.cli.main import main

__all__ = ["main"]
