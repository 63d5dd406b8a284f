"""What a worker process and the one that started it tell each other: lines of JSON over a pair of sockets.

The process that was started says ``serving``, ``counts``, ``made`` and ``over``, and asks to ``take``; the one that
started it answers that, and says ``stop``: once to drain, again to abort. Signals would not do: two that come soon
after each other are one. When the pair is cut, the other end is gone.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from towpath.settling import Counts

LINK_VARIABLE: Final = "TOWPATH_WORKER_LINK"
_TOLD_CODES: Final = (0, 1, 2)  # exit codes of a process that ends by itself, and has told why


class Line:
    """One end of the pair. Sending is thread-safe; one thread reads."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()

    def send(self, **said: Any) -> None:
        """Say something. Who is gone hears nothing, which is no fault."""
        text = json.dumps(said, separators=(",", ":")) + "\n"
        with self._sending, suppress(OSError):
            self._end.sendall(text.encode())

    def heard(self) -> Iterator[dict[str, Any]]:
        """What the other end says, until it is gone."""
        with suppress(OSError), self._end.makefile("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # else it was cut off
                    yield json.loads(line)

    def close(self) -> None:
        """Be gone for the other end."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()


@dataclass(slots=True, kw_only=True, eq=False)
class Linked:
    """A process that this one started, the line to it, and what it has said on that of itself."""

    process: subprocess.Popen[Any]
    line: Line
    is_serving: bool = False
    is_over: bool = False  # it has said that it ends by itself

    def note(self, said: Mapping[str, Any]) -> None:
        """Take in what it said."""
        self.is_serving = self.is_serving or "serving" in said
        self.is_over = self.is_over or "over" in said

    def has_died(self, code: int) -> bool:
        """Whether something else ended it: a signal, or a handler that has its process exit, with whatever code."""
        return code not in _TOLD_CODES or (self.is_serving and not self.is_over)


def start_linked(
    command: Sequence[str], environment: Mapping[str, str], **more: Any
) -> tuple[subprocess.Popen[Any], Line]:
    """Start a process that finds its ``Starter`` in this one. Raises ``OSError``.

    It is in a session of its own, no part of the terminal's foreground: Ctrl-C is for this process to obey. When this
    one ends, in whatever way, it notices, and drains.
    """
    own, other = socket.socketpair()
    with other:
        try:
            process: subprocess.Popen[Any] = subprocess.Popen(  # noqa: S603 - this same program
                command,
                env={**environment, LINK_VARIABLE: str(other.fileno())},
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,
                **more,
            )
        except BaseException:
            own.close()
            raise
    return process, Line(own)


class Starter:
    """The process that started this one, as this one sees it; it is a ``ClaimsLeft`` for ``--max``."""

    def __init__(self, line: Line, *, is_limited: bool) -> None:
        self._line = line
        self._is_limited = is_limited
        self._asking = threading.Lock()
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._is_gone = threading.Event()
        self._used_up = False

    @staticmethod
    def of_this_process(environment: MutableMapping[str, str], *, is_limited: bool) -> Starter | None:
        """The one that the environment names, which is taken out of it: processes of handlers have no part in it."""
        number = environment.pop(LINK_VARIABLE, None)
        if number is None:
            return None
        os.set_inheritable(int(number), False)
        return Starter(Line(socket.socket(fileno=int(number))), is_limited=is_limited)

    def watch(self, stop: Callable[[], None]) -> None:
        """Hear answers from now on; call ``stop`` for each time that it says so, and when it has ended."""

        def hear() -> None:
            for said in self._line.heard():
                if "stop" in said:
                    stop()
                else:
                    self._answers.put(said)
            self._is_gone.set()
            self._answers.put({"granted": 0, "used_up": True})
            stop()

        threading.Thread(target=hear, name="towpath-link", daemon=True).start()

    def take(self, wanted: int) -> int:
        """Ask for claims, of those that all processes share."""
        if not self._is_limited:
            return wanted
        with self._asking:
            if self._is_gone.is_set():
                return 0
            self._line.send(take=wanted)
            answer = self._answers.get()
            self._used_up = bool(answer["used_up"])
            return int(answer["granted"])

    def made(self, granted: int, claimed: int) -> None:
        """Tell how many of them were made."""
        if self._is_limited and granted:
            self._line.send(made=[granted, claimed])

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit over all processes."""
        return self._is_limited

    @property
    def used_up(self) -> bool:
        """Whether all claims were made, as was heard last."""
        return self._used_up

    def tell_serving(self, names: list[str]) -> None:
        """Say that this process has begun."""
        self._line.send(serving=names)

    @contextmanager
    def telling_end(self) -> Iterator[None]:
        """Say at the end that this process ends by itself: an exit code alone may be one that a handler exits with."""
        try:
            yield
        finally:
            self._line.send(over=True)

    def tell_counts(self, counts: Counts, left: int | None) -> None:
        """Say what was done so far, and how much is left where that is known."""
        self._line.send(counts={"received": counts.received, "states": dict(counts.states)}, left=left)
