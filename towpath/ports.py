"""What a transport does for the rest of Towpath, in the words of the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol, Self, runtime_checkable

from towpath.context import Progress
from towpath.message import NewMessage, PublishResult
from towpath.operating import DeadLetterEntry, Operator, SubscriptionStats
from towpath.settlement import Delivery, Settler, SettleResult, SubscriptionPolicy

__all__ = [
    "Capability",
    "Consumer",
    "DeadLetterEntry",
    "Extension",
    "Operator",
    "Publisher",
    "SubscriptionStats",
    "Sweeper",
    "Transport",
]

Capability = Literal[
    "ordered",
    "exclusive_backoff_holds_key",
    "expired_lease_backs_off",
    "detects_duplicate_id",
    "keeps_progress",
    "pause_at_once",
    "cancel_pending",
    "cancel_in_flight",
    "list_partitions",
    "release_refunds_attempt",
    "expires_leases_itself",
    "counts_completions",
    "delay",
    "exact_backlog",
    "receive_ends_at_stop",
]


class Publisher(Protocol):
    """Takes messages in."""

    def publish(
        self, topic: str, messages: Sequence[NewMessage], *, connection: object | None = None
    ) -> list[PublishResult]:
        """Publish ``messages`` to ``topic``: one result for each, at its position. A bad message rejects only itself.

        On a database one call is one transaction, and ``connection`` (a SQLAlchemy Connection or Session) makes it
        part of the caller's; other transports raise ``Unsupported`` for it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Hold this delivery for another lease from now on, and keep its progress where the transport can."""

    delivery: Delivery
    progress: Progress | None = None


class Consumer(Settler, Protocol):
    """Hands out one subscription's deliveries under leases, and settles them."""

    @property
    def policy(self) -> SubscriptionPolicy:
        """The policy by which it claimed last and by which it extends. It changes when another one is applied."""

    def receive(self, limit: int, wait: timedelta) -> list[Delivery]:
        """At most ``limit`` deliveries, each leased for the subscription's ``lease_seconds`` from now on.

        Waits up to ``wait`` for a first one where the transport can be waited on, else returns at once. A body that
        cannot be read is handed out like any other. Raises ``TransportUnavailable`` for what may pass.
        """

    def extend(self, extensions: Sequence[Extension]) -> list[SettleResult]:
        """Renew leases: ``Settled("leased")``, or ``LeaseLost`` for one that is no longer held.

        ``CancelRequested`` for one that an operator cancelled: it is not renewed, and to be acknowledged.
        """

    def stop_receiving(self) -> None:
        """Claim nothing more; what is held is still settled and renewed. Raises nothing.

        A receive that waits ends at once, or within 2 s, and may bring deliveries yet. Without the capability
        ``receive_ends_at_stop`` one of more than 2 s leaves something behind: for a while it may go on and claim, and
        what it claims is given back, or comes again within seconds.
        """

    def close(self) -> None:
        """Give up what the consumer holds open. Leases run on."""


class Transport(Publisher, Protocol):
    """One way for messages to travel: AWS, or a database."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this transport can do."""

    def policies(self) -> Mapping[str, SubscriptionPolicy]:
        """The subscriptions that a worker may serve, by name, as they are now; a ``status`` of ``paused`` may be an
        operator's. A worker looks every 2 s.
        """

    def consumer(self, subscription: str) -> Consumer:
        """A consumer of ``subscription``, usable from several threads.

        Raises ``SubscriptionNotFound``, and ``Unsupported`` for one that no worker may serve.
        """

    def operator(self) -> Operator:
        """The operator's view of this transport."""

    def close(self) -> None:
        """Close connections. Nothing of the transport may be used afterwards."""

    def __enter__(self) -> Self:
        """The transport itself: ``with towpath.connect(...) as transport:`` closes it at the end."""

    def __exit__(self, *_: object) -> None:
        """Close it."""


@runtime_checkable
class Sweeper(Protocol):
    """A transport that has housekeeping to do: leases whose last attempt is over, retention."""

    def sweep(self) -> int:
        """Do what is due now, in bounded batches and never two at a time; answers how many rows it settled or removed.

        Does nothing when another process is sweeping.
        """
