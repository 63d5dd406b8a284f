"""What commands that change many deliveries share: what was asked for, how far it has come, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import typer

from towpath.cli.output import print_failure, print_json, print_sentence, print_warning, stderr, telling
from towpath.cli.warrants import warrant
from towpath.operating import DeliveryState, Operator, Pace, Selection, Warrant

_PAGE: Final = 500  # deliveries in one look, to count them

Changed = Callable[[int], None]  # is told after each batch how many it changed


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
    """What to change, and how. Raises ``typer.BadParameter`` for a reason or an actor that says nothing."""
    return Asked(
        selections=selections,
        named=any(one.delivery_ids or one.message_id for one in selections),
        warrant=warrant(by.actor, by.reason),
        pace=Pace(rate=by.rate, most=by.most),
        dry_run=by.dry_run,
        as_json=by.as_json,
    )


@contextmanager
def progress(*, as_json: bool) -> Iterator[Changed]:
    """Shows at a terminal how many were changed so far; whoever interrupts is told what stays changed."""
    total = 0
    to = stderr()
    status = to.status("0 deliveries so far")

    def changed(count: int) -> None:
        nonlocal total
        total += count
        status.update(f"{total:,} deliveries so far")

    try:
        if to.is_terminal and not as_json:
            with status:
                yield changed
        else:
            yield changed
    except KeyboardInterrupt:
        print_warning(f"interrupted: {many(total)} changed, and stay so; the same command goes on with the others")
        raise


def change_all(asked: Asked, change: Callable[[Selection, Pace], int]) -> int:
    """Change each selection in turn, no more than the most that was asked for in all; answers how many."""
    with progress(as_json=asked.as_json) as changed:
        return _sum(asked, lambda selection, pace: change(selection, replace(pace, changed=changed)))


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
