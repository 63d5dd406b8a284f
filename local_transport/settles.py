"""Settling deliveries that are held under a lease, and renewing leases: one conditional change for each batch.

A change is fenced on the delivery's id, its lease token, the state ``leased`` and that nobody asked to cancel it. The
token counts the delivery's claims, so it is another one after the next claim. A lease is stale when somebody else has
acted on the delivery: claimed it again, made it dead, or cancelled it. That its time is over does not make it stale:
until somebody else claims the delivery nobody has begun to redo the work, and to refuse the answer would only have
the handler run twice. Amazon SQS treats a receipt handle of a standard queue in the same way.

Of a delivery that an operator cancelled the holder can only acknowledge that; every other change is refused with
``CancelRequested``, so that the holder knows what to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.connections import Database, run_again
from local_transport.details import KEY, failure_texts, kept_text, upsert_details
from local_transport.dialects import Dialect
from local_transport.dialects.columns import Later, Now
from local_transport.dialects.port import Change, Columns, Rows
from local_transport.endings import Ending, into_history, into_tally, known_reason, without_details
from local_transport.tables import delivery
from towpath.context import Progress
from towpath.errors import TransportUnavailable
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
_Proof = tuple[int, int]

_HELD: Final[Columns] = {"ordinal": sa.BigInteger(), "token": sa.Integer()}
_FAILURE: Final[Columns] = {"error_type": sa.Text(), "error_message": sa.Text(), "error_traceback": sa.Text()}
_PROGRESS: Final[Columns] = {"percent": sa.Float(), "note": sa.Text(), "checkpoint": sa.Text()}
_LARGEST_ORDINAL: Final = 2**63 - 1
_LARGEST_TOKEN: Final = 2**31 - 1
_NOTHING: Final = (-1, -1)


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
        self._complete = _Settle(database, {}, _finish("completed"))
        self._discard = _Settle(database, {"reason": sa.Text()}, _finish("discarded"))
        self._acknowledge = _Settle(database, {}, _acknowledge)
        self._retry = _Settle(database, {"delay": sa.Float(), **_FAILURE}, _retry)
        self._dead_letter = _Settle(database, {"reason": sa.Text(), **_FAILURE}, _dead_letter)
        self._release = _Settle(database, {}, _release)
        times: Columns = {"lease": sa.Float(), "hidden": sa.Float(), "reports": sa.Integer()}
        self._renew = _Settle(database, {**times, **_PROGRESS}, _renew)

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
        """Held for another lease from now on; what the progress reports is kept, what it leaves out stays."""
        rows = [
            (r.delivery, (r.lease_seconds, r.lease_seconds + r.backoff_seconds, *_progress_values(r.progress)))
            for r in renewals
        ]
        return self._renew.run(subscription_id, rows, "leased")


class _Settle:
    """One kind of change, made ready: which columns its batch has besides id and token, and how it is made."""

    def __init__(self, database: Database, columns: Columns, make: Callable[[Dialect, FromClause], Change]) -> None:
        self._database = database
        self._batch = database.dialect.batch("settled", {**_HELD, **columns})
        self._plan = database.dialect.plan(make(database.dialect, self._batch.rows))
        self._refused = database.dialect.batch("refused", _HELD)
        self._look = database.dialect.statement(_cancelled(self._refused.rows))

    def run(
        self, subscription_id: int, settled: Sequence[tuple[Delivery, tuple[Any, ...]]], state: State
    ) -> list[SettleResult]:
        """Make the change for the deliveries and values in ``settled``; those still held are ``state`` now."""
        if not settled:
            return []
        proofs = [_proof(held) for held, _ in settled]
        rows: dict[_Proof, tuple[Any, ...]] = {}
        for proof, (_, values) in zip(proofs, settled, strict=True):
            rows.setdefault(proof, (*proof, *values))
        in_order = [rows[proof] for proof in sorted(rows)]  # so that two changes of the same rows rarely cross
        parameters = self._batch.bind(in_order) | {"subscription": subscription_id}
        try:
            changed = run_again(lambda: self._change(parameters))
            done = {(row.message_ordinal, row.lease_token) for row in changed}
            cancelled = self._cancelled(subscription_id, sorted(rows.keys() - done))
        except TransportUnavailable as error:
            return [Failed(error=str(error)) for _ in settled]
        return [_answer(proof, done, cancelled, state) for proof in proofs]

    def _change(self, parameters: Mapping[str, Any]) -> Rows:
        with self._database.changing() as connection:
            return self._plan.run(connection, parameters)

    def _cancelled(self, subscription_id: int, proofs: Sequence[_Proof]) -> frozenset[_Proof]:
        """Which of these leases are held still, but for deliveries that were cancelled."""
        if not proofs:
            return frozenset()
        parameters = self._refused.bind(proofs) | {"subscription": subscription_id}
        with self._database.reading() as connection:
            found = self._look.run(connection, parameters)
            return frozenset((row.message_ordinal, row.lease_token) for row in found)


def _proof(held: Delivery) -> _Proof:
    """The ordinal and token that the fence compares; what this transport never gave out matches nothing."""
    ordinal, token = held.id.partition("-")[0], held.lease_token
    if not (ordinal.isdecimal() and token.isdecimal()):
        return _NOTHING
    proof = int(ordinal), int(token)
    return proof if proof[0] <= _LARGEST_ORDINAL and proof[1] <= _LARGEST_TOKEN else _NOTHING


def _answer(proof: _Proof, done: set[_Proof], cancelled: frozenset[_Proof], state: State) -> SettleResult:
    if proof in done:
        done.remove(proof)  # the same delivery twice in a batch is settled once
        return Settled(state=state)
    return CancelRequested() if proof in cancelled else LeaseLost()


def _progress_values(progress: Progress | None) -> tuple[Any, ...]:
    if progress is None:
        return 0, None, None, None
    checkpoint = None if progress.checkpoint is ABSENT else json.dumps(progress.checkpoint, ensure_ascii=False)
    return 1, progress.percent, kept_text(progress.note) or None, checkpoint


# --- The changes -------------------------------------------------------------------------------------------------


def _update(rows: FromClause, values: Mapping[str, Any]) -> sa.sql.dml.ReturningUpdate[Any]:
    """Set ``values`` in the deliveries that are held as ``rows`` say."""
    held = delivery.c
    same = (held.message_ordinal == rows.c.ordinal, held.lease_token == rows.c.token)
    return sa.update(delivery).values(values).where(*same, *_fence()).returning(*_changed())


def _changed() -> tuple[sa.Column[Any], ...]:
    held = delivery.c
    return held.message_ordinal, held.subscription_id, held.lease_token, held.attempt


def _is_of(rows: FromClause, changed: FromClause) -> sa.ColumnElement[bool]:
    """Whether the row of the batch is the one that changed the delivery: a batch may hold a stale lease of it too."""
    return sa.and_(rows.c.ordinal == changed.c.message_ordinal, rows.c.token == changed.c.lease_token)


def _leased() -> tuple[sa.ColumnElement[bool], ...]:
    held = delivery.c
    return held.subscription_id == sa.bindparam("subscription", type_=sa.Integer()), held.state == "leased"


def _fence() -> tuple[sa.ColumnElement[bool], ...]:
    return *_leased(), ~delivery.c.cancel_requested


def _of(rows: FromClause) -> sa.ColumnElement[bool]:
    held = delivery.c
    return sa.tuple_(held.message_ordinal, held.lease_token).in_(sa.select(rows.c.ordinal, rows.c.token))


def _cancelled(rows: FromClause) -> sa.Select[Any]:
    held = delivery.c
    return sa.select(held.message_ordinal, held.lease_token).where(_of(rows), *_leased(), held.cancel_requested)


def _acknowledge(_dialect: Dialect, rows: FromClause) -> Change:
    acknowledged = sa.delete(delivery).where(_of(rows), *_leased(), delivery.c.cancel_requested)
    return Change(
        change=acknowledged.returning(*_changed()),
        then=[
            lambda gone: into_history(gone, "discarded", known_reason(gone)),
            lambda gone: into_tally(gone, "discarded"),
            without_details,
        ],
    )


def _finish(outcome: Ending) -> Callable[[Dialect, FromClause], Change]:
    def make(_dialect: Dialect, rows: FromClause) -> Change:
        def keep(gone: FromClause) -> UpdateBase:
            if "reason" in rows.c:
                return into_history(gone, outcome, rows.c.reason, _is_of(rows, gone))
            return into_history(gone, outcome, sa.null())

        finished = sa.delete(delivery).where(_of(rows), *_fence())
        return Change(
            change=finished.returning(*_changed()),
            then=[keep, lambda gone: into_tally(gone, outcome), without_details],
        )

    return make


def _retry(dialect: Dialect, rows: FromClause) -> Change:
    values = {"state": "pending", "due_at": Later(Now(), rows.c.delay), "lease_expires_at": None, "ends_at": None}
    names = [*KEY, "failed_attempt", "failed_at", *_FAILURE]

    def keep_failure(changed: FromClause) -> UpdateBase:
        return upsert_details(dialect, _failures(changed, rows), names, {})

    return Change(change=_update(rows, values), then=[keep_failure])


def _dead_letter(dialect: Dialect, rows: FromClause) -> Change:
    values = {"state": "dead", "due_at": None, "lease_expires_at": None, "ends_at": None, "dead_since": Now()}
    failure = ["failed_attempt", "failed_at", *_FAILURE]

    def keep_reason(changed: FromClause) -> UpdateBase:
        source = _failures(changed, rows).add_columns(rows.c.reason)
        return upsert_details(dialect, source, [*KEY, *failure, "reason"], dict.fromkeys(failure, "error_type"))

    return Change(change=_update(rows, values), then=[keep_reason])


def _failures(changed: FromClause, rows: FromClause) -> sa.Select[Any]:
    key = (changed.c.message_ordinal, changed.c.subscription_id)
    failure = (rows.c[name] for name in _FAILURE)
    return sa.select(*key, changed.c.attempt, Now(), *failure).where(_is_of(rows, changed))


def _release(_dialect: Dialect, rows: FromClause) -> Change:
    attempt = delivery.c.attempt - 1
    values = {"state": "pending", "due_at": Now(), "lease_expires_at": None, "ends_at": None, "attempt": attempt}
    return Change(change=_update(rows, values))


def _renew(dialect: Dialect, rows: FromClause) -> Change:
    ends = Later(Now(), rows.c.lease)
    values = {
        "lease_expires_at": ends,
        "due_at": Later(Now(), rows.c.hidden),
        "ends_at": sa.case((delivery.c.ends_at.is_not(None), ends), else_=sa.null()),
    }
    names = [*KEY, "progress_at", *_PROGRESS]

    def keep_progress(changed: FromClause) -> UpdateBase:
        key = (changed.c.message_ordinal, changed.c.subscription_id)
        source = sa.select(*key, Now(), *(rows.c[name] for name in _PROGRESS))
        reported = source.where(_is_of(rows, changed), rows.c.reports == 1)
        return upsert_details(dialect, reported, names, {name: name for name in _PROGRESS})

    return Change(change=_update(rows, values), then=[keep_progress])
