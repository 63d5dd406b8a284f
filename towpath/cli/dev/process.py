"""The workers' process from within: the command line, which drains when the session that started it is gone.

Its standard input is a pipe of which the session holds the other end: that ends with the session, however it dies.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from towpath.cli.main import main


def _drain_at_end(session: int) -> None:
    os.read(session, 1)  # nothing is ever written to it
    os.kill(os.getpid(), signal.SIGTERM)


def run() -> None:
    """Run the command line. A handler finds an empty standard input."""
    session = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    threading.Thread(target=_drain_at_end, args=(session,), name="dev-session", daemon=True).start()
    main()


if __name__ == "__main__":
    run()
