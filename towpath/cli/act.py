"""``towpath deliveries`` and ``dead-letters``: looking at deliveries, and changing them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from towpath.cli.changing import Asked, By, asked_for, change_all, counted, many, progress, tell
from towpath.cli.logs import news_of
from towpath.cli.operate import list_dead_letters, print_rest
from towpath.cli.options import BindingsOption, ManifestOption, TransportOption, opened
from towpath.cli.output import JsonFlag, print_json, print_sentence, print_table, telling
from towpath.cli.warrants import Actor, Reason, warrant
from towpath.cli.where import Everything, Ids, Where, chosen, selected
from towpath.message import JsonValue, format_time, is_message_id
from towpath.operating import DeliveryEntry, Operator, Pace, Selection

deliveries = typer.Typer(help="Deliveries that are open or dead: list, cancel, discard.", no_args_is_help=True)
dead_letters = typer.Typer(help="Dead letters: deliveries set aside for a person.", no_args_is_help=True)
dead_letters.command("list")(list_dead_letters)

Name: TypeAlias = Annotated[str, typer.Argument(help="The subscription.", metavar="SUBSCRIPTION")]
Rate: TypeAlias = Annotated[
    float | None,
    typer.Option("--rate", min=0.01, max=1_000_000, help="Change at most so many a second.", show_default=False),
]
Most: TypeAlias = Annotated[
    int | None, typer.Option("--limit", min=1, help="Change at most so many.", show_default=False)
]
Rows: TypeAlias = Annotated[int, typer.Option("--limit", min=1, help="Show at most so many.")]
Cursor: TypeAlias = Annotated[
    str | None, typer.Option("--cursor", help="Go on where another list ended.", show_default=False)
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Count what would be changed, and change nothing.")]
Edit: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--edit",
        help="Replay one dead letter with the JSON payload in this file ('-': standard input), as a new message.",
        show_default=False,
    ),
]


# --- Lists -------------------------------------------------------------------------------------------------------


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
    """List open and dead deliveries, with what each waits for; --json adds the body. Nothing is changed.

    Example: towpath deliveries list --where subscription=documents.convert --where state=pending
    """
    selection = selected(where)
    with opened(transport, manifest, bindings) as open_transport:
        page = open_transport.operator().deliveries(selection, limit, cursor)
    if as_json:
        print_json({"deliveries": [_entry_json(entry) for entry in page], "next_cursor": page.cursor})
        return
    headings = (
        "delivery",
        "subscription",
        "message",
        "key",
        "state",
        "attempt",
        "waits for",
        "since",
        "reason",
        "error",
    )
    print_table(headings, (_entry_row(entry) for entry in page))
    print_rest(page.cursor)


def _entry_json(entry: DeliveryEntry) -> JsonValue:
    return {name: format_time(value) if isinstance(value, datetime) else value for name, value in asdict(entry).items()}


def _entry_row(entry: DeliveryEntry) -> tuple[object, ...]:
    return (
        entry.delivery_id,
        entry.subscription,
        entry.message_id,
        entry.partition_key,
        "cancelled" if entry.cancel_requested else entry.state,
        entry.attempt,
        None if entry.waits_for is None else entry.waits_for.replace("_", " "),
        format_time(entry.dead_since or entry.published_at),
        entry.reason or None,
        news_of(entry.error, entry.reason),
    )


# --- Changes -----------------------------------------------------------------------------------------------------


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
        _discard(open_transport.operator(), asked)


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
        _discard(open_transport.operator(), asked)


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
        _discard(open_transport.operator(), asked)


@dead_letters.command()
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
    """Have dead letters come again, from attempt 1 on, in their place.

    Example: towpath dead-letters replay --all --where error=ConnectionError --rate 10 --reason "the database is back"
    """
    by = By(reason=reason, actor=actor, rate=rate, most=most, dry_run=dry_run, as_json=as_json)
    asked = asked_for(chosen(ids, where, everything=everything), by).of_state("dead")
    payload = None if edit is None else _payload(edit)
    with opened(transport, manifest, bindings) as open_transport:
        operator = open_transport.operator()
        if edit is not None:
            _replay_edited(operator, ids or [], payload, asked)
        elif asked.dry_run:
            tell(asked, "replayed", "to be replayed", counted(operator, asked))
        else:
            count = change_all(asked, lambda one, pace: operator.replay(one, asked.warrant, pace))
            tell(asked, "replayed", "replayed", count)


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
    with opened(transport, manifest, bindings) as open_transport, progress(as_json=as_json) as changed:
        count = open_transport.operator().purge(subscription, by, Pace(rate=rate, changed=changed))
    with telling(f"{count} dead letters are dropped"):
        if as_json:
            print_json({"discarded": count})
        else:
            print_sentence(f"{many(count)} discarded")


# --- How it is done and told -------------------------------------------------------------------------------------


def _discard(operator: Operator, asked: Asked) -> None:
    if asked.dry_run:
        tell(asked, "discarded", "to be discarded", counted(operator, asked))
        return
    requested = 0

    def one(selection: Selection, pace: Pace) -> int:
        nonlocal requested
        done = operator.discard(selection, asked.warrant, pace)
        requested += done.requested
        return done.at_once + done.requested

    total = change_all(asked, one)
    tell(asked, "discarded", "discarded", total - requested, requested)


def _replay_edited(operator: Operator, ids: Sequence[str], payload: JsonValue, asked: Asked) -> None:
    if len(ids) != 1 or is_message_id(ids[0]):
        raise typer.BadParameter("--edit needs the id of exactly one dead letter; 'towpath dead-letters list' shows it")
    new_id = operator.replay_edited(ids[0], payload, asked.warrant)
    with telling(f"{ids[0]} is replayed as message {new_id}"):
        if asked.as_json:
            print_json({"replayed": 1, "message_id": new_id})
        else:
            print_sentence(f"replayed as message {new_id}")


def _payload(file: Path) -> JsonValue:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise typer.BadParameter(f"{file} holds no JSON: {error}") from error
