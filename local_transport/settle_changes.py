"""The changes that settles make, each as one statement or transaction: to deliveries, and to the lanes that they free.

Each is made of a batch of rows with ``ordinal``, ``token`` and ``lane``, and what else the change needs. It is fenced
on all three, the state ``leased`` and that nobody asked to cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.dml import ReturningUpdate, UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.details import KEY, upsert_details
from local_transport.dialects import Dialect
from local_transport.dialects.columns import Among, Later, Moment, Now
from local_transport.dialects.port import Change, Choice, Columns, Keyed
from local_transport.endings import Ending, into_history, into_tally, known_reason, without_details
from local_transport.lanes import follower_is_due, other_is_due
from local_transport.tables import delivery, lane

LEASE: Final[Columns] = {"ordinal": sa.BigInteger(), "token": sa.Integer()}
HELD: Final[Columns] = {**LEASE, "lane": sa.BigInteger()}
FAILURE: Final[Columns] = {"error_type": sa.Text(), "error_message": sa.Text(), "error_traceback": sa.Text()}
PROGRESS: Final[Columns] = {"percent": sa.Float(), "note": sa.Text(), "checkpoint": sa.Text()}

_SUBSCRIPTION: Final = sa.bindparam("subscription", type_=sa.Integer())
_NO_LANE: Final = 0  # in comparisons: null equals nothing, and a row is found by what equals


Returned = Sequence[sa.Column[Any]]  # what a change tells of each delivery that it changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of settle: what its batch has besides the proofs, what it does to deliveries, and to their lanes.

    ``lane_due`` is when the lane of a changed delivery is looked at next, ``emptied`` whether nothing in it may be due
    now. A lane is no longer held, unless the kind ``holds`` it on.
    """

    columns: Columns
    change: Callable[[Dialect, FromClause, Returned], Change]
    lane_due: Callable[[FromClause], sa.ColumnElement[Any]]
    emptied: Callable[[FromClause], sa.ColumnElement[bool]]
    holds: bool = False


def unlaned(kind: Kind, dialect: Dialect, rows: FromClause) -> Change:
    """The change for a batch whose rows have no lanes. It reads ordinal, token and lane first."""
    return kind.change(dialect, rows, _columns(_CHANGED))


def laned(kind: Kind, dialect: Dialect, rows: FromClause) -> Choice:
    """The change for a batch in which deliveries have lanes: made where nobody else holds the lane by now.

    It reads ordinal, token and lane first, and ``emptied`` for each, of lanes that may have nothing due now.
    """

    def change(held: FromClause) -> Change:
        plain = kind.change(dialect, held, _columns((*_CHANGED, *_OF_LANES)))
        return replace(
            plain,
            then=[*plain.then, lambda changed: _leave_lanes(kind, changed)],
            read=lambda changed: sa.select(
                changed.c.message_ordinal,
                changed.c.lease_token,
                changed.c.lane,
                changed.c.ordered,
                sa.case((changed.c.lane.is_not(None), kind.emptied(changed)), else_=sa.false()).label("emptied"),
            ),
        )

    return Choice(choose=_with_free_lanes(rows), change=change)


def _with_free_lanes(rows: FromClause) -> sa.CompoundSelect[Any]:
    """The rows without a lane, and those whose lanes, locked in sorted order, are held by them or by nobody."""
    mine = sa.or_(lane.c.held_ordinal.is_(None), lane.c.held_ordinal == rows.c.ordinal)
    held = (
        sa.select(*rows.c)
        .select_from(rows.join(lane, lane.c.lane == rows.c.lane))
        .where(
            lane.c.subscription_id == _SUBSCRIPTION, Among(lane.c.lane, sa.select(rows.c.lane).scalar_subquery()), mine
        )
        .order_by(lane.c.lane)
        .with_for_update(key_share=True, of=lane)
        .cte("of_held_lanes")
    )
    return sa.union_all(sa.select(*held.c), sa.select(*rows.c).where(rows.c.lane.is_(None)))


def _leave_lanes(kind: Kind, changed: FromClause) -> UpdateBase:
    mine = (lane.c.subscription_id == _SUBSCRIPTION, Among(lane.c.lane, sa.select(changed.c.lane).scalar_subquery()))
    held = changed.c.message_ordinal if kind.holds else sa.null()
    return (
        sa.update(lane)
        .values(due_at=kind.lane_due(changed), held_ordinal=held)
        .where(*mine, lane.c.lane == changed.c.lane)
    )


# --- Deliveries --------------------------------------------------------------------------------------------------


