"""The audit trail of what operators do on AWS: lines of the log, since SQS keeps none."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta

from aws_transport.dead_entries import DeadLetter
from towpath.errors import TowpathError
from towpath.message import JsonValue
from towpath.operating import AuditTrail, Order, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLog:
    """Writes a line for everything that was done: who, what, to which dead letters, why. Never a payload.

    They are warnings of the logger ``towpath.audit``, so that they are seen where nothing is set up for logs. The same
    entry is added to ``trail`` where there is one: after the deed, which SQS has done by then.
    """

    log: logging.Logger = field(default_factory=lambda: logging.getLogger("towpath.audit"))
    trail: AuditTrail | None = None

    def record(self, order: Order, subscription: str, done: Sequence[DeadLetter], **more: JsonValue) -> None:
        """Write that ``order`` was carried out for ``done``, of one subscription."""
        warrant = order.warrant
        count = f"{len(done)} dead letter{'s' if len(done) > 1 else ''}"
        text = "%s of %s of %s by %s: %s"
        details: dict[str, JsonValue] = {"selection": _selected(order.selection), "deliveries": _ids(done)} | more
        extra = {
            "actor": warrant.actor,
            "action": order.action,
            "subject": subscription,
            "reason": warrant.reason,
            "details": details,
        }
        self.log.warning(text, order.action, count, subscription, warrant.actor, warrant.reason, extra=extra)
        if self.trail is None:
            return
        try:
            self.trail.record_audit(warrant, order.action, subscription, details)
        except TowpathError as error:
            self.log.warning("the line above is not in the audit table: %s", error)


def _selected(selection: Selection) -> dict[str, JsonValue]:
    given = {name: value for name, value in asdict(selection).items() if value is not None}
    return {name: v.total_seconds() if isinstance(v, timedelta) else v for name, v in given.items()}


def _ids(done: Sequence[DeadLetter]) -> list[str]:
    return [letter.delivery_id for letter in done]
