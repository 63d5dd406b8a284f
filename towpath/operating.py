"""Looking after a running system: what an operator sees and may do, in the words of the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, Protocol, TypeVar, overload, runtime_checkable

from towpath.message import JsonValue, Message, NewMessage
from towpath.settlement import SubscriptionStatus

DeliveryState = Literal["pending", "leased", "dead", "completed", "discarded"]
WaitsFor = Literal["time", "worker", "key_in_flight", "key_order", "key_blocked", "resume"]
PartitionState = Literal["idle", "in_flight", "blocked"]

EntryT = TypeVar("EntryT")


# --- How it stands -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStats:
    """How a subscription stands. ``pending`` waits or is backing off, ``leased`` is with a worker.

    ``None`` says that the transport cannot tell. The counts are exact with the capability ``exact_backlog``.
    ``status`` is ``paused`` whether the topology or an operator says so. ``oldest_pending`` and ``oldest_dead`` are
    the ages of what waits, or is dead, for longest; the rates are those of the last five minutes.
    """

    subscription: str
    topic: str
    pending: int
    leased: int
    dead: int
    completed: int | None
    discarded: int | None
    oldest_pending: timedelta | None
    status: SubscriptionStatus = "active"
    oldest_dead: timedelta | None = None
    completed_per_minute: float | None = None
    dead_per_minute: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What a scaler needs of a subscription, each count no higher than 1,000; then ``..._capped`` says: or more.

    ``claimable`` could start now if there were workers enough: one for each free key where keys bind. ``in_flight`` is
    with a worker.
    """

    subscription: str
    claimable: int
    in_flight: int
    claimable_capped: bool
    in_flight_capped: bool


