"""Bundles and verifications as JSON for programs and as text for people."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final, get_args

from rich.markup import escape

from bundling.build import Bundle
from bundling.outcomes import RecordOutcome, State, is_settled, log_lines
from bundling.sandbox import Invoked
from bundling.upload import Uploaded
from bundling.verify import VerifyReport
from towpath.cli.output import console, print_table

_HEAVIEST: Final = 8
_LACKS_BOTO3: Final = re.compile(r"No module named '(boto3|botocore)|boto3 is not installed")
_WORDS: Final[dict[State, str]] = {  # for people, the same as a worker's
    "completed": "completed",
    "discarded": "discarded",
    "dead": "dead",
    "pending": "retried",
    "failed": "failed",
}
_TRACEBACK: Final = "Traceback (most recent call last):"
_METRICS: Final = '{"_aws":'  # how a line in CloudWatch's embedded metric format begins


def bundle_json(bundle: Bundle, uploaded: Uploaded | None = None) -> Any:
    """The bundle's record; once uploaded, with the bucket, and the key in it."""
    record = {**asdict(bundle), "path": str(bundle.path), "requirements": str(bundle.requirements)}
    return {**record, **(asdict(uploaded) if uploaded else {})}


def print_bundle(bundle: Bundle, uploaded: Uploaded | None = None) -> None:
    """The bundle's facts, and what is heavy in it."""
    rows: list[tuple[str, object]] = [
        ("zip", bundle.path),
        ("target", bundle.target),
        ("dependencies", f"of {bundle.requirements}"),
        ("sha256", bundle.sha256),
        ("S3 key", bundle.s3_key),
        ("tree hash", bundle.tree_hash),
        ("size", f"{_size(bundle.zip_bytes)}, unzipped {_size(bundle.unzipped_bytes)} in {bundle.files} files"),
        ("compiled files", "in" if bundle.bytecode == "compiled" else "left out"),
        ("left to Lambda", ", ".join(bundle.left_out) or "nothing"),
    ]
    if uploaded is not None:
        rows.append((f"upload {uploaded.upload}", f"s3://{uploaded.s3_bucket}/{uploaded.s3_key}"))
    for name, fact in rows:
        console().print(f"{name:<14} {escape(str(fact))}", soft_wrap=True)
    print_table(("heaviest", "of", "unzipped", "in the zip", "share"), _heaviest(bundle))
    for name in bundle.uncompiled:
        console().print(f"[yellow]not compiled:[/] {escape(name)} is no valid Python for the target", soft_wrap=True)
    for warning in bundle.warnings:
        console().print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)


def _heaviest(bundle: Bundle) -> Iterator[tuple[str, ...]]:
    for weight in bundle.weights[:_HEAVIEST]:
        origin = ", ".join(weight.distributions) or "the project"
        share = f"{weight.size / bundle.unzipped_bytes:.0%}"
        yield weight.name, origin, _size(weight.size), _size(weight.zipped), share


def verification_json(report: VerifyReport) -> Any:
    """The report's record."""
    succeeded = report.run.succeeded if report.run else None
    return {**asdict(report), "succeeded": succeeded}


def print_verification(report: VerifyReport, *, debug: bool) -> None:
    """Each event with what became of its records, and what the function wrote; then the figures. ``debug`` adds the
    tracebacks and the lines of the runtime client.
    """
    for line in _verification(report, debug=debug):
        console().print(line, soft_wrap=True)


def _verification(report: VerifyReport, *, debug: bool) -> Iterator[str]:
    run = report.run
    if run is None:
        yield f"[yellow]not run:[/] the zip is for {report.stamp.target} and this is {report.host}; its contents fit"
        return
    yield from _written(run.started.logs, run.started.error, debug=debug)
    if run.started.error is not None:
        yield f"[bold red]the function does not start:[/] {escape(_error(run.started.error))}"
        return
    for invoked in run.invocations:
        yield from _event(invoked, debug=debug)
    if any(_LACKS_BOTO3.search(invoked.logs) for invoked in run.invocations):
        yield "[yellow]hint:[/] boto3 is missing here and not on Lambda; verify without --bare"
    if run.sqs_calls is not None:
        calls = ", ".join(f"{count} {action}" for action, count in sorted(run.sqs_calls.items()))
        yield f"SQS calls, answered by a stand-in: {calls or 'none'}"
    memory = "" if run.peak_memory_mb is None else f", memory {run.peak_memory_mb} MB"
    yield f"cold start {run.started.duration_ms:.0f} ms{memory}, {report.stamp.target}"


def _event(invoked: Invoked, *, debug: bool) -> Iterator[str]:
    name, took = escape(invoked.event), f"in {invoked.duration_ms:.0f} ms"
    if invoked.is_error:
        yield f"[bold]{name}[/] [bold red]failed[/] {took}: {escape(_error(invoked.response))}"
    elif invoked.records:
        yield f"[bold]{name}[/] [green]answered[/] {took}, {_counts(invoked.records)}"
    else:
        yield f"[bold]{name}[/] [green]answered[/] {took}: {_text(invoked.response)}"
    for record in invoked.records:
        if record.state != "completed":
            hidden = "" if record.hidden_seconds is None else f", hidden for {record.hidden_seconds} s"
            yield escape(
                f"  {record.message_id} {_WORDS[record.state]}{hidden}: {record.why or 'no reason was logged'}"
            )
    yield from _written(invoked.logs, invoked.response if invoked.is_error else None, debug=debug)


def _counts(records: Sequence[RecordOutcome]) -> str:
    """``3 records: 1 completed, 2 retried``."""
    counts = Counter(record.state for record in records)
    states = ", ".join(f"{counts[state]} {_WORDS[state]}" for state in get_args(State) if counts[state])
    return f"{len(records)} record{'s' if len(records) > 1 else ''}: {states}"


def _written(logs: str, error: object, *, debug: bool) -> Iterator[str]:
    """What the function wrote, indented: as it is for ``debug``, else without what is told elsewhere."""
    lines = logs.splitlines() if debug else _own_lines(logs, error)
    return (f"  [dim]{escape(line)}[/]" for line in lines)


def _own_lines(logs: str, error: object) -> Iterator[str]:
    """The logger's lines in short, and what was printed: neither the records' outcomes, nor tracebacks, nor metrics,
    nor what AWS's runtime client says of ``error``.
    """
    in_traceback = False
    for line in log_lines(logs):
        text = str(line["message"])
        in_traceback = text == _TRACEBACK or (in_traceback and text[:1].isspace())
        if in_traceback or is_settled(line) or "LAMBDA_WARNING" in text or text.startswith(_METRICS):
            continue
        if error is None or text != f"[ERROR] {_error(error)}":
            yield f"{line['level']} {text}" if "level" in line else text


def _error(document: object) -> str:
    """An error document in one line, without its stack."""
    if not isinstance(document, dict):
        return _json(document)
    return " ".join(f"{document.get('errorType', 'Error')}: {document.get('errorMessage', '')}".split())


def _json(document: object) -> str:
    return json.dumps(document, ensure_ascii=False)


def _text(document: object) -> str:
    return escape(_json(document))


def _size(size: int) -> str:
    return f"{size / 1_000_000:.2f} MB" if size >= 10_000 else f"{size / 1_000:.1f} kB"
