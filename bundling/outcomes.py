"""What became of each record of an SQS event: read from the function's answer, its log lines and its calls to SQS."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

State: TypeAlias = Literal["completed", "discarded", "dead", "pending", "failed"]

_DELETED: Final[dict[str, State]] = {"discarded": "discarded", "dead": "dead"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOutcome:
    """One record's end. ``completed``, ``discarded`` and ``dead`` records are deleted by Lambda; ``pending`` and
    ``failed`` ones (whose settling failed) were reported to it as failed, and come again. ``why`` is empty for a
    completed one; ``hidden_seconds`` is how long the function hid it from its queue, if it did.
    """

    message_id: str
    state: State
    why: str = ""
    hidden_seconds: int | None = None


def record_outcomes(event: Any, response: Any, logs: str, hidden: Mapping[str, int]) -> tuple[RecordOutcome, ...]:
    """The outcome of every record, in the order of ``event``; empty where this is no SQS event or no batch response.

    ``hidden`` has the visibility time-outs that the function asked for, by receipt handle.
    """
    records, failures = _list(event, "Records"), _list(response, "batchItemFailures")
    if records is None or failures is None:
        return ()
    reported = {failure.get("itemIdentifier") for failure in failures}
    lines = {line["delivery_id"]: line for line in log_lines(logs) if is_settled(line)}
    return tuple(_outcome(record, lines.get(record.get("messageId", ""), {}), reported, hidden) for record in records)


def log_lines(logs: str) -> Iterator[dict[str, Any]]:
    """What was written: the fields of the logger's JSON lines, and any other line as ``message`` alone. Empty lines are
    left out.
    """
    for text in logs.splitlines():
        start, fields = _fields(text)
        if text[:start]:
            yield {"message": text[:start]}
        if fields is not None:
            yield fields


def _fields(text: str) -> tuple[int, dict[str, Any] | None]:
    """Where a line of the logger begins within ``text``, and its fields. It need not begin it: ``print`` writes a text
    and its line end apart, and between them another thread may log.
    """
    for found in re.finditer(r'\{"', text):
        try:
            fields = json.loads(text[found.start() :])
        except ValueError:
            continue
        if "message" in fields:
            return found.start(), fields
    return len(text), None


def is_settled(line: Mapping[str, Any]) -> bool:
    """Whether a log line is the one that says how a delivery ended."""
    return "delivery_id" in line and "state" in line


def _list(document: Any, name: str) -> Sequence[dict[str, Any]] | None:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, list) and all(isinstance(entry, dict) for entry in found) else None


def _outcome(
    record: Mapping[str, Any], line: Mapping[str, Any], reported: set[Any], hidden: Mapping[str, int]
) -> RecordOutcome:
    message_id = str(record.get("messageId", ""))
    if message_id in reported:
        state: State = "failed" if line.get("state") == "failed" else "pending"
    else:
        state = _DELETED.get(line.get("state", ""), "completed")
    return RecordOutcome(
        message_id=message_id,
        state=state,
        why=_why(line),
        hidden_seconds=hidden.get(str(record.get("receiptHandle", ""))) if state == "pending" else None,
    )


def _why(line: Mapping[str, Any]) -> str:
    """The reason, the error where that says more, and what went wrong with settling."""
    reason, error = str(line.get("reason", "")), str(line.get("error", ""))
    parts = [error] if reason in error else [reason, error]
    if line.get("state") == "failed":
        parts.append(str(line["message"]))
    return "; ".join(part for part in parts if part)
