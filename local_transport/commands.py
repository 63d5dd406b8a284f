"""``towpath db``: the schema of a database, how it is, and retention."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Final, TypeAlias

import typer

from local_transport.connections import Database
from local_transport.counting import BACKLOG_VIEW
from local_transport.dialects.health import Finding
from local_transport.dialects.scaler import role_script
from local_transport.health import CheckUp, wake_lanes
from local_transport.purging import Purging
from local_transport.schema import SchemaState, mismatch, schema_state, upgrade
from local_transport.transport import open_transport
from towpath.cli.interrupts import Interrupted, interruptible
from towpath.cli.options import require_file
from towpath.cli.output import JsonFlag, console, print_document, print_json, print_sentence, telling
from towpath.cli.progress import progress
from towpath.cli.warrants import Actor, warrant
from towpath.operating import Warrant
from towpath.transports import Options

_ROLE: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")

app = typer.Typer(help="The schema of a database, how it is, and retention.", no_args_is_help=True)

DatabaseOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--database", "--transport", envvar="TOWPATH_TRANSPORT", help="The database's URL.", show_default=False
    ),
]
PurgeReason: TypeAlias = Annotated[str, typer.Option("--reason", help="Why, for the audit trail.")]
PurgeDryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Count what would be removed, and remove nothing.")
]
WakeLanes: TypeAlias = Annotated[
    bool, typer.Option("--wake-lanes", help="Have claims look at deliveries that are stuck in their lanes.")
]


def _role(name: str) -> str:
    if _ROLE.fullmatch(name) is None:
        raise typer.BadParameter(f"{name!r} is no name for a role here; take small letters, digits and _, 63 at most")
    return name


@app.command("upgrade")
def upgrade_schema(*, database: DatabaseOption, as_json: JsonFlag = False) -> None:
    """Bring the tables up to this version, in one transaction; make them when there are none.

    Example: towpath db upgrade --database postgresql://host/name
    """
    with _opened(database) as opened:
        before = upgrade(opened)
    if as_json:
        print_json({"before": before.installed, "after": before.needed})
    elif before.current:
        console().print(f"Schema version {before.needed} already; nothing to do.")
    else:
        console().print(f"Schema version {before.needed} now; it was {before.installed or 'not there'}.")
        if before.installed is None:
            console().print("Next: towpath apply")


@app.command()
def check(*, database: DatabaseOption, wake: WakeLanes = False, as_json: JsonFlag = False) -> None:
    """Look a database over: schema, clock, leases, lanes, dead letters, settings, dead rows, open transactions.

    Each finding says what to do. Exit 0 when there is none, 1 when there is one.

    Example: towpath db check --database postgresql://host/name
    """
    require_file(database)
    with _opened(database) as opened:
        findings = opened.unopened_findings()
        state = schema_state(opened)
        if state.current:
            woken = wake_lanes(opened) if wake else 0
            findings += CheckUp(database=opened).findings()
        else:
            findings.append(_outdated(state, opened.label))
    if as_json:
        print_json(asdict(state) | {"current": state.current, "findings": [asdict(one) for one in findings]})
    else:
        _print(state, findings)
        if state.current and wake:
            print_sentence(f"{woken} deliveries are looked at again.")
    if findings:
        raise typer.Exit(1)


@app.command("scaler-role")
def scaler_role(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The role's name.", callback=_role)] = "towpath_scaler",
) -> None:
    """Print the SQL that lets a scaler (KEDA) read the backlog of a server's database, and nothing else.

    It makes the view towpath_backlog, with the figures of 'towpath backlog', and a role that may read it alone.
    psql runs it, as the owner of the tables. Nothing is connected to here.

    Example: towpath db scaler-role keda | psql postgresql://owner@host/name
    """
    print_document(role_script(BACKLOG_VIEW, name))


@app.command()
def purge(
    *,
    database: DatabaseOption,
    reason: PurgeReason = "retention now",
    actor: Actor = None,
    dry_run: PurgeDryRun = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove now what is kept for longer than its retention, as workers do once a minute, in small transactions.

    That is history and the messages that nothing refers to, dead letters, deduplication keys. What is open stays,
    however old, and so does the audit trail, which keeps who, when and how many. A signal ends it after the batch under
    way; repeated it goes on.

    Example: towpath db purge --database postgresql://host/name --dry-run
    """
    by = warrant(actor, reason)
    require_file(database)
    transport = open_transport(database, Options(manifest=None, bindings=None))
    try:
        purging = transport.purging()
        removed = purging.overdue() if dry_run else _purged(purging, by, as_json=as_json)
    finally:
        transport.close()
    with telling(f"{sum(removed.values())} rows are removed"):
        if as_json:
            print_json({**removed, "dry_run": dry_run})
        else:
            counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in removed.items())
            print_sentence(f"{'to be removed' if dry_run else 'removed'}: {counts}")


def _purged(purging: Purging, by: Warrant, *, as_json: bool) -> dict[str, int]:
    total = 0
    with interruptible() as interrupts, progress("rows removed", enabled=not as_json) as live:

        def told(_: str, count: int) -> None:
            nonlocal total
            total += count
            live.advance(count)
            interrupts.between()

        try:
            with interrupts.step():
                return purging.run(by, told)
        except Interrupted as interrupt:
            raise interrupt.saying(f"{total:,} rows are removed; the same command goes on") from interrupt


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    database = Database(url)
    try:
        yield database
    finally:
        database.close()


def _outdated(state: SchemaState, label: str) -> Finding:
    problem, repair = mismatch(state, label)
    return Finding(code="schema", problem=problem, repair=repair)


def _print(state: SchemaState, findings: list[Finding]) -> None:
    if state.current:
        rest = "." if findings else "; nothing to do."
        print_sentence(f"Schema version {state.installed}, as this Towpath needs{rest}")
    for finding in findings:
        print_sentence(f"{finding.code}: {finding.problem}. To do: {finding.repair}.")
