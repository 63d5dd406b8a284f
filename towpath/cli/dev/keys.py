"""Keys as they are pressed, without Enter; the terminal is put back as it was, whatever happens."""

from __future__ import annotations

import os
import select
import signal
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from towpath.cli.dev.happenings import Happening, Interrupted, Pressed

Tell = Callable[[Happening], None]


@contextmanager
def pressed_keys(terminal: int, tell: Tell) -> Iterator[None]:
    """While this lasts, ``tell`` is told every key that is pressed at the ``terminal``, by another thread.

    Ctrl-C stays a signal. Ctrl-Z is taken away: it would leave the view on the screen of whoever comes next.
    """
    before = termios.tcgetattr(terminal)
    reader, writer = os.pipe()
    suspending = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    thread = threading.Thread(target=_read, args=(terminal, reader, tell), name="dev-keys", daemon=True)
    try:
        tty.setcbreak(terminal)
        thread.start()
        yield
    finally:
        os.close(writer)  # which ends the thread
        if thread.ident is not None:
            thread.join()
        os.close(reader)
        signal.signal(signal.SIGTSTP, suspending)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read(terminal: int, end: int, tell: Tell) -> None:
    while True:
        ready, _, _ = select.select([terminal, end], [], [])
        if end in ready:
            return
        try:
            typed = os.read(terminal, 64)
        except OSError:
            typed = b""
        if not typed:  # the terminal is gone
            tell(Interrupted())
            return
        if not typed.startswith(b"\x1b"):  # arrows and the like
            for key in typed.decode("ascii", errors="ignore"):
                tell(Pressed(key=key))
