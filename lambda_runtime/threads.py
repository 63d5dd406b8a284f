"""Threads that share lanes among themselves, and an event loop for each thread that needs one."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_ItemT = TypeVar("_ItemT")

_QUICK_SECONDS: Final = 0.005  # what one thread may take for all work, so that it begins the next alone
_PROMPT_SECONDS: Final = 0.01  # between two looks at threads that began alone
_IDLE_LOOKS: Final = 100  # after which nobody looks until the next one begins alone


class Threads:
    """At most ``limit`` threads, the calling one among them. They are kept for the next call.

    To wake a thread takes as long as some quick deliveries. So after work that one thread did in no time the calling
    thread begins the next alone, and gets company when that turns out to take longer: after ten to twenty milliseconds.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pool: ThreadPoolExecutor | None = None
        self._prompter = _Prompter()
        self._was_quick = False

    def share(self, waiting: deque[_ItemT], work: Callable[[_ItemT], None]) -> None:
        """Take items off ``waiting`` and do ``work`` on each, until none is left and all work has ended.

        A thread that has taken its first item calls one more while items wait, so that slow work has all threads within
        a moment. What ``work`` raises, and it should raise nothing, ends its thread's part and is raised here at the
        end.
        """
        started = time.perf_counter()
        helped = 0
        part = _Part(waiting, work, self._submit, self._limit - 1)
        try:
            if self._was_quick and self._limit > 1:
                self._take_alone(part)
            else:
                part.take()
        finally:
            called = part.end()
            for future in called:
                if not future.cancel():
                    future.exception()
                    helped += 1
        self._was_quick = (time.perf_counter() - started) * (1 + helped) < _QUICK_SECONDS
        for future in called:
            if not future.cancelled():
                future.result()

    def _take_alone(self, part: _Part[Any]) -> None:
        self._prompter.begin(part)
        try:
            part.take_alone()
        finally:
            self._prompter.end(part)

    def _submit(self, take: Callable[[], None]) -> Future[None]:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # many a function has one record at a time

            self._pool = ThreadPoolExecutor(self._limit - 1, thread_name_prefix="towpath")
        return self._pool.submit(take)


class _Part(Generic[_ItemT]):
    """The work of one call, to which up to ``most`` more threads may be called."""

    def __init__(
        self,
        waiting: deque[_ItemT],
        work: Callable[[_ItemT], None],
        submit: Callable[[Callable[[], None]], Future[None]],
        most: int,
    ) -> None:
        self._waiting = waiting
        self._work = work
        self._submit = submit
        self._most = most
        self._called: list[Future[None]] = []
        self._is_over = False
        self._lock = threading.Lock()

    def take(self) -> None:
        """Take items until none is left; the first brings company."""
        is_first = True
        while self._waiting:
            try:
                item = self._waiting.popleft()
            except IndexError:  # another thread was quicker
                return
            if is_first:
                self.call_one()
            is_first = False
            self._work(item)

    def take_alone(self) -> None:
        """Take items until none is left, without calling anybody."""
        while self._waiting:
            try:
                item = self._waiting.popleft()
            except IndexError:  # somebody was called after all, and was quicker
                return
            self._work(item)

    def call_one(self) -> None:
        """Have one more thread take part, if there is anything left for it, and the process can have one more."""
        with self._lock:
            place = len(self._called)
            if not self._waiting or self._is_over or place >= self._most:
                return
            try:
                self._called.append(self._submit(lambda: self._take_as(place)))
            except RuntimeError:
                self._most = place

    def _take_as(self, place: int) -> None:
        """Take part, as who was called at ``place``. Nobody was where the pool took a call and then had no thread for
        it: it carries that out later, and whoever waits for this part knows nothing of it.
        """
        with self._lock:
            is_called = place < len(self._called)
        if is_called:
            self.take()

    def end(self) -> list[Future[None]]:
        """Call nobody any more; those who were called."""
        with self._lock:
            self._is_over = True
            return self._called


class _Prompter:
    """Gets company for threads that began alone and are at it for long. It looks by itself, so that nobody wakes it."""

    def __init__(self) -> None:
        self._parts: list[_Part[Any]] = []
        self._begun = 0
        self._is_looking = False
        self._lock = threading.Lock()

    def begin(self, part: _Part[Any]) -> None:
        """Look after ``part`` from now on; not where the process can have no more threads, nor company then."""
        with self._lock:
            self._parts.append(part)
            self._begun += 1
            if self._is_looking:
                return
            try:
                threading.Thread(target=self._look, name="towpath-prompter", daemon=True).start()
            except RuntimeError:
                return
            self._is_looking = True

    def end(self, part: _Part[Any]) -> None:
        """Look after ``part`` no more."""
        with self._lock:
            self._parts.remove(part)

    def _look(self) -> None:
        before: list[_Part[Any]] = []
        begun, idle = 0, 0
        while True:
            time.sleep(_PROMPT_SECONDS)
            with self._lock:
                late = [part for part in self._parts if part in before]
                before = list(self._parts)
                idle = 0 if self._begun != begun else idle + 1
                begun = self._begun
                if idle >= _IDLE_LOOKS and not before:
                    self._is_looking = False
                    return
            for part in late:
                part.call_one()


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
