"""Settling deliveries that are held under a lease, and renewing leases: one conditional change for each batch.

A change is fenced on the delivery's id, its lease token, the state ``leased`` and that nobody asked to cancel it. The
token counts the delivery's claims, so it is another one after the next claim. A lease is stale when somebody else has
acted on the delivery: claimed it again, made it dead, or cancelled it. That its time is over does not make it stale:
until somebody else claims the delivery nobody has begun to redo the work, and to refuse the answer would only have
the handler run twice. Amazon SQS treats a receipt handle of a standard queue in the same way.

The lease of a delivery with a partition key is stale as well when another delivery was handed out for the key: a settle
needs the key's lane, held by this delivery or by nobody.

Of a delivery that an operator cancelled the holder can only acknowledge that; every other change is refused with
``CancelRequested``, so that the holder knows what to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, Literal

from local_transport import settle_changes as changes
from local_transport.connections import Database, run_again
from local_transport.details import failure_texts, kept_text
from local_transport.dialects.port import Rows
from local_transport.lanes import Emptied, LaneMode, Lanes
from towpath.context import Progress
from towpath.errors import TransportRejected, TransportUnavailable
from towpath.message import ABSENT
from towpath.settlement import (
    CancelRequested,
    DeadLettering,
    Delivery,
    Discard,
    Failed,
    LeaseLost,
    Retrial,
    Settled,
    SettleResult,
)

State = Literal["completed", "pending", "leased", "dead", "discarded"]
_Proof = tuple[int, int, int | None]

_LARGEST: Final = 2**63 - 1
_LARGEST_TOKEN: Final = 2**31 - 1
_PROOF: Final = re.compile(r"([0-9]{1,19}) ([0-9]{1,10})(?:\.(-?[0-9]{1,19}))?")
_NOTHING: Final = (-1, -1, None)
_place: Final = itemgetter(0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A lease to renew: for ``lease_seconds`` from now, and due again ``backoff_seconds`` after its end."""

    delivery: Delivery
    lease_seconds: float
    backoff_seconds: float
    progress: Progress | None


class Settles:
    """The changes that a holder of leases makes, for all subscriptions of a database. Thread-safe.

    Each method takes the subscription's id and a batch, changes what is still held, and answers in the batch's order.
    A database that does not answer gives ``Failed``: then the change may have been made or not, and it is safe to ask
    for it again; if it was made, the lease is no longer held, and the answer is ``LeaseLost``.
    """

    def __init__(self, database: Database) -> None:
        lanes = Lanes(database)
        self._complete = _Settle(database, lanes, changes.COMPLETE)
        self._discard = _Settle(database, lanes, changes.DISCARD)
        self._acknowledge = _Settle(database, lanes, changes.ACKNOWLEDGE)
        self._retry = _Settle(database, lanes, changes.RETRY)
        self._dead_letter = _Settle(database, lanes, changes.DEAD_LETTER)
        self._release = _Settle(database, lanes, changes.RELEASE)
        self._renew = _Settle(database, lanes, changes.RENEW)

    def complete(self, subscription_id: int, deliveries: Sequence[Delivery]) -> list[SettleResult]:
        """They leave the table, and history has them."""
        return self._complete.run(subscription_id, [(held, ()) for held in deliveries], "completed")

    def discard(self, subscription_id: int, discards: Sequence[Discard]) -> list[SettleResult]:
        """They leave the table, and history has them with the reason."""
        rows = [(discard.delivery, (kept_text(discard.reason),)) for discard in discards]
        return self._discard.run(subscription_id, rows, "discarded")

    def retry(self, subscription_id: int, retrials: Sequence[Retrial]) -> list[SettleResult]:
        """Due again after the delay, with the failure kept as last error."""
        rows = [(r.delivery, (r.delay.total_seconds(), *failure_texts(r.failure))) for r in retrials]
        return self._retry.run(subscription_id, rows, "pending")

    def dead_letter(self, subscription_id: int, letters: Sequence[DeadLettering]) -> list[SettleResult]:
        """Dead, with the reason, and the failure where there is one: else the last error stays."""
        rows = [(le.delivery, (kept_text(le.reason), *failure_texts(le.failure))) for le in letters]
        return self._dead_letter.run(subscription_id, rows, "dead")

    def release(self, subscription_id: int, deliveries: Sequence[Delivery]) -> list[SettleResult]:
        """Due now, as if it had not been claimed: the attempt is given back."""
        return self._release.run(subscription_id, [(held, ()) for held in deliveries], "pending")

    def acknowledge_cancel(self, subscription_id: int, deliveries: Sequence[Delivery]) -> list[SettleResult]:
        """Cancelled deliveries leave the table, and history has them with the operator's reason."""
        return self._acknowledge.run(subscription_id, [(held, ()) for held in deliveries], "discarded")

    def renew(self, subscription_id: int, renewals: Sequence[Renewal]) -> list[SettleResult]:
        """Held for another lease from now on; what the progress reports is kept, what it leaves out stays.

        One of each lane at a time: of several whose time is over the first has the lane again, and refuses the others.
        """
        answers: dict[int, SettleResult] = {}
        left = dict(enumerate(renewals))
        while left:
            batch = _first_of_each_lane(left)
            rows = [(r.delivery, _renewal_values(r)) for r in batch.values()]
            answers |= zip(batch, self._renew.run(subscription_id, rows, "leased"), strict=True)
            left = {place: renewal for place, renewal in left.items() if place not in batch}
        return [answers[place] for place in range(len(renewals))]


