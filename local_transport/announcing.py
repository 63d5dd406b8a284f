"""Telling other processes in which subscriptions something has become due: seldom, and never too late."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

_WINDOW_SECONDS: Final = 0.005  # a process announces once in so long
_CLOSE_SECONDS: Final = 1.0  # what the last announcement gets
_IDS: Final = 500  # in one text: PostgreSQL takes less than 8,000 bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What one process tells the others: ids of subscriptions, and by whom, where the teller has no need of it."""

    subscriptions: frozenset[int]
    teller: str = ""

    def texts(self) -> Iterator[str]:
        """Texts that say it: ``12,13`` or ``12,13@teller``."""
        ids = [str(subscription_id) for subscription_id in sorted(self.subscriptions)]
        for start in range(0, max(len(ids), 1), _IDS):
            by = f"@{self.teller}" if self.teller else ""
            yield ",".join(ids[start : start + _IDS]) + by

    @classmethod
    def read(cls, text: str) -> Announcement:
        """The announcement in ``text``; one without ids for a text that is none, since anybody may use the channel."""
        ids, _, teller = text.partition("@")
        found = frozenset(int(written) for written in ids.split(",") if written.isdecimal())
        return cls(subscriptions=found, teller=teller)


class Announcer:
    """Announces for one process. Thread-safe.

    What is told first in a while is sent before ``tell`` returns; what is told within 5 ms of that, or while it is on
    its way, goes out together afterwards, by a thread. What cannot be sent is dropped: looks find what is due.
    """

    def __init__(self, send: Callable[[Announcement], None], teller: str, log: logging.Logger) -> None:
        """``send`` makes the others hear an announcement; ``teller`` names this process."""
        self.teller = teller
        self._send = send
        self._log = log
        self._changed = threading.Condition()
        self._untold: set[int] = set()
        self._sending = False
        self._not_before = 0.0  # monotonic seconds
        self._closed = False
        self._thread: threading.Thread | None = None

    def tell(self, subscription_ids: Collection[int]) -> None:
        """Something that others can see has become due in these subscriptions. Raises nothing."""
        with self._changed:
            self._untold.update(subscription_ids)
            if not self._may_send():
                self._have_sent_later()
                return
            self._sending = True
        self._send_untold()

    def greet(self) -> None:
        """Announce only that this process is there. Raises what sending raises."""
        self._send(Announcement(subscriptions=frozenset(), teller=self.teller))

    def close(self) -> None:
        """Send what waits, and nothing from then on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=_CLOSE_SECONDS)

    def _may_send(self) -> bool:
        return bool(self._untold) and not self._sending and time.monotonic() >= self._not_before

    def _have_sent_later(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._keep_sending, name="towpath-announcer", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _keep_sending(self) -> None:
        while True:
            with self._changed:
                while not self._may_send():
                    if self._closed and not (self._untold or self._sending):
                        return
                    left = self._not_before - time.monotonic()
                    self._changed.wait(left if self._untold and left > 0 else None)
                self._sending = True
            self._send_untold()

    def _send_untold(self) -> None:
        with self._changed:
            announcement = Announcement(subscriptions=frozenset(self._untold), teller=self.teller)
            self._untold.clear()
            self._not_before = time.monotonic() + _WINDOW_SECONDS
        try:
            self._send(announcement)
        except Exception as error:  # noqa: BLE001 - what was to be announced has been done, and is found by looks
            self._log.debug("other processes were not told: %s: %s", type(error).__name__, error)
        finally:
            with self._changed:
                self._sending = False
                self._changed.notify_all()
