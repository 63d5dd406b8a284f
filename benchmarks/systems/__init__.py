"""The systems that are measured side by side, a module for each, all with the same three functions.

``prepare(url)`` makes the tables; ``publish(url, calls, timing)`` connects, then enters ``timing`` and makes one call
for each list of texts in ``calls``; ``work(url, handled, stop)`` calls ``handled(text)`` for every message until
``stop`` is set. Each is set up as its own documentation says is fastest, with durability on. A module imports its
system when it is used, in a process of its own, so that one that is not installed is merely left out.
"""
