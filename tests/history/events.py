"""What processes recorded of a run, and the tables that it left: the history that the checks read.

All times are seconds of the machine's monotonic clock, which its processes share, but for those named
``database_time``: these are the database's own clock. What was asked was recorded before it was asked, and an answer
once it was there, so that a process that was killed leaves questions without answers and never an answer untrue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

FINAL = frozenset({"complete", "discard", "acknowledge_cancel"})
DONE = frozenset({"completed", "pending", "leased", "dead", "discarded"})  # answers that say: it was made


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How a subscription hands out its deliveries."""

    id: int
    mode: Literal["none", "exclusive", "ordered"]
    lease_seconds: float
    max_attempts: int


# --- What consumers did ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A delivery that somebody was handed under lease ``token``; ``claimed_at`` is when, by the database's word."""

    delivery: str
    subscription: str
    message: str
    token: int
    attempt: int
    is_replay: bool
    database_time: float
    claimed_at: float
    received_at: float

    @property
    def ordinal(self) -> int:
        """The place of its message."""
        return int(self.delivery.partition("-")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A handler's work on a delivery; ``ended_at`` is missing where its process was killed."""

    delivery: str
    token: int
    started_at: float
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """What a holder asked for, a renewal included. ``answer`` is a state of ``DONE``, ``lost``, ``cancelled`` or
    ``failed``; without an answer nobody knows.
    """

    kind: str
    delivery: str
    token: int
    asked_at: float
    answered_at: float | None = None
    answer: str | None = None

    @property
    def is_accepted(self) -> bool:
        """Whether it is sure that it was made."""
        return self.answer in DONE

    @property
    def may_be_made(self) -> bool:
        """Whether it may have been made."""
        return self.answer not in ("lost", "cancelled")


# --- What publishers did -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message as its publisher gave it."""

    id: str
    key: str | None = None
    deduplication_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One result of a publish call: ``winner`` is the id that it named, ``code`` why it was rejected."""

    status: Literal["accepted", "duplicate", "rejected"]
    winner: str | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A publish call, in a transaction of the caller's where one is named."""

    messages: Sequence[Sent]
    asked_at: float
    answered_at: float | None = None
    answers: Sequence[Answer] = ()
    transaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A caller's transaction that was to be committed; ``answered_at`` says that it was."""

    asked_at: float
    answered_at: float | None = None


# --- What operators did, and what was left -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An operator's discard or replay; the counts are its answer."""

    kind: Literal["discard", "replay"]
    deliveries: Sequence[str]
    asked_at: float
    answered_at: float | None = None
    at_once: int = 0
    requested: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A row of history."""

    delivery: str
    outcome: str
    database_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that is known of a run. ``ordinals`` of messages by id, and ``open`` states of deliveries, as they are left.

    ``slack`` is how exactly the database's clock can be told, in seconds. ``faults`` are processes that ended as none
    should.
    """

    rules: Mapping[str, Rule]
    claims: Sequence[Claim] = ()
    runs: Sequence[Run] = ()
    settles: Sequence[Settle] = ()
    calls: Sequence[Call] = ()
    commits: Mapping[str, Commit] = field(default_factory=dict)
    orders: Sequence[Order] = ()
    ordinals: Mapping[str, int] = field(default_factory=dict)
    open: Mapping[str, str] = field(default_factory=dict)
    endings: Sequence[Ending] = ()
    faults: Sequence[str] = ()
    slack: float = 0.0


# --- Reading the files -------------------------------------------------------------------------------------------


def read(folder: Path) -> History:
    """The history in the files of ``folder``. A last line that a kill cut short is left out."""
    reading = _Reading()
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    reading.take(path.stem, json.loads(line))
    return reading.history()


class _Reading:
    """Puts questions and answers together. Calls are numbered anew by each process, so they go by file."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}
        self._claims: list[Claim] = []
        self._starts: dict[tuple[str, int, float], float | None] = {}
        self._asked: dict[tuple[str, int], dict[str, Any]] = {}
        self._answers: dict[tuple[str, int], dict[str, Any]] = {}
        self._endings: list[Ending] = []
        self._ordinals: dict[str, int] = {}
        self._open: dict[str, str] = {}
        self._faults: list[str] = []
        self._slack = 0.0

    def take(self, file: str, event: dict[str, Any]) -> None:
        """Note one event."""
        match event.pop("what"):
            case "claimed":
                self._claims += [_claim(event, *facts) for facts in event["deliveries"]]
            case "started":
                self._starts[event["delivery"], event["token"], event["at"]] = None
            case "ended":
                self._starts[event["delivery"], event["token"], event["started_at"]] = event["at"]
            case "asked":
                self._asked[file, event["call"]] = event
            case "answered":
                self._answers[file, event["call"]] = event
            case "rules":
                self._rules = {name: Rule(**rule) for name, rule in event["rules"].items()}
                self._slack = event["slack"]
            case "messages":
                self._ordinals |= event["ordinals"]
            case "open":
                self._open |= event["states"]
            case "endings":
                self._endings += [Ending(delivery=d, outcome=o, database_time=t) for d, o, t in event["endings"]]
            case "fault":
                self._faults.append(event["text"])
            case _:  # for people
                pass

    def history(self) -> History:
        """What was noted."""
        asked = [(event, self._answers.get(key)) for key, event in self._asked.items()]
        return History(
            rules=self._rules,
            claims=self._claims,
            runs=[Run(delivery=d, token=t, started_at=s, ended_at=e) for (d, t, s), e in self._starts.items()],
            settles=[one for event, answer in asked if event["of"] == "settle" for one in _settles(event, answer)],
            calls=[_call(event, answer) for event, answer in asked if event["of"] == "publish"],
            commits={e["transaction"]: Commit(**_times(e, a)) for e, a in asked if e["of"] == "commit"},
            orders=[_order(event, answer) for event, answer in asked if event["of"] == "order"],
            ordinals=self._ordinals,
            open=self._open,
            endings=self._endings,
            faults=self._faults,
            slack=self._slack,
        )


def _times(event: Mapping[str, Any], answer: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"asked_at": event["at"], "answered_at": None if answer is None else answer["at"]}


def _claim(event: Mapping[str, Any], *facts: Any) -> Claim:
    delivery, message, token, attempt, is_replay, database_time, claimed_at = facts
    return Claim(
        delivery=delivery,
        subscription=event["subscription"],
        message=message,
        token=token,
        attempt=attempt,
        is_replay=is_replay,
        database_time=database_time,
        claimed_at=claimed_at,
        received_at=event["at"],
    )


def _settles(event: Mapping[str, Any], answer: Mapping[str, Any] | None) -> Iterable[Settle]:
    answers = [None] * len(event["held"]) if answer is None else answer["answers"]
    for (delivery, token), said in zip(event["held"], answers, strict=True):
        yield Settle(kind=event["kind"], delivery=delivery, token=token, answer=said, **_times(event, answer))


def _call(event: Mapping[str, Any], answer: Mapping[str, Any] | None) -> Call:
    answers = [] if answer is None else answer["answers"]
    return Call(
        messages=[Sent(id=i, key=key, deduplication_key=once) for i, key, once in event["messages"]],
        answers=[Answer(status=status, winner=winner, code=code) for status, winner, code in answers],
        transaction=event["transaction"],
        **_times(event, answer),
    )


def _order(event: Mapping[str, Any], answer: Mapping[str, Any] | None) -> Order:
    counts = {} if answer is None else {"at_once": answer["at_once"], "requested": answer["requested"]}
    return Order(kind=event["kind"], deliveries=event["deliveries"], **counts, **_times(event, answer))
