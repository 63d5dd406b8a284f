"""Long polls that a stop gets through: each on a thread of its own, which a receive can leave behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


@dataclass(slots=True, eq=False)
class _Call(Generic[ItemT]):
    """A poll under way. Who waits for it sets ``is_left`` when it goes without the answer."""

    found: Sequence[ItemT] = ()
    error: Exception | None = None
    is_over: bool = False
    is_left: bool = False


@dataclass(slots=True, eq=False)
class Polling:
    """The polls of one consumer, and whether there may be more. Thread-safe."""

    _stopped: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is to be received."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Have whoever waits go on at once, and let nobody poll any more."""
        with self._changed:
            self._stopped.set()
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Let so much time go by without polling, or what there is until a stop."""
        self._stopped.wait(seconds)

    def poll(
        self, ask: Callable[[], Sequence[ItemT]], give_back: Callable[[Sequence[ItemT]], object]
    ) -> Sequence[ItemT]:
        """What ``ask`` brings, or nothing as soon as there is a stop; raises what it raises.

        A poll cannot be called back. One that was left behind goes on, on its thread, and what it brings then is given
        to ``give_back`` there and then. It ends with the process if that ends first.
        """
        call: _Call[ItemT] = _Call()
        threading.Thread(target=self._carry_out, args=(call, ask, give_back), name="towpath-poll", daemon=True).start()
        with self._changed:
            try:
                self._changed.wait_for(lambda: call.is_over or self.is_stopped)
            finally:
                call.is_left = not call.is_over
        if call.error is not None:
            raise call.error
        return () if call.is_left else call.found

    def _carry_out(
        self,
        call: _Call[ItemT],
        ask: Callable[[], Sequence[ItemT]],
        give_back: Callable[[Sequence[ItemT]], object],
    ) -> None:
        found: Sequence[ItemT] = ()
        error: Exception | None = None
        try:
            found = ask()
        except Exception as raised:  # noqa: BLE001 - raised where it is waited for, if it still is
            error = raised
        with self._changed:
            call.found, call.error, call.is_over = found, error, True
            self._changed.notify_all()
            is_left = call.is_left
        if is_left and found:
            give_back(found)