# --- Lists -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Sequence[EntryT], Generic[EntryT]):
    """A part of a list. ``cursor`` asks for the part that comes after it; ``None`` when there is none."""

    entries: tuple[EntryT, ...]
    cursor: str | None = None

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[EntryT]:
        return iter(self.entries)

    @overload
    def __getitem__(self, index: int) -> EntryT: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[EntryT, ...]: ...
    def __getitem__(self, index: int | slice) -> EntryT | tuple[EntryT, ...]:
        return self.entries[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterEntry:
    """A delivery set aside: why, after how many attempts, and the body it carried."""

    delivery_id: str
    subscription: str
    message_id: str
    reason: str
    error: str
    attempts: int
    dead_since: datetime
    body: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryEntry:
    """A delivery: open, dead, or over. A lease whose time is over counts as pending.

    ``waits_for`` says of a pending one what it needs: its ``time`` to come, a ``worker``, the end of another delivery
    of its key (``key_in_flight``), its turn within its key (``key_order``), a dead letter of its key to be replayed or
    discarded (``key_blocked``), or the subscription to be resumed (``resume``). ``due_at`` is when it may be claimed.
    ``reason`` is why it is dead, or was cancelled; ``error`` the last error. ``percent`` and ``note`` are what its
    handler reported last. Of one that is ``completed`` or ``discarded`` no more is kept than ``finished_at``, the last
    attempt, and why it was discarded.
    """

    delivery_id: str
    subscription: str
    topic: str
    message_id: str
    partition_key: str | None
    state: DeliveryState
    attempt: int
    is_replay: bool
    cancel_requested: bool
    published_at: datetime
    due_at: datetime | None
    lease_expires_at: datetime | None
    dead_since: datetime | None
    finished_at: datetime | None = None
    expires_at: datetime | None
    waits_for: WaitsFor | None
    reason: str
    error: str
    percent: float | None
    note: str
    body: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEntry:
    """A partition key that has deliveries.

    ``in_flight``: one is with a worker. ``blocked``: nothing comes before ``head`` is replayed or discarded (a dead
    letter of an ordered key), or before its time. ``idle``: the next may be claimed. ``reason`` says more, for people.
    ``head`` is the delivery that it is about, ``waiting`` how many the key has, at most 1,000 counted.
    """

    subscription: str
    partition_key: str | None
    state: PartitionState
    reason: str
    head: str
    since: datetime | None
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Something that an operator did: who, when, what, to what, why. Entries are never changed."""

    id: str
    at: datetime
    actor: str
    action: str
    subject: str
    reason: str
    details: Mapping[str, JsonValue]


# --- Acting ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which deliveries are meant: those that meet every condition given; without any, all that are open or dead.

    What is ``completed`` or ``discarded`` is meant only by its ``state``, and can be looked at and not be changed.
    ``reason`` and ``error_type`` must be equal to why the delivery is dead, and to its last error's type. Its age, of
    which ``older_than`` and ``newer_than`` speak, is counted from when it became dead or was over, else from its
    publishing.
    """

    subscription: str | None = None
    state: DeliveryState | None = None
    delivery_ids: tuple[str, ...] | None = None
    message_id: str | None = None
    partition_key: str | None = None
    reason: str | None = None
    error_type: str | None = None
    older_than: timedelta | None = None
    newer_than: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warrant:
    """Who acts, and why: kept in the audit trail with what is done. Neither may be blank (``ValueError``)."""

    actor: str
    reason: str

    def __post_init__(self) -> None:
        for name in ("actor", "reason"):
            if not getattr(self, name).strip():
                raise ValueError(f"an operator's action needs {name}: it is kept in the audit trail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How to change many: ``batch`` at a time, each batch in a transaction of its own; at most ``rate`` a second and
    ``most`` in all, where these are given. ``changed`` is told after each batch how many it changed. ``pause`` waits
    as many seconds as the rate asks for before another batch, with nothing half done. Both may raise, to end it there.
    """

    batch: int = 100
    rate: float | None = None
    most: int | None = None
    changed: Callable[[int], None] = field(default=lambda _: None, compare=False)
    pause: Callable[[float], None] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be done to which deliveries, on whose word, and how fast."""

    action: str
    selection: Selection
    warrant: Warrant
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """``at_once`` are gone. ``requested`` are with workers, who are told by their next heartbeat; each goes when its
    worker acknowledges that, or its lease ends.
    """

    at_once: int
    requested: int


class Operator(Protocol):
    """Looks after a running system.

    Every change is made with its entry in the audit trail, in one transaction, by a conditional statement: what
    somebody else has changed meanwhile is left alone. What a transport cannot do raises ``Unsupported``; a name that
    it does not have ``SubscriptionNotFound``; a selection or cursor that it cannot read ``InvalidSelection``.
    """

    def stats(self) -> list[SubscriptionStats]:
        """Every subscription, by name."""

    def backlog(self, subscription: str | None = None) -> list[Backlog]:
        """What could start now and what runs, of every subscription, by name, or of one. Costs the same however much
        waits. Of a subscription that is paused or disabled nothing could start.
        """

    def deliveries(self, selection: Selection, limit: int, cursor: str | None = None) -> Page[DeliveryEntry]:
        """At most ``limit`` of the selected deliveries, in the order of their publishing; dead ones alone, those dead
        for longest first; those that are over, of each subscription the last first. Changes nothing.
        """

    def dead_letters(self, subscription: str | None, limit: int, cursor: str | None = None) -> Page[DeadLetterEntry]:
        """At most ``limit`` dead letters of a subscription, or of all, those dead for longest first.

        Changes nothing.
        """

    def partitions(
        self, subscription: str, limit: int, cursor: str | None = None, state: PartitionState | None = None
    ) -> Page[PartitionEntry]:
        """The partition keys that have deliveries, or those in this ``state``, in no particular order."""

    def replay(self, selection: Selection, warrant: Warrant, pace: Pace) -> int:
        """Have the selected dead letters come again, at attempt 1, in their place; answers how many.

        One that dies again meanwhile is not replayed twice.
        """

    def replay_edited(self, delivery_id: str, payload: JsonValue, warrant: Warrant) -> str:
        """Publish a dead letter's message with another payload, to its subscription alone, and discard the dead letter.

        It is a new message, caused by the old one, and takes a new place within its key. Answers its id. Raises
        ``DeliveryNotFound`` when there is no such dead letter, ``InvalidEdit`` when the message breaks the contract.
        """

    def discard(self, selection: Selection, warrant: Warrant, pace: Pace) -> Discarded:
        """Drop the selected deliveries for good, dead ones too; those with workers as soon as these let go of them."""

    def purge(self, subscription: str, warrant: Warrant, pace: Pace) -> int:
        """Drop all dead letters of a subscription that are there now; answers how many."""

    def pause(self, subscription: str, warrant: Warrant) -> bool:
        """Have nothing more claimed from the subscription; it goes on receiving. ``False`` when it was so already."""

    def resume(self, subscription: str, warrant: Warrant) -> bool:
        """Undo ``pause``; what the topology says stays. ``False`` when it was not paused by an operator."""

    def audit(self, limit: int, cursor: str | None = None, about: str | None = None) -> Page[AuditEntry]:
        """At most ``limit`` entries of the audit trail, newest first; or of those ``about`` a delivery, by its id, or a
        subscription, by its name.
        """


@runtime_checkable
class AuditTrail(Protocol):
    """What keeps the audit trail of actions on another transport, that has no table for it: a database."""

    def record_audit(self, warrant: Warrant, action: str, subject: str, details: Mapping[str, JsonValue]) -> None:
        """Add an entry. ``details`` name things and never carry a payload. Raises ``TransportUnavailable``."""


def edited(old: Message[Any], payload: JsonValue, now: datetime) -> NewMessage:
    """The message ``old`` with another payload, caused by it.

    A time to expire that is past ``now`` is left out: it would end the new one at once.
    """
    return NewMessage(
        payload=payload,
        partition_key=old.partition_key,
        attributes=old.attributes,
        correlation_id=old.correlation_id,
        causation_id=old.id,
        traceparent=old.traceparent,
        expires_at=old.expires_at if old.expires_at is not None and old.expires_at > now else None,
    )
