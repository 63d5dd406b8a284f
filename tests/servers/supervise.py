"""Runs a command for as long as standard input stays open: ``python supervise.py [--user NAME] COMMAND...``.

Whoever starts this holds the other end of that pipe, so the command and its children end with their starter, however
the starter ends. They get SIGTERM, ten seconds, SIGKILL.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

GRACE_SECONDS = 10


def main() -> int:
    user, command = (sys.argv[2], sys.argv[3:]) if sys.argv[1] == "--user" else (None, sys.argv[1:])
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, user=user)
    threading.Thread(target=_end_after_starter, args=(process,), daemon=True).start()
    code = process.wait()
    _signal_group(process.pid, signal.SIGKILL)  # children that outlived it
    return code


def _end_after_starter(process: "subprocess.Popen[bytes]") -> None:
    sys.stdin.buffer.read()
    _signal_group(process.pid, signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


if __name__ == "__main__":
    sys.exit(main())
