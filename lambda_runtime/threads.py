"""Threads that share lanes among themselves, and an event loop for each thread that needs one."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

_ItemT = TypeVar("_ItemT")


class Threads:
    """At most ``limit`` threads, the calling one among them. They are kept for the next call."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pool: ThreadPoolExecutor | None = None

    def share(self, waiting: deque[_ItemT], work: Callable[[_ItemT], None]) -> None:
        """Take items off ``waiting`` and do ``work`` on each, until none is left and all work has ended.

        A thread that has taken its first item calls one more while items wait. So quick work is done by the calling
        thread before another has woken up, and slow work has all threads within a moment. What ``work`` raises, and
        it should raise nothing, ends its thread's part and is raised here at the end.
        """
        called: list[Future[None]] = []

        def take_part() -> None:
            first = True
            while waiting:
                try:
                    item = waiting.popleft()
                except IndexError:  # another thread was quicker
                    return
                if first and waiting and len(called) < self._limit - 1:
                    called.append(self._executor().submit(take_part))
                first = False
                work(item)

        try:
            take_part()
        finally:
            for future in called:  # grows while threads call each other; each has called before it ends
                future.cancel() or future.exception()
        for future in called:
            if not future.cancelled():
                future.result()

    def _executor(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._limit - 1, thread_name_prefix="towpath")
        return self._pool


class EventLoops:
    """An event loop for each thread, made at its first coroutine and kept, so that async clients can be kept too."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._loops: list[asyncio.AbstractEventLoop] = []
        weakref.finalize(self, _close, self._loops)

    def run(self, coroutine: Coroutine[Any, Any, Any], /) -> Any:
        """Run ``coroutine`` to its end on this thread's loop."""
        loop: asyncio.AbstractEventLoop | None = getattr(self._local, "loop", None)
        if loop is None:
            loop = self._local.loop = asyncio.new_event_loop()
            self._loops.append(loop)
        return loop.run_until_complete(coroutine)


def _close(loops: list[asyncio.AbstractEventLoop]) -> None:
    for loop in loops:
        if not loop.is_running():
            loop.close()
