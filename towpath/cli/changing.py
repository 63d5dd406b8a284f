"""What commands that change many deliveries share: what was asked for, how far it has come, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import typer

from towpath.cli.interrupts import Interrupted, Interrupts, interruptible
from towpath.cli.output import print_failure, print_json, print_sentence, telling
from towpath.cli.progress import Progress, progress
from towpath.cli.warrants import warrant
from towpath.operating import DeliveryState, Operator, Pace, Selection, Warrant

_PAGE: Final = 500  # deliveries in one look, to count them


@dataclass(frozen=True, slots=True, kw_only=True)
class By:
    """The options that all changes share."""

    reason: str
    actor: str | None
    rate: float | None = None
    most: int | None = None
    dry_run: bool = False
    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a command was asked to change, and how to tell what came of it. ``named`` says that ids were given."""

    selections: Sequence[Selection]
    named: bool
    warrant: Warrant
    pace: Pace
    dry_run: bool
    as_json: bool

    def of_state(self, state: DeliveryState) -> Asked:
        """The same for deliveries in ``state`` alone. Raises ``typer.BadParameter`` when another was asked for."""
        if any(one.state not in (None, state) for one in self.selections):
            raise typer.BadParameter(f"this command is for deliveries that are {state}")
        return replace(self, selections=[replace(one, state=state) for one in self.selections])


def asked_for(selections: Sequence[Selection], by: By) -> Asked:
    """What to change, and how. Raises ``typer.BadParameter`` for a reason or an actor that says nothing, and for
    deliveries that are over.
    """
    for one in selections:
        if one.state in ("completed", "discarded"):
            raise typer.BadParameter(f"deliveries that are {one.state} are over: list or show them, change open ones")
    return Asked(
        selections=selections,
        named=any(one.delivery_ids or one.message_id for one in selections),
        warrant=warrant(by.actor, by.reason),
        pace=Pace(rate=by.rate, most=by.most),
        dry_run=by.dry_run,
        as_json=by.as_json,
    )


class Changes:
    """Counts what is changed, batch by batch, and ends between two batches when a signal came."""

    def __init__(self, live: Progress, interrupts: Interrupts) -> None:
        self._live = live
        self._interrupts = interrupts
        self.total = 0

    def changed(self, count: int) -> None:
        """So many more are changed. Raises ``Interrupted``."""
        self.total += count
        self._live.advance(count)
        self._interrupts.between()

    def pause(self, seconds: float) -> None:
        """Wait before another batch. Raises ``Interrupted`` as soon as a signal comes."""
        self._interrupts.pause(seconds)

    def pace(self, pace: Pace) -> Pace:
        """The same pace, followed by this."""
        return replace(pace, changed=self.changed, pause=self.pause)


@contextmanager
def changes(*, as_json: bool, most: int | None = None) -> Iterator[Changes]:
    """Shows at a terminal how many were changed so far; whoever interrupts is told what stays changed.

    A signal ends it after the batch under way, a second one at once: what that batch did is kept or undone as a whole
    by a database.
    """
    with interruptible() as interrupts, progress("deliveries so far", total=most, enabled=not as_json) as live:
        made = Changes(live, interrupts)
        try:
            with interrupts.step():
                yield made
        except Interrupted as interrupt:
            told = f"{many(made.total)} changed; the same command goes on with the others"
            raise interrupt.saying(told) from interrupt


def change_all(asked: Asked, change: Callable[[Selection, Pace], int]) -> int:
    """Change each selection in turn, no more than the most that was asked for in all; answers how many."""
    with changes(as_json=asked.as_json, most=asked.pace.most) as made:
        return _sum(asked, lambda selection, pace: change(selection, made.pace(pace)))


def discard_all(operator: Operator, asked: Asked) -> None:
    """Discard what was asked for, or count it, and tell."""
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


def replay_all(operator: Operator, asked: Asked) -> None:
    """Replay what was asked for, or count it, and tell."""
    if asked.dry_run:
        tell(asked, "replayed", "to be replayed", counted(operator, asked))
        return
    count = change_all(asked, lambda one, pace: operator.replay(one, asked.warrant, pace))
    tell(asked, "replayed", "replayed", count)


def counted(operator: Operator, asked: Asked) -> int:
    """How many would be changed."""

    def one(selection: Selection, pace: Pace) -> int:
        count, cursor, more = 0, None, True
        while more:
            page = operator.deliveries(selection, _PAGE, cursor)
            count, cursor, more = count + len(page), page.cursor, page.cursor is not None
        return count if pace.most is None else min(count, pace.most)

    return _sum(asked, one)


def _sum(asked: Asked, change: Callable[[Selection, Pace], int]) -> int:
    total = 0
    for selection in asked.selections:
        left = None if asked.pace.most is None else asked.pace.most - total
        if left == 0:
            break
        total += change(selection, replace(asked.pace, most=left))
    return total


def tell(asked: Asked, name: str, words: str, count: int, requested: int = 0) -> None:
    """What came of it. Ids of which nothing could be changed are a failure: somebody meant these."""
    with telling(f"{count} deliveries are {words}"):
        if asked.as_json:
            print_json({name: count, "requested": requested, "dry_run": asked.dry_run})
        elif requested:
            with_workers = f"{requested:,} with workers, discarded when these let go or their leases end"
            print_sentence(f"{many(count)} {words}; {with_workers}")
        else:
            print_sentence(f"{many(count)} {words}")
    if asked.named and not count and not requested:
        print_failure("none of these ids is there in a state that this can change; list them again")
        raise typer.Exit(1)


def many(count: int) -> str:
    """``count`` deliveries, and the verb that follows."""
    return "1 delivery is" if count == 1 else f"{count:,} deliveries are"
