"""``towpath dead-letters``: what is set aside for a person, and what they do with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from towpath.cli.changing import By, asked_for, changes, discard_all, many
from towpath.cli.choices import AnyName, Cursor, DryRun, Most, Name, Rate, Rows
from towpath.cli.deliveries import share
from towpath.cli.entries import entry_json, print_dead_letters, print_rest
from towpath.cli.exporting import Export
from towpath.cli.options import BindingsOption, ManifestOption, TransportOption, opened, place, require_subscriptions
from towpath.cli.output import JsonFlag, print_json, print_sentence, telling
from towpath.cli.warrants import Actor, Reason, warrant
from towpath.cli.where import Everything, Ids, Where, chosen, selected
from towpath.operating import Pace

dead_letters = typer.Typer(help="Dead letters: deliveries set aside for a person.", no_args_is_help=True)

Output: TypeAlias = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="A new file for them; default: standard output.", show_default=False),
]
GoOn: TypeAlias = Annotated[
    bool, typer.Option("--resume", help="Go on with the export to this file that was interrupted.")
]


@dead_letters.command("list")
def list_dead_letters(
    subscription: AnyName = None,
    *,
    transport: TransportOption,
    limit: Rows = 50,
    cursor: Cursor = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List dead letters with their ids and reasons, those dead for longest first; --json adds the body.

    Nothing is changed. Replay and discard take the ids.

    Example: towpath dead-letters list documents.convert --transport sqlite:///dev.db
    """
    with opened(transport, manifest, bindings) as open_transport:
        require_subscriptions(open_transport, transport, open_transport.policies())
        page = open_transport.operator().dead_letters(subscription, limit, cursor)
    if as_json:
        print_json({"dead_letters": [entry_json(entry) for entry in page], "next_cursor": page.cursor})
        return
    print_dead_letters(page)
    print_rest(page.cursor)


@dead_letters.command("export")
def export_dead_letters(
    *,
    transport: TransportOption,
    where: Where = None,
    output: Output = None,
    resume: GoOn = False,
    cursor: Cursor = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
) -> None:
    """Write dead letters with their bodies as JSON Lines, those dead for longest first. Nothing is changed.

    A file has its name only once it is complete; until then it is NAME.partial. What is interrupted, or meets a full
    disk, goes on with --resume, from standard output with --cursor.

    Example: towpath dead-letters export --where subscription=documents.convert --output dead.jsonl
    """
    if resume and (output is None or cursor is not None):
        raise typer.BadParameter("--resume goes on with the file of --output, and knows its cursor")
    selection = chosen(None, where, everything=True)[0] if where else selected(None)
    export = Export(selection, output, cursor, place(transport, manifest))
    with export.begun(resume=resume), opened(transport, manifest, bindings) as open_transport:
        count = export.run(open_transport.operator())
    if output is not None:
        print_sentence(f"{many(count)} exported to {output}")


share(dead_letters, "dead-letters")


@dead_letters.command("discard")
def discard_dead_letters(
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
    """Drop dead letters for good.

    Example: towpath dead-letters discard --all --where older-than=7d --reason "too late by now"
    """
    by = By(reason=reason, actor=actor, rate=rate, most=most, dry_run=dry_run, as_json=as_json)
    asked = asked_for(chosen(ids, where, everything=everything), by).of_state("dead")
    with opened(transport, manifest, bindings) as open_transport:
        discard_all(open_transport.operator(), asked)


@dead_letters.command()
def purge(
    subscription: Name,
    *,
    transport: TransportOption,
    reason: Reason,
    rate: Rate = None,
    actor: Actor = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Drop all dead letters that SUBSCRIPTION has now.

    Example: towpath dead-letters purge documents.convert --reason "all from the load test"
    """
    by = warrant(actor, reason)
    with opened(transport, manifest, bindings) as open_transport, changes(as_json=as_json) as made:
        count = open_transport.operator().purge(subscription, by, made.pace(Pace(rate=rate)))
    with telling(f"{count} dead letters are dropped"):
        if as_json:
            print_json({"discarded": count})
        else:
            print_sentence(f"{many(count)} discarded")
