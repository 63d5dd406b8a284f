"""What an event source mapping makes of a function's answer.

AWS Lambda developer guide, "Handling errors for an SQS event source in Lambda", success and failure conditions.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The ids that the mapping leaves in the queue; ``problem`` says why that is the whole batch, if for a fault."""

    failed: frozenset[str]
    problem: str | None = None


def verdict(answer: Any, ids: Collection[str]) -> Verdict:
    """Read the answer of a function whose mapping has ``ReportBatchItemFailures``, for a batch of these message ids.

    ``null``, an empty object and an empty or null list of failures are a success. What is no JSON, and a list with an
    item that does not name a message of the batch, fail the whole batch: so every message comes again, and none is
    lost. Of an answer that is neither an object nor ``null`` AWS says nothing; it is taken for a failure too.
    """
    problem, items = _items(answer)
    if problem is None:
        problem = next((found for item in items if (found := _problem(item, ids)) is not None), None)
    if problem is not None:
        return Verdict(failed=frozenset(ids), problem=problem)
    return Verdict(failed=frozenset(item["itemIdentifier"] for item in items))


def _items(answer: Any) -> tuple[str | None, list[Any]]:
    try:
        read = json.loads(json.dumps(answer))  # what AWS's runtime client sends of it
    except (TypeError, ValueError, RecursionError) as error:
        return f"the answer is no JSON: {error}", []
    if read is None:
        return None, []
    if not isinstance(read, dict):
        return f"the answer is a {type(answer).__name__}, not an object", []
    items = read.get("batchItemFailures")
    if items is None:
        return None, []
    return (None, items) if isinstance(items, list) else ("batchItemFailures is no list", [])


def _problem(item: Any, ids: Collection[str]) -> str | None:
    if not isinstance(item, dict) or "itemIdentifier" not in item:
        return "an item of batchItemFailures has no itemIdentifier"
    identifier = item["itemIdentifier"]
    if identifier is None or identifier == "":
        return "an itemIdentifier is null or empty"
    return (
        None
        if isinstance(identifier, str) and identifier in ids
        else f"itemIdentifier {identifier!r} is not in the batch"
    )
