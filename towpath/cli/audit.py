"""``towpath audit``: who did what, when and why."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, TypeAlias

import typer

from towpath.cli.choices import Cursor, Rows
from towpath.cli.entries import print_rest
from towpath.cli.options import BindingsOption, ManifestOption, TransportOption, opened
from towpath.cli.output import JsonFlag, print_json, print_table
from towpath.cli.where import written
from towpath.message import JsonValue, format_time
from towpath.operating import AuditEntry

About: TypeAlias = Annotated[
    str | None,
    typer.Option("--about", help="Only what was done with this delivery (its id) or subscription.", show_default=False),
]


def audit(
    *,
    transport: TransportOption,
    about: About = None,
    limit: Rows = 50,
    cursor: Cursor = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what operators did, the latest first: who, when, what, to which deliveries, why. Nothing is changed.

    On AWS the trail is the log, unless TOWPATH_AUDIT_DATABASE names a database that keeps it too.

    Example: towpath audit --about 17-3
    """
    if about is not None:
        written(about, "--about")
    with opened(transport, manifest, bindings) as open_transport:
        page = open_transport.operator().audit(limit, cursor, about)
    if as_json:
        print_json({"entries": [audit_json(entry) for entry in page], "next_cursor": page.cursor})
        return
    headings = ("entry", "at", "actor", "action", "subject", "deliveries", "reason")
    print_table(headings, map(_row, page))
    print_rest(page.cursor)


def audit_json(entry: AuditEntry) -> dict[str, JsonValue]:
    """An entry with all its details."""
    return asdict(entry) | {"at": format_time(entry.at), "details": dict(entry.details)}


def _row(entry: AuditEntry) -> tuple[object, ...]:
    named = [*entry.details.get("deliveries", ()), *entry.details.get("requested", ())]
    count = len(named) if named else None
    shown = named[0] if count == 1 else count
    if shown is None and "removed" in entry.details:
        shown = json.dumps(entry.details["removed"])
    return entry.id, format_time(entry.at), entry.actor, entry.action, entry.subject, shown, entry.reason
