"""Writes the generated pages of this folder: ``python docs/reference/generate.py``. A test compares them."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import typing
from pathlib import Path

from aws_transport.transport import CAPABILITIES as AWS
from local_transport.transport import CAPABILITIES as DATABASE
from towpath.manifest.schema import manifest_schema
from towpath.ports import Capability
from towpath.topology import topology_schema

FOLDER = Path(__file__).parent

MEANINGS: dict[Capability, str] = {
    "ordered": "the deliveries of a partition key come one after another, in the order of their publishing",
    "exclusive_backoff_holds_key": "a delivery in back-off keeps others of its exclusive key waiting",
    "expired_lease_backs_off": "a delivery whose lease ran out comes again after the back-off, not at once",
    "detects_duplicate_id": "publishing a message id again answers `duplicate` or `MessageIdConflict`",
    "keeps_progress": "a heartbeat's percent, note and checkpoint are kept for the next attempt",
    "pause_at_once": "pausing a subscription stops the next claim",
    "cancel_pending": "a delivery that waits can be cancelled",
    "cancel_in_flight": "a delivery under way can be cancelled, and its handler is told",
    "list_partitions": "partition keys can be listed with their states",
    "release_refunds_attempt": "a delivery given back unfinished does not lose an attempt",
    "expires_leases_itself": "a lease that runs out on the last attempt makes the delivery dead without another run",
    "counts_completions": "completed deliveries are counted",
    "delay": "`deliver_after` is kept",
    "exact_backlog": "the counts of `towpath stats` are exact",
    "receive_ends_at_stop": "nothing is claimed any more for a worker once it is stopped",
}


def transports_page() -> str:
    """The capability matrix, from the sets that the transports declare."""
    lines = [
        "# Transports",
        "",
        "What each transport can do now. An Ordered subscription on AWS is refused by `towpath topology check`; the",
        "database has every partition mode.",
        "",
        capability_matrix(),
        "",
        "## What the behaviour suite runs where",
        "",
        "`make conformance` runs the cases of `tests/conformance` on SQLite, on PostgreSQL, on SQS polled by a worker,",
        "on SQS with Lambda functions, both of LocalStack, on queues and an event source mapping in its process",
        "(`local-mapping`), and on moto's SNS, SQS and DynamoDB in its process, polled by a worker (`moto`), and",
        "prints how each ended. Where a case wants functions side by side, pollers of the suite's own call them, since",
        "LocalStack's mapping makes one call at a time. These are declared:",
        "",
    ]
    return "\n".join(lines) + "\n" + conformance_matrix()


def capability_matrix() -> str:
    """What each transport can do, from the sets that they declare."""
    lines = ["| capability | meaning | database | AWS |", "|---|---|---|---|"]
    for name in typing.get_args(Capability):
        cells = ("yes" if name in supported else "–" for supported in (DATABASE, AWS))
        lines.append(f"| `{name}` | {MEANINGS[name]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def conformance_matrix() -> str:
    """The cases and their transports, which pytest collects in a process of its own."""
    command = [sys.executable, "-m", "tests.conformance.matrix"]
    ran = subprocess.run(command, cwd=FOLDER.parents[1], capture_output=True, text=True, check=False)  # noqa: S603 - our own module
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr)
    return ran.stdout


def command_line_page() -> str:
    """Every command, which a file of its own writes."""
    return str(runpy.run_path(str(FOLDER / "command_page.py"))["command_line_page"]())


def handler_page() -> str:
    """What a handler is, gets and answers, from the code that calls it."""
    return str(runpy.run_path(str(FOLDER / "handler_page.py"))["handler_page"]())


def topology_page() -> str:
    """The topology's page, which a file of its own writes."""
    return str(runpy.run_path(str(FOLDER / "topology_page.py"))["topology_page"]())


def errors_page() -> str:
    """The page of codes, reasons and exceptions, which a file of its own writes."""
    return str(runpy.run_path(str(FOLDER / "errors_page.py"))["errors_page"]())


def manifest_page() -> str:
    """The manifest's page, which a file of its own writes."""
    return str(runpy.run_path(str(FOLDER / "manifest_page.py"))["manifest_page"]())


def testing_page() -> str:
    """The page of what tests of handlers use, which a file of its own writes."""
    return str(runpy.run_path(str(FOLDER / "testing_page.py"))["testing_page"]())


def terraform_page() -> str:
    """The README of the Terraform module, which is no page of this folder."""
    return str(runpy.run_path(str(FOLDER / "terraform_page.py"))["terraform_page"]())


def comparison_page() -> str:
    """The explanation that compares the transports, with the tables in it written anew."""
    return str(runpy.run_path(str(FOLDER / "comparison_page.py"))["comparison_page"](capability_matrix()))


def manifest_schema_text() -> str:
    """The JSON Schema of manifests, as ``towpath manifest schema`` prints it."""
    return json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"


def schema_text() -> str:
    """The JSON Schema of topologies, as ``towpath topology schema`` prints it."""
    return json.dumps(topology_schema(), indent=2, ensure_ascii=False) + "\n"


PAGES = {
    "transports.md": transports_page,
    "command-line.md": command_line_page,
    "errors.md": errors_page,
    "handler.md": handler_page,
    "topology.md": topology_page,
    "topology.schema.json": schema_text,
    "manifest.md": manifest_page,
    "testing.md": testing_page,
    "manifest.schema.json": manifest_schema_text,
    "../../terraform/README.md": terraform_page,
    "../explanation/transports-compared.md": comparison_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
