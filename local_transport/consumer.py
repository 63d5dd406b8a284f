"""Handing out one subscription's deliveries, and settling them."""

from __future__ import annotations

import logging
import random as system_random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from local_transport.applied import AppliedSubscription, TopologyReader, unknown_subscription
from local_transport.claims import Claims
from local_transport.connections import Database, run_again
from local_transport.details import ATTEMPTS_EXCEEDED
from local_transport.lane_claims import PartitionedClaims
from local_transport.leasing import Claimed
from local_transport.repeats import Change, Repeats
from local_transport.settles import Renewal, Settles
from local_transport.wakeups import Wakeups
from towpath.backoff import Random
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

EXPIRED: Final = "Expired"  # why a delivery was discarded

_IN_VAIN: Final = 2  # claims after which one that was woken leaves nothing out: the look has seen something


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

    Raises ``SubscriptionNotFound`` when it is made.
    """

    def __init__(self, means: Means, name: str) -> None:
        self._means = means
        self._name = name
        self._applied = self._current()
        self._claims = self._claims_of(self._applied)
        self._repeats = Repeats(means.database, means.monotonic)
        self._all_taken_at: int | None = None  # how often it had rung before a claim that found too few
        self._stopped = False

    @property
    def policy(self) -> SubscriptionPolicy:
        """The policy by which its last claim was made, and by which it extends; the applied one before the first."""
        return self._applied.policy

    # Receiving

    def receive(self, limit: int, wait: timedelta) -> list[Delivery]:
        """At most ``limit`` deliveries, leased; waits up to ``wait`` for a first one. Raises ``TransportUnavailable``.

        What is due already is answered at once; but while nothing was heard of since a claim found less than it asked
        for, one that may wait leaves it to the look, which comes soon. After ``stop_receiving`` or ``close`` the answer
        is empty.
        """
        deadline = self._means.monotonic() + wait.total_seconds()
        wakeups, in_vain = self._means.wakeups, 0
        while not (self._stopped or wakeups.closed):
            rings = wakeups.rings(self._applied.id)
            if in_vain or wait <= timedelta(0) or rings != self._all_taken_at:
                claimed = self._claim(limit, leave_out=wait > timedelta(0) and in_vain < _IN_VAIN)
                self._all_taken_at = rings if claimed.count < limit else None
                if claimed.deliveries:
                    return claimed.deliveries
            left = deadline - self._means.monotonic()
            if left <= 0:
                return []
            wakeups.wait(self._applied, rings, left, after_a_ring=in_vain > 0)
            in_vain += 1
        return []

    def _claim(self, limit: int, *, leave_out: bool) -> Claimed:
        """Claim, and again while a claim only ended deliveries or was refused for an outdated policy.

        Who does not wait is told all there is; who waits may leave out what a look would tell of soon enough.
        """
        while True:
            claim = self._claims.claim if leave_out else self._claims.claim_all
            claimed = run_again(partial(claim, limit), self._means.random)
            self._end(claimed)
            if claimed.deliveries or (not claimed.count and not self._is_outdated()):
                return claimed

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

    def _claims_of(self, applied: AppliedSubscription) -> Claims | PartitionedClaims:
        make = PartitionedClaims if applied.is_partitioned else Claims
        return make(self._means.database, applied, self._means.random, self._means.monotonic)

    def _end(self, claimed: Claimed) -> None:
        """Have nobody handle what is over: past its expiry, cancelled while its holder was gone, or dead by this claim.

        Should the database not answer, it is met again when the lease of this claim ends.
        """
        for delivery_id in claimed.ended:
            self._report(delivery_id, "dead", ATTEMPTS_EXCEEDED)
        if claimed.expired:
            discards = [Discard(delivery=delivery, reason=EXPIRED) for delivery in claimed.expired]
            self._report_discarded(claimed.expired, self.discard(discards), EXPIRED)
        if claimed.cancelled:
            acknowledged = [CancelAcknowledgement(delivery=delivery) for delivery in claimed.cancelled]
            self._report_discarded(claimed.cancelled, self.acknowledge_cancel(acknowledged), "cancelled")

    def _report_discarded(self, deliveries: list[Delivery], results: list[SettleResult], reason: str) -> None:
        for delivery, result in zip(deliveries, results, strict=True):
            if isinstance(result, Settled):
                self._report(delivery.id, result.state, reason)

    def _report(self, delivery_id: str, state: str, reason: str) -> None:
        level = logging.ERROR if state == "dead" else logging.INFO
        facts = {"subscription": self._name, "delivery_id": delivery_id, "state": state, "reason": reason}
        self._means.log.log(level, "delivery %s", state, extra=facts)

    # Settling

    def complete(self, completions: Sequence[Completion]) -> list[SettleResult]:
        """They are over, and counted."""
        held = [c.delivery for c in completions]
        return self._freed("completed", held, self._means.settles.complete(self._applied.id, held))

    def retry(self, retrials: Sequence[Retrial]) -> list[SettleResult]:
        """They come again after their delays; their failures are kept."""
        held = [r.delivery for r in retrials]
        results = self._freed("retried", held, self._means.settles.retry(self._applied.id, retrials))
        done = [r for r, result in zip(retrials, results, strict=True) if isinstance(result, Settled)]
        if done:
            self._means.wakeups.due_in(self._applied.id, min(r.delay for r in done).total_seconds())
        return results

    def dead_letter(self, letters: Sequence[DeadLettering]) -> list[SettleResult]:
        """They are dead, and listed with reason and last error."""
        held = [letter.delivery for letter in letters]
        return self._freed("dead", held, self._means.settles.dead_letter(self._applied.id, letters))

    def discard(self, discards: Sequence[Discard]) -> list[SettleResult]:
        """They are over, and counted as discarded."""
        held = [d.delivery for d in discards]
        return self._freed("discarded", held, self._means.settles.discard(self._applied.id, discards))

    def release(self, releases: Sequence[Release]) -> list[SettleResult]:
        """They are due at once, and the attempt did not count."""
        held = [r.delivery for r in releases]
        results = self._means.settles.release(self._applied.id, held)
        self._means.wakeups.due([self._applied.id])
        return self._repeats.told(self._applied.id, "released", held, results)

    def acknowledge_cancel(self, acknowledgements: Sequence[CancelAcknowledgement]) -> list[SettleResult]:
        """They are over, and counted as discarded."""
        held = [a.delivery for a in acknowledgements]
        return self._freed("discarded", held, self._means.settles.acknowledge_cancel(self._applied.id, held))

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

    def _freed(self, change: Change, held: Sequence[Delivery], results: list[SettleResult]) -> list[SettleResult]:
        """A settle frees the delivery's key: have this process look for what follows on it, and once it stops, others.

        While it goes on it has a free thread for that itself. Answers the results, true also for what is asked again.
        """
        if self._applied.is_partitioned:
            tell = self._means.wakeups.due if self._stopped else self._means.wakeups.ring
            tell([self._applied.id])
        return self._repeats.told(self._applied.id, change, held, results)

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
