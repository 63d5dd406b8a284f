"""What an operator can do on a database and not on SQS: every method says why, and what to do instead."""

from __future__ import annotations

from towpath.errors import Unsupported
from towpath.operating import AuditEntry, Page, PartitionEntry, PartitionState, Warrant


class Refusals:
    """The part of ``towpath.ports.Operator`` that SQS has nothing for. Every method raises ``Unsupported``."""

    __slots__ = ()

    def partitions(
        self, subscription: str, limit: int, cursor: str | None = None, state: PartitionState | None = None
    ) -> Page[PartitionEntry]:
        """SQS does not tell which message groups a queue has."""
        raise Unsupported(
            f"SQS does not list the partition keys of {subscription!r} (capability list_partitions); use a database "
            "transport where they must be seen"
        )

    def pause(self, subscription: str, warrant: Warrant) -> bool:
        """A queue has no switch, and who reads from it is the deployment's to say."""
        raise _no_switch(subscription, "paused")

    def resume(self, subscription: str, warrant: Warrant) -> bool:
        """See ``pause``."""
        raise _no_switch(subscription, "active")

    def audit(self, limit: int, cursor: str | None = None) -> Page[AuditEntry]:
        """It is written to the log, line by line; SQS keeps none."""
        raise Unsupported(
            "on AWS the audit trail is the log, lines of the logger 'towpath.audit'; to read it here, set "
            "TOWPATH_AUDIT_DATABASE to the URL of a database that shall keep it"
        )


def _no_switch(subscription: str, status: str) -> Unsupported:
    return Unsupported(
        f"SQS cannot pause a queue at once (capability pause_at_once); set status = {status!r} for {subscription!r} in "
        "the topology and deploy it"
    )
