"""One delivery in full: what it carries, how it stands, what is known of its attempts, what operators did with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from towpath.cli.audit import audit_json
from towpath.cli.entries import entry_json
from towpath.cli.output import CONTROLS, print_sentence
from towpath.envelope import Origin, decode
from towpath.errors import DeliveryNotFound, InvalidEnvelope, Unsupported, UnsupportedSchema
from towpath.message import ABSENT, JsonValue, Message, format_time, is_message_id
from towpath.operating import AuditEntry, DeliveryEntry, DeliveryState, Operator, Selection

_MOST = 100  # deliveries of one message, and entries of the audit trail about one
_OVER: tuple[DeliveryState, ...] = ("completed", "discarded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A delivery and what belongs to it. ``message`` is ``None`` when its body cannot be read; ``unreadable`` says why.

    ``audit`` is ``None`` where the transport keeps no trail to be read.
    """

    entry: DeliveryEntry
    message: Message[JsonValue] | None
    unreadable: str
    audit: tuple[AuditEntry, ...] | None = field(repr=False)


def find(operator: Operator, text: str) -> list[Shown]:
    """The delivery with this id, or all of the message with it, open ones first. Raises ``DeliveryNotFound``."""
    wanted = Selection(message_id=text) if is_message_id(text) else Selection(delivery_ids=(text,))
    found = [entry for state in (None, *_OVER) for entry in _entries(operator, replace(wanted, state=state))]
    if not found:
        raise DeliveryNotFound(text, "delivery")
    return [_shown(operator, entry) for entry in found]


def _entries(operator: Operator, wanted: Selection) -> list[DeliveryEntry]:
    """A transport that keeps nothing of what is over, or shows dead letters alone, has no more than these."""
    try:
        return list(operator.deliveries(wanted, _MOST))
    except Unsupported:
        if wanted.state is not None:
            return []
        return list(operator.deliveries(replace(wanted, state="dead"), _MOST))


def _shown(operator: Operator, entry: DeliveryEntry) -> Shown:
    try:
        audit = tuple(operator.audit(_MOST, about=entry.delivery_id))
    except Unsupported:
        audit = None
    origin = Origin(message_id=entry.message_id, topic=entry.topic, received_at=entry.published_at)
    try:
        return Shown(entry=entry, message=decode(entry.body, origin), unreadable="", audit=audit)
    except (InvalidEnvelope, UnsupportedSchema) as error:
        return Shown(entry=entry, message=None, unreadable=str(error), audit=audit)


def shown_json(shown: Shown, *, with_payload: bool) -> JsonValue:
    """All of it; the payload only when asked for."""
    told = entry_json(shown.entry)
    del told["body"]
    told["message"] = None if shown.message is None else _message_json(shown.message)
    told["unreadable"] = shown.unreadable or None
    told["body_bytes"] = len(shown.entry.body.encode(errors="replace"))
    told["audit"] = None if shown.audit is None else [audit_json(entry) for entry in shown.audit]
    return told | ({"payload": _payload(shown)} if with_payload else {})


def _payload(shown: Shown) -> JsonValue:
    """The payload, ``null`` where there is none; the whole body, as text, of what cannot be read."""
    if shown.message is None:
        return shown.entry.body
    return None if shown.message.payload is ABSENT else shown.message.payload


def _message_json(message: Message[JsonValue]) -> JsonValue:
    times = {"deliver_after": message.deliver_after, "expires_at": message.expires_at}
    return {
        "correlation_id": message.correlation_id,
        "causation_id": message.causation_id,
        "traceparent": message.traceparent,
        "attributes": {
            name: list(value) if isinstance(value, tuple) else value for name, value in message.attributes.items()
        },
        "has_payload": message.payload is not ABSENT,
        "payload_ref": None if message.payload_ref is None else message.payload_ref.record(),
        **{name: None if time is None else format_time(time) for name, time in times.items()},
    }


# --- For people --------------------------------------------------------------------------------------------------


def print_shown(shown: Shown, *, with_payload: bool) -> None:
    """A line for each thing that there is, the error with its traceback, and who did what."""
    facts = list(_facts(shown))
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print_sentence(f"{name:{width}}  {_safe(value)}")
    if shown.entry.error:
        print_sentence("\nlast error")
        print_sentence("\n".join(f"  {_safe(line)}" for line in shown.entry.error.split("\n")))
    if shown.audit:
        print_sentence("\naudit trail")
        for entry in shown.audit:
            print_sentence(f"  {format_time(entry.at)}  {_safe(f'{entry.actor}: {entry.action}, {entry.reason}')}")
    if with_payload:
        print_sentence("\npayload")
        print_sentence(_safe(json.dumps(_payload(shown), ensure_ascii=False)))


def _facts(shown: Shown) -> Iterator[tuple[str, object]]:
    entry = shown.entry
    waits = "" if entry.waits_for is None else f", waits for {entry.waits_for.replace('_', ' ')}"
    cancelled = ", cancelled" if entry.cancel_requested else ""
    replayed = ", replayed" if entry.is_replay else ""
    progress = " ".join(part for part in (_percent(entry.percent), entry.note) if part)
    named = {
        "delivery": entry.delivery_id,
        "subscription": entry.subscription,
        "topic": entry.topic,
        "message": entry.message_id,
        "key": entry.partition_key,
        "state": f"{entry.state}{waits}{cancelled}",
        "attempt": f"{entry.attempt}{replayed}",
        "published": entry.published_at,
        "due": entry.due_at if entry.state == "pending" else None,
        "lease ends": entry.lease_expires_at if entry.state == "leased" else None,
        "dead since": entry.dead_since,
        "finished": entry.finished_at,
        "expires": entry.expires_at,
        "reason": entry.reason,
        "progress": progress,
        **_of_message(shown),
    }
    for name, value in named.items():
        if value not in (None, ""):
            yield name, format_time(value) if isinstance(value, datetime) else value


def _of_message(shown: Shown) -> dict[str, object]:
    message = shown.message
    if message is None:
        return {"unreadable": shown.unreadable}
    told: dict[str, object] = {"correlation": message.correlation_id, "caused by": message.causation_id}
    told |= {f"attribute {name}": json.dumps(value, ensure_ascii=False) for name, value in message.attributes.items()}
    if message.payload_ref is not None:
        told["payload is at"] = message.payload_ref.uri
    return told | {"body": f"{len(shown.entry.body.encode(errors='replace')):,} bytes"}


def _percent(percent: float | None) -> str:
    return "" if percent is None else f"{percent:g} %"


def _safe(value: object) -> str:
    return str(value).translate(CONTROLS)
