"""Settles that are asked for again after an answer that did not come: were they made the first time?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.dialects.columns import Later, Now
from local_transport.tables import delivery, history
from towpath.errors import TransportRejected, TransportUnavailable
from towpath.settlement import Delivery, Failed, LeaseLost, Settled, SettleResult

Change = Literal["completed", "discarded", "retried", "released", "dead"]

_MARGIN_SECONDS: Final = 60.0  # from the change to the answer that did not come
_KEPT_SECONDS: Final = 3_600.0  # nobody asks again after so long
_STATES: Final[Mapping[Change, Literal["completed", "discarded", "pending", "dead"]]] = {
    "completed": "completed",
    "discarded": "discarded",
    "retried": "pending",
    "released": "pending",
    "dead": "dead",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What there is of a delivery: its row while it is open or dead, and how it ended if it did so lately."""

    state: str | None
    token: int | None
    attempt: int | None
    outcome: str | None
    ended_attempt: int | None


class Repeats:
    """Remembers which settles of one subscription had no answer, and finds out what became of them. Thread-safe.

    A settle that was made cannot be made again: the lease is held no longer. Whoever asks again after a lost answer
    would be told so, and would take work that is done for work that is lost.
    """

    def __init__(self, database: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._unsure: dict[tuple[str, str], float] = {}  # since when, by delivery and lease
        self._asked = database.dialect.batch("repeated", {"ordinal": sa.BigInteger()})
        self._statement = database.dialect.statement(self._query())

    def told(
        self, subscription_id: int, change: Change, deliveries: Sequence[Delivery], results: Sequence[SettleResult]
    ) -> list[SettleResult]:
        """``results`` of a settle, with ``Settled`` instead of ``LeaseLost`` for what an earlier one has done."""
        told = list(results)
        if not self._unsure and Failed not in set(map(type, results)):
            return told
        self._forget_old()
        doubtful: dict[int, Delivery] = {}
        for position, (held, result) in enumerate(zip(deliveries, results, strict=True)):
            key = (held.id, held.lease_token)
            if isinstance(result, Failed):
                self._unsure.setdefault(key, self._monotonic())
            elif isinstance(result, LeaseLost) and key in self._unsure:
                doubtful[position] = held
            else:
                self._unsure.pop(key, None)
        for position, result in self._answers(subscription_id, change, doubtful).items():
            told[position] = result
        return told

    def _forget_old(self) -> None:
        since = self._monotonic() - _KEPT_SECONDS
        for key in [key for key, began in list(self._unsure.items()) if began < since]:
            self._unsure.pop(key, None)

    def _answers(
        self, subscription_id: int, change: Change, doubtful: Mapping[int, Delivery]
    ) -> Mapping[int, SettleResult]:
        if not doubtful:
            return {}
        keys = {(held.id, held.lease_token) for held in doubtful.values()}
        longest = self._monotonic() - min(self._unsure.get(key, self._monotonic()) for key in keys)
        try:
            found = self._find(subscription_id, doubtful.values(), longest + _MARGIN_SECONDS)
        except (TransportRejected, TransportUnavailable) as error:
            return dict.fromkeys(doubtful, Failed(error=str(error)))
        for key in keys:
            self._unsure.pop(key, None)
        return {position: _verdict(change, held, found[_ordinal(held)]) for position, held in doubtful.items()}

    def _find(self, subscription_id: int, held: Iterable[Delivery], seconds: float) -> Mapping[int, _Found]:
        ordinals = sorted({_ordinal(one) for one in held})
        parameters = self._asked.bind([(ordinal,) for ordinal in ordinals])
        with self._database.reading() as connection:
            rows = self._statement.run(
                connection, parameters | {"subscription": subscription_id, "ago": -seconds}
            ).all()
        return {
            row.ordinal: _Found(
                state=row.state,
                token=row.lease_token,
                attempt=row.attempt,
                outcome=row.outcome,
                ended_attempt=row.ended_attempt,
            )
            for row in rows
        }

    def _query(self) -> sa.Select[Any]:
        asked, held, over = self._asked.rows.c, delivery.c, history.c
        own = sa.bindparam("subscription", type_=sa.Integer())
        since = sa.select(Later(Now(), sa.bindparam("ago", type_=sa.Float()))).scalar_subquery()
        is_open = sa.and_(held.message_ordinal == asked.ordinal, held.subscription_id == own)
        has_ended = sa.and_(
            over.subscription_id == own, over.finished_at >= since, over.message_ordinal == asked.ordinal
        )
        source = self._asked.rows.outerjoin(delivery, is_open).outerjoin(history, has_ended)
        columns = (held.state, held.lease_token, held.attempt, over.outcome, over.attempt.label("ended_attempt"))
        return sa.select(asked.ordinal, *columns).select_from(source).order_by(over.finished_at)


def _ordinal(held: Delivery) -> int:
    return int(held.id.partition("-")[0])


def _verdict(change: Change, held: Delivery, found: _Found) -> SettleResult:
    """A claim makes another token, and only a holder's settle leaves it; a release alone gives the attempt back."""
    state = _STATES[change]
    if state in ("completed", "discarded"):
        done = found.state is None and (found.outcome, found.ended_attempt) == (state, held.attempt)
    else:
        attempt = held.attempt - 1 if change == "released" else held.attempt
        token = int(held.lease_token.partition(".")[0])
        done = (found.state, found.token, found.attempt) == (state, token, attempt)
    return Settled(state=state) if done else LeaseLost()
