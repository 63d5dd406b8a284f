"""The event source mappings of a queue against the manifest: who polls it, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aws_transport.checking.facts import Look, Seen
from aws_transport.checking.findings import Finding
from aws_transport.checking.looks import Told, unseen
from towpath.manifest import EventSourceMapping

_ON: Final = ("Creating", "Enabled", "Enabling", "Updating")


def mapping_findings(
    subject: str,
    wanted: EventSourceMapping | None,
    alias_arn: str | None,
    look: Look[tuple[Mapping[str, Any], ...]],
) -> Iterator[Finding]:
    """Everything about who polls the queue; nobody should where ``wanted`` is ``None``."""
    told = Told(subject=subject, code="mapping", of="the event source mapping of its queue")
    missing = unseen(look, told, "nobody polls its queue")
    if missing is not None:
        yield missing
    if not isinstance(look, Seen):
        return
    own = [one for one in look.value if wanted is not None and one.get("FunctionArn") == alias_arn]
    for one in look.value:
        if one not in own:
            yield told.finding(
                "competes",
                f"Lambda gives its messages to {one.get('FunctionArn')} too (mapping {one.get('UUID')})",
                "no such mapping" if wanted is None else f"only {alias_arn} gets them",
                "delete that mapping, or point it at the alias",
            )
    if wanted is None:
        return
    if not own:
        yield told.finding("missing", f"no mapping gives its messages to {alias_arn}", "Lambda polls its queue for it")
    for one in own:
        yield from _mapping(told, wanted, one)


def _mapping(told: Told, wanted: EventSourceMapping, found: Mapping[str, Any]) -> Iterator[Finding]:
    state = str(found.get("State"))
    if (state in _ON) is not wanted.enabled:
        yield told.finding("state", f"{told.of} is {state}", "Enabled" if wanted.enabled else "Disabled")
    answers = sorted(found.get("FunctionResponseTypes") or ())
    if answers != sorted(wanted.function_response_types):
        yield told.finding(
            "responses",
            f"{told.of} has the response types {', '.join(answers) or 'none'}: what the function answers is not read, "
            "and failed messages are deleted",
            ", ".join(wanted.function_response_types),
        )
    patterns = (found.get("FilterCriteria") or {}).get("Filters") or ()
    if patterns:
        yield told.finding("filter", f"{told.of} has a filter, and deletes what does not pass it", "no filter criteria")
    yield from _rates(told, wanted, found)
    result = str(found.get("LastProcessingResult") or "")
    if result.startswith("PROBLEM"):
        yield told.finding(
            "problem", f"{told.of} last said {result}", "it works", "repair what Lambda names", severity="warning"
        )


def _rates(told: Told, wanted: EventSourceMapping, found: Mapping[str, Any]) -> Iterator[Finding]:
    scaling = found.get("ScalingConfig") or {}
    most = scaling.get("MaximumConcurrency")
    findings = (
        told.number("batch-size", "a batch size", found.get("BatchSize"), wanted.batch_size, "warning"),
        told.number(
            "window",
            "a batch window (s)",
            found.get("MaximumBatchingWindowInSeconds") or 0,
            wanted.batch_window_seconds,
            "warning",
        ),
        told.other("concurrency", "a maximum concurrency of", most, wanted.maximum_concurrency, "warning"),
    )
    yield from (finding for finding in findings if finding is not None)
