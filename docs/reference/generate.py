"""Writes the generated pages of this folder: ``python docs/reference/generate.py``. A test compares them."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from aws_transport.transport import CAPABILITIES as AWS
from local_transport.transport import CAPABILITIES as DATABASE
from towpath.cli.main import build_app
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
    """Every command with its help and its options, from the command line itself."""
    lines = [
        "# Command line",
        "",
        "Tables are for people; `--json`, where a command has it, is for programs. Exit 0 is success, 1 a failure or a",
        "finding, 2 wrong use, or a topology or manifest with mistakes. A failure is one sentence; `towpath --debug`",
        "shows its traceback. The transport comes from `--transport` or `TOWPATH_TRANSPORT`, the manifest from",
        "`--manifest` or `TOWPATH_MANIFEST`, the bindings from `--bindings` or `TOWPATH_BINDINGS`.",
        "",
        "Standard output that cannot be written, for a full disk or because it is closed, is a failure only of a",
        "command whose output is all that it is called for, such as `stats`. `publish`, `apply`, `manifest render`",
        "into a file and `bundle` say on standard error what they did, and exit as if it had been written: a script",
        "that repeats what failed does not publish again. A reader who goes, as `head` does, is told nothing.",
    ]
    for path, command in _commands("towpath", get_command(build_app())):
        lines += ["", f"## `{path}`", "", *_paragraphs(command.help or "")]
        rows = [row for parameter in command.params if (row := _row(parameter))]
        if rows:
            lines += ["", "| | default | |", "|---|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from _commands(f"{path} {name}", command.get_command(None, name))


def _paragraphs(text: str) -> list[str]:
    text = re.sub(r"\s*Example: (.*?)\s*$", r"\n\n`\1`", text.replace("\n", " ").replace("\f", ""), flags=re.DOTALL)
    return re.sub(r" {2,}", "\n\n", text.strip()).splitlines()


def _row(parameter: Any) -> str | None:
    if parameter.name in ("help", "install_completion", "show_completion"):
        return None
    is_option = parameter.param_type_name == "option"
    names = ", ".join(parameter.opts) if is_option else parameter.name.upper()
    meaning = (parameter.help or "").replace("|", "&#124;")
    return f"| `{names}` | {_default(parameter)} | {meaning} |"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    return "" if default in (None, False) or callable(default) else f"`{default}`"


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
