"""What an operator can do on a database and not on SQS: every method says why, and what to do instead."""

from __future__ import annotations

from typing import Literal, assert_never

from towpath.errors import Unsupported
from towpath.manifest import Subscription
from towpath.operating import AuditEntry, Page, PartitionEntry, PartitionState


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

    def audit(self, limit: int, cursor: str | None = None, about: str | None = None) -> Page[AuditEntry]:
        """It is written to the log, line by line; SQS keeps none."""
        raise Unsupported(
            "on AWS the audit trail is the log, lines of the logger 'towpath.audit'; to read it here, set "
            "TOWPATH_AUDIT_DATABASE to the URL of a database that shall keep it"
        )


def no_switch(name: str, subscription: Subscription, wanted: Literal["paused", "resumed"]) -> Unsupported:
    """Why no command can have ``name`` ``wanted``, and what has that effect.

    A queue has no switch of its own, and a flag would need a place that workers ask; the AWS transport has none. A
    mapping has a switch, but the deployment sets it: moved by hand it would drift, and the next deployment undo it.
    """
    status = "paused" if wanted == "paused" else "active"
    written = f'set status = "{status}" for it in the topology, render the manifest'
    match subscription.host:
        case "lambda":
            how = f"its function polls as the deployment says: {written}, and deploy it"
        case "worker":
            first = "stop its workers, or " if wanted == "paused" else ""
            how = f"SQS keeps no such flag: {first}{written}, deploy it, and start workers with it"
        case "external":
            how = "its consumer is not Towpath's: stop or start that"
        case _:
            assert_never(subscription.host)
    return Unsupported(f"{name!r} cannot be {wanted} on AWS by a command (capability pause_at_once); {how}")