def _of(rows: FromClause) -> sa.ColumnElement[bool]:
    """Whether the delivery is one that ``rows`` tell of, found by its key whatever a database thinks of their number.

    As a mere condition PostgreSQL makes a join of it, and may compare each delivery in the table with each row.
    """
    own: list[sa.ColumnElement[Any]] = [delivery.c.message_ordinal, delivery.c.lease_token]
    told: list[sa.ColumnElement[Any]] = [rows.c.ordinal, rows.c.token]
    if "lane" in rows.c:
        own.append(sa.func.coalesce(delivery.c.lane, _NO_LANE))
        told.append(sa.func.coalesce(rows.c.lane, _NO_LANE))
    same = sa.tuple_(*own).in_(sa.select(*told)).is_(sa.true())
    return sa.and_(_keyed(rows), same, *(() if "lane" in rows.c else [delivery.c.lane.is_(None)]))


def _keyed(rows: FromClause) -> sa.ColumnElement[bool]:
    return Among(delivery.c.message_ordinal, sa.select(rows.c.ordinal).scalar_subquery())


def cancelled(rows: FromClause) -> sa.Select[Any]:
    """The leases in ``rows`` that are held still, but for deliveries that were cancelled."""
    held = delivery.c
    return sa.select(held.message_ordinal, held.lease_token, held.lane).where(
        _of(rows), *_leased(), held.cancel_requested
    )


def _update(rows: FromClause, values: Mapping[str, Any], returned: Returned) -> ReturningUpdate[Any]:
    """Set ``values`` in the deliveries that are held as ``rows`` say."""
    mine = (_keyed(rows), *_same(rows), *_fence())
    return sa.update(delivery).values(values).where(*mine).returning(*returned)


def _same(rows: FromClause) -> tuple[sa.ColumnElement[bool], ...]:
    """Whether a delivery and a row of the batch are of the same lease."""
    held = delivery.c
    same = (held.message_ordinal == rows.c.ordinal, held.lease_token == rows.c.token)
    if "lane" not in rows.c:
        return *same, held.lane.is_(None)
    return *same, sa.func.coalesce(held.lane, _NO_LANE) == sa.func.coalesce(rows.c.lane, _NO_LANE)


def _columns(names: Sequence[str]) -> Returned:
    return [delivery.c[name] for name in names]


_CHANGED: Final = ("message_ordinal", "lease_token", "lane", "subscription_id", "attempt")
_OF_LANES: Final = ("ordered", "due_at", "lease_expires_at")


def _is_of(rows: FromClause, changed: FromClause) -> sa.ColumnElement[bool]:
    """Whether the row of the batch is the one that changed the delivery: a batch may hold a stale lease of it too."""
    return sa.and_(rows.c.ordinal == changed.c.message_ordinal, rows.c.token == changed.c.lease_token)


def _leased() -> tuple[sa.ColumnElement[bool], ...]:
    held = delivery.c
    return held.subscription_id == _SUBSCRIPTION, held.state == "leased"


def _fence() -> tuple[sa.ColumnElement[bool], ...]:
    return *_leased(), ~delivery.c.cancel_requested


def _acknowledge(_dialect: Dialect, rows: FromClause, returned: Returned) -> Change:
    acknowledged = sa.delete(delivery).where(_of(rows), *_leased(), delivery.c.cancel_requested)
    return Change(
        change=acknowledged.returning(*returned),
        keyed=_deleted(rows, (*_leased(), delivery.c.cancel_requested)),
        then=[
            lambda gone: into_history(gone, "discarded", known_reason(gone)),
            lambda gone: into_tally(gone, "discarded"),
            without_details,
        ],
    )


def _deleted(rows: FromClause, fence: Sequence[sa.ColumnElement[bool]]) -> Keyed:
    """The deletion in steps: a row of the batch finds its delivery by the key."""
    key = sa.and_(delivery.c.message_ordinal == rows.c.ordinal, delivery.c.subscription_id == _SUBSCRIPTION)
    held = sa.select(delivery.c.message_ordinal).select_from(rows.join(delivery, key)).where(*_same(rows), *fence)

    def delete(those: sa.ColumnElement[bool]) -> sa.Delete:
        return sa.delete(delivery).where(those)

    own = delivery.c.subscription_id == _SUBSCRIPTION
    return Keyed(find=held, key=delivery.c.message_ordinal, within=own, change=delete)


def _finish(outcome: Ending) -> Callable[[Dialect, FromClause, Returned], Change]:
    def make(_dialect: Dialect, rows: FromClause, returned: Returned) -> Change:
        def keep(gone: FromClause) -> UpdateBase:
            if "reason" in rows.c:
                return into_history(gone, outcome, rows.c.reason, _is_of(rows, gone))
            return into_history(gone, outcome, sa.null())

        finished = sa.delete(delivery).where(_of(rows), *_fence())
        return Change(
            change=finished.returning(*returned),
            keyed=_deleted(rows, _fence()),
            then=[keep, lambda gone: into_tally(gone, outcome), without_details],
        )

    return make


def _retry(dialect: Dialect, rows: FromClause, returned: Returned) -> Change:
    values = {"state": "pending", "due_at": Later(Now(), rows.c.delay), "lease_expires_at": None, "ends_at": None}
    names = [*KEY, "failed_attempt", "failed_at", *FAILURE]

    def keep_failure(changed: FromClause) -> UpdateBase:
        return upsert_details(dialect, _failures(changed, rows), names, {})

    return Change(change=_update(rows, values, returned), then=[keep_failure])


