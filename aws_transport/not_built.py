"""What an operator cannot do on AWS yet: every method says so."""

from __future__ import annotations

from towpath.errors import Unsupported
from towpath.message import JsonValue
from towpath.operating import (
    AuditEntry,
    Backlog,
    DeliveryEntry,
    Discarded,
    Pace,
    Page,
    PartitionEntry,
    PartitionState,
    Selection,
    Warrant,
)


class NotBuilt:
    """The rest of ``towpath.ports.Operator``. Every method raises ``Unsupported``."""

    __slots__ = ()

    def backlog(self) -> list[Backlog]:
        """Not built yet."""
        raise _lack("the scaling figure")

    def deliveries(self, selection: Selection, limit: int, cursor: str | None = None) -> Page[DeliveryEntry]:
        """SQS shows no message without receiving it."""
        raise _lack("lists of deliveries")

    def partitions(
        self, subscription: str, limit: int, cursor: str | None = None, state: PartitionState | None = None
    ) -> Page[PartitionEntry]:
        """SQS does not list message groups."""
        raise _lack("lists of partition keys (capability list_partitions)")

    def replay(self, selection: Selection, warrant: Warrant, pace: Pace) -> int:
        """Not built yet."""
        raise _lack("replays")

    def replay_edited(self, delivery_id: str, payload: JsonValue, warrant: Warrant) -> str:
        """Not built yet."""
        raise _lack("replays of edited messages")

    def discard(self, selection: Selection, warrant: Warrant, pace: Pace) -> Discarded:
        """Not built yet."""
        raise _lack("discards (capabilities cancel_pending, cancel_in_flight)")

    def purge(self, subscription: str, warrant: Warrant, pace: Pace) -> int:
        """Not built yet."""
        raise _lack("purges")

    def pause(self, subscription: str, warrant: Warrant) -> bool:
        """Not built yet."""
        raise _lack("pauses")

    def resume(self, subscription: str, warrant: Warrant) -> bool:
        """Not built yet."""
        raise _lack("pauses")

    def audit(self, limit: int, cursor: str | None = None) -> Page[AuditEntry]:
        """Not built yet."""
        raise _lack("an audit trail")


def _lack(what: str) -> Unsupported:
    return Unsupported(f"the AWS transport has {what} only in a later version; use the AWS console or CLI")
