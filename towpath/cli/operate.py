"""``towpath apply``, ``stats`` and ``backlog``: how a running system stands."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from towpath.cli.choices import AnyName
from towpath.cli.options import (
    BindingsOption,
    ManifestOption,
    TransportOption,
    opened,
    require_subscriptions,
    without_password,
)
from towpath.cli.output import JsonFlag, print_json, print_sentence, print_table, print_warning, telling
from towpath.errors import InvalidManifest, Unsupported
from towpath.manifest import Manifest
from towpath.message import JsonValue
from towpath.operating import Backlog
from towpath.ports import SubscriptionStats, Transport
from towpath.transports import Applied, TopologyStore, connect

ManifestFile: TypeAlias = Annotated[
    Path, typer.Argument(envvar="TOWPATH_MANIFEST", help="The rendered manifest.", metavar="MANIFEST")
]
DatabaseOption: TypeAlias = Annotated[
    str, typer.Option("--database", envvar="TOWPATH_TRANSPORT", help="The database's URL.", show_default=False)
]


def apply(
    manifest: ManifestFile = Path("manifest.json"), *, database: DatabaseOption, as_json: JsonFlag = False
) -> None:
    """Make a database's topics and subscriptions equal to MANIFEST, in one transaction.

    Example: towpath apply manifest.json --database sqlite:///dev.db
    """
    resolved = Manifest.load(manifest)
    topology = manifest.with_name("topology.toml")
    if topology.is_file() and topology.stat().st_mtime > manifest.stat().st_mtime:
        print_warning(f"{topology} is newer than {manifest}: render it again")
    store = _store(database)
    try:
        if not isinstance(store, TopologyStore):
            raise _no_store(database)
        applied = store.apply(resolved)
    finally:
        store.close()
    with telling(f"{manifest} is applied"):
        if as_json:
            print_json(asdict(applied))
        else:
            print_sentence(_applied_line(applied))


def _store(url: str) -> Transport:
    """The transport; what cannot be opened without a manifest keeps no topology."""
    try:
        return connect(url)
    except InvalidManifest as error:
        raise _no_store(url) from error


def _no_store(url: str) -> Unsupported:
    shown = without_password(url)
    return Unsupported(f"{shown} keeps no topology of its own; deploy it with terraform apply or cdk deploy")


def _applied_line(applied: Applied) -> str:
    parts = [
        f"{verb} {', '.join(names)}"
        for verb, names in (("added", applied.added), ("changed", applied.changed), ("removed", applied.removed))
        if names
    ]
    return "; ".join(parts) or "nothing to change"


def stats(
    *,
    transport: TransportOption,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show how each subscription stands: counts, ages in seconds of what waits and is dead for longest, and how many
    were completed and died a minute in the last five. A dash, or null, is what the transport cannot tell.

    Example: towpath stats --transport sqlite:///dev.db
    """
    with opened(transport, manifest, bindings) as open_transport:
        rows = open_transport.operator().stats()
        require_subscriptions(open_transport, transport, rows)
    if as_json:
        print_json([_stats_json(row) for row in rows])
        return
    headings = (
        "subscription",
        "topic",
        "pending",
        "leased",
        "dead",
        "completed",
        "discarded",
        "oldest pending",
        "oldest dead",
        "completed/min",
        "dead/min",
        "status",
    )
    print_table(headings, ((*_stats_json(row).values(),) for row in rows))


def _stats_json(row: SubscriptionStats) -> dict[str, JsonValue]:
    return {
        "subscription": row.subscription,
        "topic": row.topic,
        "pending": row.pending,
        "leased": row.leased,
        "dead": row.dead,
        "completed": row.completed,
        "discarded": row.discarded,
        "oldest_pending_seconds": _seconds(row.oldest_pending),
        "oldest_dead_seconds": _seconds(row.oldest_dead),
        "completed_per_minute": row.completed_per_minute,
        "dead_per_minute": row.dead_per_minute,
        "status": row.status,
    }


def _seconds(age: timedelta | None) -> float | None:
    return None if age is None else round(age.total_seconds(), 1)


def backlog(
    subscription: AnyName = None,
    *,
    transport: TransportOption,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what there is to do for workers, for a scaler: what could start now, and what runs.

    Cheap however much waits: each count goes to 1,000 ("1000+", in JSON "..._capped": it may be more).

    Example: towpath backlog documents.convert --transport sqlite:///dev.db --json
    """
    with opened(transport, manifest, bindings) as open_transport:
        rows = open_transport.operator().backlog(subscription)
        require_subscriptions(open_transport, transport, rows)
    if as_json:
        print_json([_backlog_json(row) for row in rows])
        return
    print_table(("subscription", "claimable", "in flight", "backlog"), map(_backlog_row, rows))


def _backlog_json(row: Backlog) -> dict[str, JsonValue]:
    return asdict(row) | {"backlog": row.claimable + row.in_flight}


def _backlog_row(row: Backlog) -> tuple[object, ...]:
    more = row.claimable_capped or row.in_flight_capped
    return (
        row.subscription,
        _bounded(row.claimable, capped=row.claimable_capped),
        _bounded(row.in_flight, capped=row.in_flight_capped),
        _bounded(row.claimable + row.in_flight, capped=more),
    )


def _bounded(count: int, *, capped: bool) -> str:
    return f"{count}{'+' if capped else ''}"
