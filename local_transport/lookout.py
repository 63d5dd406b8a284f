"""Who waits for deliveries of which subscription, and the thread that wakes them when something is due."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from local_transport.looks import Seen

FIRST_SECONDS: Final = 0.05  # from something that happened to the first look after it
LONGEST_SECONDS: Final = 5.0  # between two looks while word of others comes
DEAF_SECONDS: Final = 1.0  # between two looks while none can come
_SHARE: Final = 10  # a look takes at most a tenth of the time: it is slow where an index has many dead entries
_CLOCK_STEP_SECONDS: Final = 0.001  # a database may keep whole milliseconds

Take = Callable[[Collection[int]], Mapping[int, Seen]]


class Pace:
    """When to look next: soon after something happened, then at growing distances. Not thread-safe."""

    def __init__(self) -> None:
        self.next_at = math.inf  # monotonic seconds
        self._pause = FIRST_SECONDS
        self._not_before = -math.inf

    def something_happened(self, now: float) -> None:
        """Begin anew; a look that is nearer stays."""
        self._begin(now + FIRST_SECONDS)

    def look_at_once(self, now: float) -> None:
        """Begin anew with a look now."""
        self._begin(now)

    def looks(self, now: float, longest: float) -> None:
        """A look begins."""
        self._pause = min(self._pause * 2, longest)
        self.next_at = now + self._pause

    def looked(self, began: float, ended: float) -> None:
        """A look that began so has ended so."""
        self._not_before = ended + min((ended - began) * _SHARE, LONGEST_SECONDS)
        self.next_at = max(self.next_at, self._not_before)

    def _begin(self, at: float) -> None:
        self._pause = FIRST_SECONDS
        self.next_at = min(self.next_at, max(at, self._not_before))


@dataclass(slots=True)
class _Post:
    """Where those wait who wait for one subscription. ``due_at`` is when its next delivery is due, as far as known."""

    bell: threading.Condition
    rings: int = 0
    waiting: int = 0
    revision: int = 0
    due_at: float = math.inf

    def ring(self) -> None:
        self.rings += 1
        self.due_at = math.inf
        self.bell.notify_all()


class Lookout:
    """Wakes who waits: on word, when a delivery becomes due, and by a look from time to time, since word can get lost.

    One look serves all, and none is taken while nobody waits. Thread-safe.
    """

    def __init__(self, take: Take, monotonic: Callable[[], float], log: logging.Logger) -> None:
        self._take = take
        self._monotonic = monotonic
        self._log = log
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # something that the thread goes by
        self._occupied = threading.Condition(self._lock)  # somebody waits
        self._posts: dict[int, _Post] = {}
        self._pace = Pace()
        self._longest = DEAF_SECONDS
        self._answered = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def answered(self) -> int:
        """How many looks the database has answered."""
        return self._answered

    def rings(self, subscription_id: int) -> int:
        """How often it rang for the subscription so far: to be read before a claim, and given to ``wait``."""
        post = self._posts.get(subscription_id)
        if post is None:
            with self._lock:
                post = self._posts.setdefault(subscription_id, _Post(threading.Condition(self._lock)))
        return post.rings

    def wait(self, subscription_id: int, rings: int, seconds: float, *, revision: int, after_a_ring: bool) -> None:
        """Wait until it has rung more than ``rings`` times for the subscription, at most so long.

        ``revision`` is that of the policy which the waiting claims go by: it rings for another one. ``after_a_ring``
        says that a claim followed on a ring and found nothing.
        """
        with self._lock:
            post, now = self._posts[subscription_id], self._monotonic()
            post.revision = revision
            post.waiting += 1
            if post.due_at <= now:
                post.due_at = math.inf  # claimed by now, or not to be claimed
            if not after_a_ring:
                self._pace.something_happened(now)
            self._start()
            self._occupied.notify_all()
            self._changed.notify_all()
            try:
                post.bell.wait_for(lambda: post.rings > rings or self._closed, seconds)
            finally:
                post.waiting -= 1

    def ring(self, subscription_ids: Iterable[int]) -> None:
        """Something is due in these subscriptions, or becomes due sooner than was known."""
        with self._lock:
            for subscription_id in subscription_ids:
                if (post := self._posts.get(subscription_id)) is not None:
                    post.ring()
            self._pace.something_happened(self._monotonic())
            self._changed.notify_all()

    def expect(self, subscription_id: int, seconds: float) -> None:
        """Something is due in the subscription after so long."""
        with self._lock:
            if (post := self._posts.get(subscription_id)) is not None:
                now = self._monotonic()
                post.due_at = min(post.due_at, now + seconds)
                self._pace.something_happened(now)  # a look that is under way has not seen it
                self._changed.notify_all()

    def look_at_once(self) -> None:
        """Something may be due anywhere."""
        with self._lock:
            self._pace.look_at_once(self._monotonic())
            self._changed.notify_all()

    def rely_on(self, *, word: bool) -> None:
        """Whether word of others comes, so that looks can be rare."""
        with self._lock:
            self._longest = LONGEST_SECONDS if word else DEAF_SECONDS
            self._pace.look_at_once(self._monotonic())
            self._changed.notify_all()

    def await_company(self, seconds: float) -> bool:
        """Wait until somebody waits, at most so long; answers whether somebody does."""
        with self._lock:
            return self._occupied.wait_for(lambda: self._closed or bool(self._waited_for()), seconds)

    def close(self) -> None:
        """Wake everybody, and end the thread."""
        with self._lock:
            self._closed = True
            for post in self._posts.values():
                post.ring()
            self._changed.notify_all()
            self._occupied.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=FIRST_SECONDS * 20)

    def _start(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._keep_looking, name="towpath-lookout", daemon=True)
            self._thread.start()

    def _waited_for(self) -> list[int]:
        return [subscription_id for subscription_id, post in self._posts.items() if post.waiting]

    def _keep_looking(self) -> None:
        while asked := self._await_look():
            began = self._monotonic()
            try:
                seen = self._take(asked)
            except Exception as error:  # noqa: BLE001 - whatever it was, those who wait meet it themselves
                self._log.debug("the look for due deliveries failed: %s: %s", type(error).__name__, error)
                seen = None
            with self._lock:
                self._pace.looked(began, self._monotonic())
            self._tell(asked, seen)

    def _await_look(self) -> list[int]:
        """Wait until it is time for a look, waking who is due meanwhile; answers for whom. Nobody after the end."""
        with self._lock:
            while not self._closed:
                now = self._monotonic()
                self._ring_due(now)
                asked = self._waited_for()
                if asked and self._pace.next_at <= now:
                    self._pace.looks(now, self._longest)
                    return asked
                times = [self._posts[subscription_id].due_at for subscription_id in asked]
                self._changed.wait(min([self._pace.next_at, *times]) - now if asked else None)
        return []

    def _ring_due(self, now: float) -> None:
        for post in self._posts.values():
            if post.waiting and post.due_at <= now:
                post.ring()
                self._pace.something_happened(now)  # what is due after it is not known

    def _tell(self, asked: Collection[int], seen: Mapping[int, Seen] | None) -> None:
        """Wake who has something due, an outdated policy, or trouble to hear of; else note what is due when."""
        with self._lock:
            now = self._monotonic()
            self._answered += seen is not None
            for subscription_id in asked:
                post = self._posts[subscription_id]
                found = None if seen is None else seen.get(subscription_id)
                if found is None or found.revision != post.revision or (found.due_in is not None and found.due_in <= 0):
                    post.ring()
                elif found.due_in is None:
                    post.due_at = math.inf
                else:
                    post.due_at = now + found.due_in + _CLOCK_STEP_SECONDS