def _dead_letter(dialect: Dialect, rows: FromClause, returned: Returned) -> Change:
    values = {"state": "dead", "due_at": None, "lease_expires_at": None, "ends_at": None, "dead_since": Now()}
    failure = ["failed_attempt", "failed_at", *FAILURE]

    def keep_reason(changed: FromClause) -> UpdateBase:
        source = _failures(changed, rows).add_columns(rows.c.reason)
        return upsert_details(dialect, source, [*KEY, *failure, "reason"], dict.fromkeys(failure, "error_type"))

    return Change(change=_update(rows, values, returned), then=[keep_reason])


def _failures(changed: FromClause, rows: FromClause) -> sa.Select[Any]:
    key = (changed.c.message_ordinal, changed.c.subscription_id)
    failure = (rows.c[name] for name in FAILURE)
    return sa.select(*key, changed.c.attempt, Now(), *failure).where(_is_of(rows, changed))


def _release(_dialect: Dialect, rows: FromClause, returned: Returned) -> Change:
    attempt = delivery.c.attempt - 1
    values = {"state": "pending", "due_at": Now(), "lease_expires_at": None, "ends_at": None, "attempt": attempt}
    return Change(change=_update(rows, values, returned))


def _renew(dialect: Dialect, rows: FromClause, returned: Returned) -> Change:
    ends = Later(Now(), rows.c.lease)
    values = {
        "lease_expires_at": ends,
        "due_at": Later(Now(), rows.c.hidden),
        "ends_at": sa.case((delivery.c.ends_at.is_not(None), ends), else_=sa.null()),
    }
    names = [*KEY, "progress_at", *PROGRESS]

    def keep_progress(changed: FromClause) -> UpdateBase:
        key = (changed.c.message_ordinal, changed.c.subscription_id)
        source = sa.select(*key, Now(), *(rows.c[name] for name in PROGRESS))
        reported = source.where(_is_of(rows, changed), rows.c.reports == 1)
        return upsert_details(dialect, reported, names, {name: name for name in PROGRESS})

    return Change(change=_update(rows, values, returned), then=[keep_progress])


# --- The kinds ---------------------------------------------------------------------------------------------------


def _now(_changed: FromClause) -> sa.ColumnElement[Any]:
    return Now()


def _never(_changed: FromClause) -> sa.ColumnElement[bool]:
    return sa.false()


def _without_follower(gone: FromClause) -> sa.ColumnElement[bool]:
    return sa.case((gone.c.ordered, ~follower_is_due(gone)), else_=~other_is_due(gone))


def _hidden(changed: FromClause) -> sa.ColumnElement[Any]:
    """An ordered lane waits with its head; an exclusive one goes on without it."""
    return sa.case((changed.c.ordered, sa.type_coerce(changed.c.due_at, Moment())), else_=Now())


def _alone_and_hidden(changed: FromClause) -> sa.ColumnElement[bool]:
    hidden = sa.and_(sa.type_coerce(changed.c.due_at, Moment()) > Now(), ~other_is_due(changed))
    return sa.case((changed.c.ordered, sa.false()), else_=hidden)


def _blocked(changed: FromClause) -> sa.ColumnElement[Any]:
    """A dead head blocks an ordered lane; an exclusive one goes on."""
    return sa.case((changed.c.ordered, sa.null()), else_=Now())


def _alone_and_dead(changed: FromClause) -> sa.ColumnElement[bool]:
    return sa.case((changed.c.ordered, sa.false()), else_=~other_is_due(changed))


def _lease_end(changed: FromClause) -> sa.ColumnElement[Any]:
    return sa.type_coerce(changed.c.lease_expires_at, Moment())


_TIMES: Final[Columns] = {"lease": sa.Float(), "hidden": sa.Float(), "reports": sa.Integer()}
_REASON: Final[Columns] = {"reason": sa.Text()}

COMPLETE: Final = Kind(columns={}, change=_finish("completed"), lane_due=_now, emptied=_without_follower)
DISCARD: Final = Kind(columns=_REASON, change=_finish("discarded"), lane_due=_now, emptied=_without_follower)
ACKNOWLEDGE: Final = Kind(columns={}, change=_acknowledge, lane_due=_now, emptied=_without_follower)
RETRY: Final = Kind(
    columns={"delay": sa.Float(), **FAILURE}, change=_retry, lane_due=_hidden, emptied=_alone_and_hidden
)
DEAD_LETTER: Final = Kind(
    columns={**_REASON, **FAILURE}, change=_dead_letter, lane_due=_blocked, emptied=_alone_and_dead
)
RELEASE: Final = Kind(columns={}, change=_release, lane_due=_now, emptied=_never)
RENEW: Final = Kind(columns={**_TIMES, **PROGRESS}, change=_renew, lane_due=_lease_end, emptied=_never, holds=True)