class _Settle:
    """One kind of change, made ready: for batches with lanes and without."""

    def __init__(self, database: Database, lanes: Lanes, kind: changes.Kind) -> None:
        dialect = database.dialect
        self._database = database
        self._lanes = lanes
        self._unlaned = dialect.batch("settled", {**changes.LEASE, **kind.columns})
        self._laned = dialect.batch("settled", {**changes.HELD, **kind.columns})
        self._unlaned_plan = dialect.plan(changes.unlaned(kind, dialect, self._unlaned.rows))
        self._laned_plan = dialect.plan(changes.laned(kind, dialect, self._laned.rows))
        self._refused = dialect.batch("refused", changes.HELD)
        self._look = dialect.statement(changes.cancelled(self._refused.rows))

    def run(
        self, subscription_id: int, settled: Sequence[tuple[Delivery, tuple[Any, ...]]], state: State
    ) -> list[SettleResult]:
        """Make the change for the deliveries and values in ``settled``; those still held are ``state`` now."""
        if not settled:
            return []
        proofs = [_proof(held) for held, _ in settled]
        values: dict[_Proof, tuple[Any, ...]] = {}
        for proof, (_, own) in zip(proofs, settled, strict=True):
            values.setdefault(proof, own)
        in_order = sorted(values, key=_place)  # so that two changes rarely cross
        if any(lane is not None for _, _, lane in in_order):
            change, bound = self._change_laned, self._laned.bind([(*proof, *values[proof]) for proof in in_order])
        else:
            rows = [(ordinal, token, *values[ordinal, token, None]) for ordinal, token, _ in in_order]
            change, bound = self._change_unlaned, self._unlaned.bind(rows)
        parameters = bound | {"subscription": subscription_id}
        try:
            changed = run_again(lambda: change(parameters))
            if len(changed) == len(settled):
                return [Settled(state=state)] * len(settled)
            done: set[tuple[Any, ...]] = {row[:3] for row in changed}
            cancelled = self._cancelled(subscription_id, [proof for proof in in_order if proof not in done])
        except (TransportRejected, TransportUnavailable) as error:
            return [Failed(error=str(error)) for _ in settled]
        return [_answer(proof, done, cancelled, state) for proof in proofs]

    def _change_unlaned(self, parameters: Mapping[str, Any]) -> Rows:
        with self._database.changing() as connection:
            return self._unlaned_plan.run(connection, parameters)

    def _change_laned(self, parameters: Mapping[str, Any]) -> Rows:
        def emptied(changed: Rows) -> Emptied:
            found = [row for row in changed if row.emptied]
            mode: LaneMode = "ordered" if found and found[0].ordered else "exclusive"  # a subscription has one mode
            return Emptied(subscription_id=parameters["subscription"], mode=mode, lanes=[row.lane for row in found])

        return self._lanes.change(self._laned_plan, parameters, emptied)[0]

    def _cancelled(self, subscription_id: int, proofs: Sequence[_Proof]) -> frozenset[_Proof]:
        """Which of these leases are held still, but for deliveries that were cancelled."""
        if not proofs:
            return frozenset()
        parameters = self._refused.bind(proofs) | {"subscription": subscription_id}
        with self._database.reading() as connection:
            found = self._look.run(connection, parameters)
            return frozenset((row.message_ordinal, row.lease_token, row.lane) for row in found)


def _proof(held: Delivery) -> _Proof:
    """The ordinal, token and lane that the fence compares; what this transport never gave out matches nothing."""
    match = _PROOF.fullmatch(f"{held.id.partition('-')[0]} {held.lease_token}")
    if match is None:
        return _NOTHING
    texts = match.groups()
    ordinal, token = int(texts[0]), int(texts[1])
    lane = None if texts[2] is None else int(texts[2])
    if ordinal > _LARGEST or token > _LARGEST_TOKEN:
        return _NOTHING
    return _NOTHING if lane is not None and not -_LARGEST <= lane <= _LARGEST else (ordinal, token, lane)


def _answer(proof: _Proof, done: set[tuple[Any, ...]], cancelled: frozenset[_Proof], state: State) -> SettleResult:
    if proof in done:
        done.remove(proof)  # the same delivery twice in a batch is settled once
        return Settled(state=state)
    return CancelRequested() if proof in cancelled else LeaseLost()


def _first_of_each_lane(renewals: Mapping[int, Renewal]) -> dict[int, Renewal]:
    """By their places; those without a lane are not in each other's way."""
    first: dict[str, int] = {}
    for place, renewal in renewals.items():
        lane = renewal.delivery.lease_token.partition(".")[2]
        first.setdefault(lane or f"none, {place}", place)
    return {place: renewals[place] for place in first.values()}


def _renewal_values(renewal: Renewal) -> tuple[Any, ...]:
    hidden = renewal.lease_seconds + renewal.backoff_seconds
    return renewal.lease_seconds, hidden, *_progress_values(renewal.progress)


def _progress_values(progress: Progress | None) -> tuple[Any, ...]:
    if progress is None:
        return 0, None, None, None
    checkpoint = None if progress.checkpoint is ABSENT else json.dumps(progress.checkpoint, ensure_ascii=False)
    return 1, progress.percent, kept_text(progress.note) or None, checkpoint
