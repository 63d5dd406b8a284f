"""Waking those who wait for deliveries: by word from this process and from others, and by looks."""

from __future__ import annotations

import logging
import random as system_random
import time
from collections.abc import Callable, Collection
from typing import Final

from sqlalchemy.engine import Connection

from local_transport.announcing import Announcement, Announcer
from local_transport.applied import AppliedSubscription
from local_transport.connections import Database
from local_transport.hearing import Hearing
from local_transport.lookout import LONGEST_SECONDS, Lookout
from local_transport.looks import Look
from towpath.backoff import Random

_TELLER_BYTES: Final = 4


class Wakeups:
    """The wake-ups of one process on one database. Thread-safe; it has threads once somebody waits.

    Nothing here is relied on: a delivery is due when the database says so, and a look finds it within seconds.
    """

    def __init__(
        self,
        database: Database,
        log: logging.Logger,
        random_bytes: Callable[[int], bytes],
        random: Random = system_random.random,
    ) -> None:
        """``random_bytes`` gives this process a name among the others."""
        self._database = database
        self._random = random
        self._signals = database.signals()
        self._lookout = Lookout(Look(database).take, time.monotonic, log)
        self._announcer: Announcer | None = None
        self._hearing: Hearing | None = None
        if self._signals is not None:
            if self._signals.are_announced:
                self._announcer = Announcer(self._send, random_bytes(_TELLER_BYTES).hex(), log)
            self._hearing = Hearing(self._signals, self._lookout, self._announcer, log)

    # Waiting

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._lookout.closed

    def rings(self, subscription_id: int) -> int:
        """How often the subscription was rung for: to be read before a claim, so that no ring is missed."""
        return self._lookout.rings(subscription_id)

    def wait(self, applied: AppliedSubscription, rings: int, seconds: float, *, after_a_ring: bool) -> None:
        """Wait for a ring after ``rings``, for ``seconds`` at most. A claim by ``applied`` has found nothing just now.

        ``after_a_ring`` says that it was made because of one, so that there is less hope than at first.
        """
        if self._hearing is not None:
            self._hearing.start(self._random)
        self._lookout.wait(applied.id, rings, seconds, revision=applied.revision, after_a_ring=after_a_ring)

    def ring(self, subscription_ids: Collection[int]) -> None:
        """Wake those who wait for these subscriptions in this process, and tell nobody else."""
        self._lookout.ring(subscription_ids)

    # Telling

    def due(self, subscription_ids: Collection[int]) -> None:
        """Deliveries of these subscriptions have become due, or claimable, in a transaction that is committed."""
        self._lookout.ring(subscription_ids)
        if self._announcer is not None:
            self._announcer.tell(subscription_ids)

    def due_in(self, subscription_id: int, seconds: float) -> None:
        """A delivery of the subscription becomes due so long after what was committed just now."""
        if seconds <= 0:
            self.due([subscription_id])
            return
        self._lookout.expect(subscription_id, seconds)
        if self._announcer is not None and seconds < LONGEST_SECONDS:  # later, the others' looks have seen it
            self._announcer.tell([subscription_id])

    def due_at_commit(self, connection: Connection, subscription_ids: Collection[int]) -> None:
        """Deliveries of these become due when the caller commits the transaction of ``connection``.

        Raises the database's own errors, which concern that transaction.
        """
        if self._signals is not None and self._signals.are_announced and subscription_ids:
            for text in Announcement(subscriptions=frozenset(subscription_ids)).texts():
                self._signals.announce(connection, text)

    def close(self) -> None:
        """Tell what is still to be told, wake everybody, and hear no more."""
        self._lookout.close()
        if self._announcer is not None:
            self._announcer.close()
        if self._hearing is not None:
            self._hearing.close()

    def _send(self, announcement: Announcement) -> None:
        if self._signals is not None:
            with self._database.reading() as connection:  # in autocommit, so each is on its way at once
                for text in announcement.texts():
                    self._signals.announce_now(connection, text)
