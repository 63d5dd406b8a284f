"""A history laid out for the checks: by delivery, by key, by message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tests.history.events import Answer, Call, Claim, History, Order, Sent, Settle

Fate = Literal["accepted", "suppressed", "unknown", "rolled back", "refused"]
Lane = tuple[str, str]  # a subscription, and a key or, of what has none, a delivery

STRENGTH: Sequence[Fate] = ("accepted", "suppressed", "unknown", "rolled back", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A promise that was broken: which, for what, and what shows it."""

    rule: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}: {self.text}"


class View:
    """One history; everything is worked out once."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def claims_of(self) -> Mapping[str, list[Claim]]:
        """The claims of each delivery, by token."""
        found: dict[str, list[Claim]] = defaultdict(list)
        for claim in sorted(self.history.claims, key=lambda claim: claim.token):
            found[claim.delivery].append(claim)
        return found

    @cached_property
    def settles_of(self) -> Mapping[tuple[str, int], list[Settle]]:
        """What was asked for under each lease, renewals too, in the order of asking."""
        found: dict[tuple[str, int], list[Settle]] = defaultdict(list)
        for settle in sorted(self.history.settles, key=lambda settle: settle.asked_at):
            found[settle.delivery, settle.token].append(settle)
        return found

    @cached_property
    def settles_by_delivery(self) -> Mapping[str, list[Settle]]:
        """The same for each delivery."""
        found: dict[str, list[Settle]] = defaultdict(list)
        for settle in sorted(self.history.settles, key=lambda settle: settle.asked_at):
            found[settle.delivery].append(settle)
        return found

    @cached_property
    def lanes(self) -> Mapping[Lane, list[Claim]]:
        """The claims that exclude each other, as they were made."""
        found: dict[Lane, list[Claim]] = defaultdict(list)
        for claim in sorted(self.history.claims, key=lambda claim: claim.claimed_at):
            found[self.lane_of(claim)].append(claim)
        return found

    def lane_of(self, claim: Claim) -> Lane:
        """What the claim holds."""
        key = self.keys.get(claim.message)
        if key is None or self.history.rules[claim.subscription].mode == "none":
            return claim.subscription, f"delivery {claim.delivery}"
        return claim.subscription, f"key {key}"

    @cached_property
    def keys(self) -> Mapping[str, str | None]:
        """The key of each message that was sent."""
        return {sent.id: sent.key for call in self.history.calls for sent in call.messages}

    @cached_property
    def endings_of(self) -> Mapping[str, list[tuple[str, float]]]:
        """How and when, by the database's clock, each delivery ended."""
        found: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for ending in self.history.endings:
            found[ending.delivery].append((ending.outcome, ending.database_time))
        return found

    @cached_property
    def orders_of(self) -> Mapping[str, list[Order]]:
        """What operators wanted of each delivery."""
        found: dict[str, list[Order]] = defaultdict(list)
        for order in self.history.orders:
            for delivery in order.deliveries:
                found[delivery].append(order)
        return found

    @cached_property
    def messages_by_ordinal(self) -> Mapping[int, str]:
        """The messages in the table."""
        return {ordinal: message for message, ordinal in self.history.ordinals.items()}

    # What became of messages

    @cached_property
    def fates(self) -> Mapping[str, Fate]:
        """What its publishers were told of each message: the strongest word counts, since calls are repeated."""
        said: dict[str, set[Fate]] = defaultdict(set)
        for call in self.history.calls:
            for sent, answer in self.answers(call):
                said[sent.id].add(self._fate(call, sent, answer))
        return {message: next(fate for fate in STRENGTH if fate in fates) for message, fates in said.items()}

    def answers(self, call: Call) -> Iterator[tuple[Sent, Answer | None]]:
        """Each message of a call with its answer, if one came."""
        for position, sent in enumerate(call.messages):
            yield sent, call.answers[position] if call.answers else None

    def is_committed(self, call: Call) -> bool | None:
        """Whether the call's changes were committed; ``None`` when nobody knows."""
        if call.transaction is None:
            return True if call.answers else None
        commit = self.history.commits.get(call.transaction)
        if commit is None:
            return False
        return True if commit.answered_at is not None else None

    def _fate(self, call: Call, sent: Sent, answer: Answer | None) -> Fate:
        if answer is not None and answer.status == "rejected":
            return "unknown" if answer.code == "TransportUnavailable" else "refused"
        committed = self.is_committed(call)
        if committed is None or answer is None:
            return "rolled back" if committed is False else "unknown"
        if not committed:
            return "rolled back"
        return "suppressed" if answer.status == "duplicate" and answer.winner != sent.id else "accepted"
