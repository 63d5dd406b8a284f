"""``towpath partitions``: the keys of a subscription, and what holds each."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, TypeAlias

import typer

from towpath.cli.choices import Cursor, Name, Rows
from towpath.cli.entries import print_rest
from towpath.cli.options import BindingsOption, ManifestOption, TransportOption, opened
from towpath.cli.output import JsonFlag, print_json, print_table
from towpath.message import JsonValue, format_time
from towpath.operating import PartitionEntry, PartitionState

State: TypeAlias = Annotated[
    PartitionState | None, typer.Option("--state", help="Only keys in this state.", show_default=False)
]


def partitions(
    subscription: Name,
    *,
    transport: TransportOption,
    state: State = None,
    limit: Rows = 50,
    cursor: Cursor = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the partition keys of SUBSCRIPTION that have deliveries: idle, in flight or blocked, by what, since when.

    Example: towpath partitions account.book --state blocked
    """
    with opened(transport, manifest, bindings) as open_transport:
        page = open_transport.operator().partitions(subscription, limit, cursor, state)
    if as_json:
        print_json({"partitions": [_json(entry) for entry in page], "next_cursor": page.cursor})
        return
    print_table(("key", "state", "deliveries", "head", "since", "reason"), map(_row, page))
    print_rest(page.cursor)


def _json(entry: PartitionEntry) -> JsonValue:
    return asdict(entry) | {"since": None if entry.since is None else format_time(entry.since)}


def _row(entry: PartitionEntry) -> tuple[object, ...]:
    since = None if entry.since is None else format_time(entry.since)
    return entry.partition_key, entry.state.replace("_", " "), entry.waiting, entry.head, since, entry.reason
