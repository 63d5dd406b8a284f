"""Bundles and verifications as JSON for programs and as text for people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from rich.markup import escape

from bundling.build import Bundle
from bundling.verify import VerifyReport
from towpath.cli.output import console, print_table

_HEAVIEST: Final = 8
_LACKS_BOTO3: Final = re.compile(r"No module named '(boto3|botocore)")


def bundle_json(bundle: Bundle) -> Any:
    """The bundle's record."""
    return {**asdict(bundle), "path": str(bundle.path)}


def print_bundle(bundle: Bundle) -> None:
    """The bundle's facts, and what is heavy in it."""
    rows: list[tuple[str, object]] = [
        ("zip", bundle.path),
        ("target", bundle.target),
        ("sha256", bundle.sha256),
        ("S3 key", bundle.s3_key),
        ("tree hash", bundle.tree_hash),
        ("size", f"{_size(bundle.zip_bytes)}, unzipped {_size(bundle.unzipped_bytes)} in {bundle.files} files"),
        ("compiled files", "in" if bundle.bytecode == "compiled" else "left out"),
        ("left to Lambda", ", ".join(bundle.left_out) or "nothing"),
    ]
    for name, fact in rows:
        console().print(f"{name:<14} {escape(str(fact))}", soft_wrap=True)
    heaviest = [(weight.name, _size(weight.size)) for weight in bundle.weights[:_HEAVIEST]]
    print_table(("heaviest", "unzipped"), heaviest)
    for name in bundle.uncompiled:
        console().print(f"[yellow]not compiled:[/] {escape(name)} is no valid Python for the target", soft_wrap=True)


def verification_json(report: VerifyReport) -> Any:
    """The report's record."""
    succeeded = report.run.succeeded if report.run else None
    return {**asdict(report), "succeeded": succeeded}


def print_verification(report: VerifyReport) -> None:
    """Each event with its response and logs, then the figures."""
    for line in _verification(report):
        console().print(line, soft_wrap=True)


def _verification(report: VerifyReport) -> Iterator[str]:
    run = report.run
    if run is None:
        yield f"[yellow]not run:[/] the zip is for {report.stamp.target} and this is {report.host}; its contents fit"
        return
    yield from _indented(run.started.logs)
    if run.started.error is not None:
        yield f"[bold red]the function does not start:[/] {_text(run.started.error)}"
        return
    for invoked in run.invocations:
        verdict = "[bold red]failed[/]" if invoked.is_error else "[green]answered[/]"
        yield f"[bold]{escape(invoked.event)}[/] {verdict} in {invoked.duration_ms:.0f} ms: {_text(invoked.response)}"
        yield from _indented(invoked.logs)
    if any(_LACKS_BOTO3.search(invoked.logs) for invoked in run.invocations):
        yield "[yellow]hint:[/] boto3 is missing here and not on Lambda; add it with --with boto3"
    memory = "" if run.peak_memory_mb is None else f", memory {run.peak_memory_mb} MB"
    yield f"cold start {run.started.duration_ms:.0f} ms{memory}, {report.stamp.target}"


def _indented(logs: str) -> Iterator[str]:
    return (f"  [dim]{escape(line)}[/]" for line in logs.splitlines())


def _text(document: object) -> str:
    return escape(json.dumps(document, ensure_ascii=False))


def _size(size: int) -> str:
    return f"{size / 1_000_000:.2f} MB" if size >= 10_000 else f"{size / 1_000:.1f} kB"
