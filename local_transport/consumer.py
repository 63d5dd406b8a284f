"""Handing out one subscription's deliveries, and settling them."""

from __future__ import annotations

import logging
import random as system_random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from local_transport.applied import AppliedSubscription, TopologyReader, unknown_subscription
from local_transport.claims import Claimed, Claims
from local_transport.connections import Database, run_again
from local_transport.details import ATTEMPTS_EXCEEDED
from local_transport.settles import Renewal, Settles
from local_transport.wakeups import Wakeups
from towpath.backoff import Random
from towpath.errors import Unsupported
from towpath.ports import Extension
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Delivery,
    Discard,
    Release,
    Retrial,
    Settled,
    SettleResult,
    SubscriptionPolicy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What the consumers of a transport share."""

    database: Database
    reader: TopologyReader
    settles: Settles
    wakeups: Wakeups
    log: logging.Logger
    random: Random = system_random.random
    monotonic: Callable[[], float] = time.monotonic


class DatabaseConsumer:
    """The consumer of one subscription. Thread-safe.

    Raises ``SubscriptionNotFound`` when it is made, and ``Unsupported`` for a partition mode that cannot be served.
    """

    def __init__(self, means: Means, name: str) -> None:
        self._means = means
        self._name = name
        self._applied = self._current()
        self._claims = self._claims_of(self._applied)
        self._stopped = False

    @property
    def policy(self) -> SubscriptionPolicy:
        """The policy by which its last claim was made, and by which it extends; the applied one before the first."""
        return self._applied.policy

    # Receiving

    def receive(self, limit: int, wait: timedelta) -> list[Delivery]:
        """At most ``limit`` deliveries, leased; waits up to ``wait`` for a first one. Raises ``TransportUnavailable``.

        What is due already is answered at once. After ``stop_receiving`` or ``close`` the answer is empty.
        """
        deadline = self._means.monotonic() + wait.total_seconds()
        wakeups, after_a_ring = self._means.wakeups, False
        while not (self._stopped or wakeups.closed):
            rings = wakeups.rings(self._applied.id)
            deliveries = self._claim(limit)
            left = deadline - self._means.monotonic()
            if deliveries or left <= 0:
                return deliveries
            wakeups.wait(self._applied, rings, left, after_a_ring=after_a_ring)
            after_a_ring = True
        return []

    def _claim(self, limit: int) -> list[Delivery]:
        """Claim, and again while a claim only made deliveries dead or was refused for an outdated policy."""
        while True:
            claimed = run_again(lambda: self._claims.claim(limit), self._means.random)
            self._report_ended(claimed)
            if claimed.deliveries:
                return claimed.deliveries
            if not claimed.ended and not self._is_outdated():
                return []

    def _is_outdated(self) -> bool:
        """Whether another policy is applied by now; then the next claim goes by that."""
        applied = self._current()
        if applied.revision == self._applied.revision:
            return False
        self._applied, self._claims = applied, self._claims_of(applied)
        return True

    def _current(self) -> AppliedSubscription:
        with self._means.database.reading() as connection:
            known = self._means.reader.current(connection).subscriptions
        if self._name not in known:
            raise unknown_subscription(self._name, known)
        return known[self._name]

    def _claims_of(self, applied: AppliedSubscription) -> Claims:
        if applied.is_partitioned:
            mode = applied.policy.partition_mode
            raise Unsupported(f"subscription {self._name!r} has partition mode {mode}, which no worker serves yet")
        return Claims(self._means.database, applied, self._means.random)

    def _report_ended(self, claimed: Claimed) -> None:
        for delivery_id in claimed.ended:
            facts = {"subscription": self._name, "delivery_id": delivery_id, "reason": ATTEMPTS_EXCEEDED}
            self._means.log.error("delivery dead", extra=facts | {"state": "dead"})

    # Settling

    def complete(self, completions: Sequence[Completion]) -> list[SettleResult]:
        """They are over, and counted."""
        return self._freed(self._means.settles.complete(self._applied.id, [c.delivery for c in completions]))

    def retry(self, retrials: Sequence[Retrial]) -> list[SettleResult]:
        """They come again after their delays; their failures are kept."""
        results = self._means.settles.retry(self._applied.id, retrials)
        done = [r for r, result in zip(retrials, results, strict=True) if isinstance(result, Settled)]
        if done:
            self._means.wakeups.due_in(self._applied.id, min(r.delay for r in done).total_seconds())
        return self._freed(results)

    def dead_letter(self, letters: Sequence[DeadLettering]) -> list[SettleResult]:
        """They are dead, and listed with reason and last error."""
        return self._freed(self._means.settles.dead_letter(self._applied.id, letters))

    def discard(self, discards: Sequence[Discard]) -> list[SettleResult]:
        """They are over, and counted as discarded."""
        return self._freed(self._means.settles.discard(self._applied.id, discards))

    def release(self, releases: Sequence[Release]) -> list[SettleResult]:
        """They are due at once, and the attempt did not count."""
        results = self._means.settles.release(self._applied.id, [r.delivery for r in releases])
        self._means.wakeups.due([self._applied.id])
        return results

    def acknowledge_cancel(self, acknowledgements: Sequence[CancelAcknowledgement]) -> list[SettleResult]:
        """They are over, and counted as discarded."""
        return self._freed(
            self._means.settles.acknowledge_cancel(self._applied.id, [a.delivery for a in acknowledgements])
        )

    def extend(self, extensions: Sequence[Extension]) -> list[SettleResult]:
        """They are held for another lease from now on, and their progress is kept."""
        policy = self._applied.policy
        renewals = [
            Renewal(
                delivery=extension.delivery,
                lease_seconds=policy.lease_seconds,
                backoff_seconds=self._backoff_seconds(policy, extension.delivery),
                progress=extension.progress,
            )
            for extension in extensions
        ]
        return self._means.settles.renew(self._applied.id, renewals)

    def _freed(self, results: list[SettleResult]) -> list[SettleResult]:
        """A settle frees the delivery's key: have this process look for what follows on it, and once it stops, others.

        While it goes on it has a free thread for that itself.
        """
        if self._applied.is_partitioned:
            tell = self._means.wakeups.due if self._stopped else self._means.wakeups.ring
            tell([self._applied.id])
        return results

    def _backoff_seconds(self, policy: SubscriptionPolicy, delivery: Delivery) -> float:
        """How long after its lease's end the delivery stays hidden; not at all when that is its end."""
        if delivery.attempt >= policy.max_attempts:
            return 0.0
        return policy.backoff.delay(delivery.attempt, self._means.random).total_seconds()

    def stop_receiving(self) -> None:
        """Let a waiting ``receive`` end, and claim nothing more."""
        self._stopped = True
        self._means.wakeups.ring([self._applied.id])

    def close(self) -> None:
        """The same. Leases run on."""
        self.stop_receiving()
