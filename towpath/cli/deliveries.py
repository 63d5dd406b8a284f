"""``towpath deliveries``: looking at deliveries in any state, and changing those that are open or dead."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from towpath.cli.changing import By, asked_for, discard_all
from towpath.cli.choices import Cursor, DryRun, Edit, Most, Rate, Rows
from towpath.cli.entries import entry_json, print_deliveries, print_rest
from towpath.cli.options import BindingsOption, ManifestOption, TransportOption, opened
from towpath.cli.output import JsonFlag, print_json, print_sentence
from towpath.cli.replaying import replay_asked
from towpath.cli.showing import find, print_shown, shown_json
from towpath.cli.warrants import Actor, Reason
from towpath.cli.where import Everything, Ids, Where, chosen, selected

deliveries = typer.Typer(help="Deliveries in any state: list, show, cancel, discard, replay.", no_args_is_help=True)

WithPayload: TypeAlias = Annotated[bool, typer.Option("--payload", help="Show the payload too.")]
Id: TypeAlias = Annotated[
    str, typer.Argument(help="Id of a delivery, or of a message for all deliveries of it.", metavar="ID")
]

# --- Looking -----------------------------------------------------------------------------------------------------


@deliveries.command("list")
def list_deliveries(
    *,
    transport: TransportOption,
    where: Where = None,
    limit: Rows = 50,
    cursor: Cursor = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List open and dead deliveries, with what each waits for; or, with --where state=completed or discarded, those
    that are over, the last of each subscription first. --json adds the body. Nothing is changed.

    Example: towpath deliveries list --where subscription=documents.convert --where state=pending
    """
    selection = selected(where)
    with opened(transport, manifest, bindings) as open_transport:
        page = open_transport.operator().deliveries(selection, limit, cursor)
    if as_json:
        print_json({"deliveries": [entry_json(entry) for entry in page], "next_cursor": page.cursor})
        return
    print_deliveries(page)
    print_rest(page.cursor)


def show(
    delivery: Id,
    *,
    transport: TransportOption,
    payload: WithPayload = False,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """See ``_SHOW``."""
    with opened(transport, manifest, bindings) as open_transport:
        found = find(open_transport.operator(), delivery)
    if as_json:
        print_json([shown_json(one, with_payload=payload) for one in found])
        return
    for number, one in enumerate(found):
        if number:
            print_sentence("")
        print_shown(one, with_payload=payload)


_SHOW = """Show one delivery in full: what its message carries, how it stands and what it waits for, its last error
with the traceback, and what operators did with it. The payload only with --payload. Nothing is changed.

Example: towpath {group} show {id}
"""
deliveries.command("show", help=_SHOW.format(group="deliveries", id="17-3"))(show)

# --- Changing ----------------------------------------------------------------------------------------------------


@deliveries.command()
def cancel(
    ids: Ids = None,
    *,
    transport: TransportOption,
    reason: Reason,
    everything: Everything = False,
    where: Where = None,
    rate: Rate = None,
    most: Most = None,
    dry_run: DryRun = False,
    actor: Actor = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Have workers let go of deliveries that they are at; these are discarded then, or when their leases end.

    Example: towpath deliveries cancel 17-3 --reason "wrong tenant"
    """
    by = By(reason=reason, actor=actor, rate=rate, most=most, dry_run=dry_run, as_json=as_json)
    asked = asked_for(chosen(ids, where, everything=everything), by).of_state("leased")
    with opened(transport, manifest, bindings) as open_transport:
        discard_all(open_transport.operator(), asked)


@deliveries.command()
def discard(
    ids: Ids = None,
    *,
    transport: TransportOption,
    reason: Reason,
    everything: Everything = False,
    where: Where = None,
    rate: Rate = None,
    most: Most = None,
    dry_run: DryRun = False,
    actor: Actor = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Drop deliveries for good: those that wait or are dead at once, those with workers as soon as these let go.

    Example: towpath deliveries discard --all --where key=tenant-acme --reason "the tenant has left"
    """
    by = By(reason=reason, actor=actor, rate=rate, most=most, dry_run=dry_run, as_json=as_json)
    asked = asked_for(chosen(ids, where, everything=everything), by)
    with opened(transport, manifest, bindings) as open_transport:
        discard_all(open_transport.operator(), asked)


def replay(
    ids: Ids = None,
    *,
    transport: TransportOption,
    reason: Reason,
    everything: Everything = False,
    where: Where = None,
    rate: Rate = None,
    most: Most = None,
    edit: Edit = None,
    dry_run: DryRun = False,
    actor: Actor = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """See ``_REPLAY``."""
    by = By(reason=reason, actor=actor, rate=rate, most=most, dry_run=dry_run, as_json=as_json)
    asked = asked_for(chosen(ids, where, everything=everything), by).of_state("dead")
    with opened(transport, manifest, bindings) as open_transport:
        replay_asked(open_transport.operator(), asked, ids or [], edit)


_REPLAY = """Have dead letters come again, from attempt 1 on, in their place; with --edit one of them, with another
payload, as a new message.

Example: towpath {group} replay --all --where error=ConnectionError --rate 10 --reason "the database is back"
"""
deliveries.command("replay", help=_REPLAY.format(group="deliveries"))(replay)


def share(group: typer.Typer, name: str) -> None:
    """Give another group the commands of this one that are for dead letters too."""
    group.command("show", help=_SHOW.format(group=name, id="17-3"))(show)
    group.command("replay", help=_REPLAY.format(group=name))(replay)
