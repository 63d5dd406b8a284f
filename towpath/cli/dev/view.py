"""The live view: what ``State`` holds, as something that rich can show on a screen of so many lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from towpath.cli.dev.happenings import Moved
from towpath.cli.dev.state import State, Workers
from towpath.cli.output import CONTROLS
from towpath.operating import DeliveryEntry, SubscriptionStats

_COLOURS: Final[Mapping[str, str]] = {
    "completed": "green",
    "retried": "yellow",
    "released": "cyan",
    "dead": "red",
    "discarded": "magenta",
    "lease_lost": "red",
    "failed": "red",
}
_WORKERS: Final[Mapping[Workers, str]] = {
    "starting": "starting",
    "serving": "workers run",
    "restarting": "something changed: draining, to start anew",
    "died": "the workers died: they start anew",
    "stopped": "no workers: waiting for a change",
    "leaving": "draining; Ctrl-C aborts",
}
_KEYS: Final = "p pause or resume   r replay dead letters   e show or hide traceback   q quit"  # 80 columns have room
_RUNNING_SHOWN: Final = 5
_PRINTED_SHOWN: Final = 5
_FEWEST_ROWS: Final = 3
_ALWAYS: Final = 4  # lines: headings of the two tables, the rule between them, the keys


def view(state: State, height: int) -> RenderableType:
    """The whole view, on a screen of ``height`` lines: what is wrong is always shown, and of deliveries a few rows at
    least. What else there is shares the lines that are left.
    """
    heading, wrong = _heading(state), _wrong(state, height // 2)
    fixed = _lines(heading) + _lines(wrong) + min(len(state.stats), height // 4) + len(_shown_running(state)) + _ALWAYS
    spare = max(height - fixed - _FEWEST_ROWS, 0)
    trouble = _trouble(state, spare * 2 // 3 - 1)
    printed = _printed(state, min(_PRINTED_SHOWN, spare - 1 - _lines(trouble)))
    rows = spare + _FEWEST_ROWS - sum(_lines(text) + 1 for text in (trouble, printed) if text)
    parts: list[RenderableType] = [heading, *([wrong] if wrong else []), _subscriptions(state.stats[: height // 4])]
    parts += [Rule(style="dim"), _deliveries(state, rows)]
    if printed:
        parts += [Rule("handlers", style="dim"), printed]
    if trouble and state.trouble is not None:
        parts += [Rule(_one_line(state.trouble.title), style="red"), trouble]
    return Group(*parts, Text(_KEYS, style="dim", no_wrap=True))


def _lines(text: Text) -> int:
    return text.plain.count("\n") + 1 if text else 0


def _heading(state: State) -> Text:
    told = "paused: nothing is claimed" if state.is_paused and state.workers == "serving" else _WORKERS[state.workers]
    heading = Text.assemble(("towpath dev", "bold"), f"  {state.topology}  {state.database}  ", (told, "bold cyan"))
    if state.said:
        heading.append(f"\n{_plain(state.said)}", style="dim")
    return heading


def _wrong(state: State, most: int) -> Text:
    problems = "\n".join(problem for problem in (state.refusal, state.failure) if problem)
    return _block(_plain(problems).split("\n")[:most], "bold red")


def _trouble(state: State, most: int) -> Text:
    """The end of the last traceback: what was raised stands there."""
    if state.trouble is None or not state.shows_trouble or most < 1:
        return Text()
    return _block(_plain(state.trouble.traceback.rstrip()).split("\n")[-most:])


def _printed(state: State, most: int) -> Text:
    return _block([_one_line(line) for line in state.printed[-most:]] if most > 0 else [])


def _block(lines: Sequence[str], style: str = "") -> Text:
    """Lines of which none takes two on the screen."""
    return Text("\n".join(lines), style=style, no_wrap=True, overflow="ellipsis")


def _subscriptions(stats: tuple[SubscriptionStats, ...]) -> Table:
    table = _table("subscription", "pending", "leased", "dead", "completed", "discarded", "status")
    for row in stats:
        counts = (row.pending, row.leased, row.dead, row.completed, row.discarded)
        shown = [Text("-" if count is None else f"{count:,}") for count in counts]
        shown[2].stylize("red" if row.dead else "")
        table.add_row(
            Text(row.subscription), *shown, Text(row.status, style="" if row.status == "active" else "yellow")
        )
    return table


def _deliveries(state: State, rows: int) -> Table:
    """The deliveries that are with workers, and below them those that moved last, the newest first."""
    table = _table("time", "delivery", "subscription", "attempt", "state", "took", "key")
    table.add_column("why", min_width=3)  # where there is no room for all, rich takes it from what may be wrapped
    for entry in _shown_running(state):
        table.add_row(*map(_cell, _running(entry)), style="dim")
    for moved in state.moved[:rows]:
        cells = [_cell(_one_line(cell)) for cell in _moved(moved)]
        cells[4].stylize(_COLOURS.get(moved.state, ""))
        table.add_row(*cells)
    return table


def _cell(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


def _shown_running(state: State) -> Sequence[DeliveryEntry]:
    return state.running[:_RUNNING_SHOWN]


def _running(entry: DeliveryEntry) -> tuple[str, ...]:
    done = "" if entry.percent is None else f"{entry.percent:g} %"
    key = entry.partition_key or ""
    return ("", entry.delivery_id, entry.subscription, str(entry.attempt), "running", done, key, _one_line(entry.note))


def _moved(moved: Moved) -> tuple[str, ...]:
    return (
        clock(moved.time),
        moved.delivery_id,
        moved.subscription,
        "" if moved.attempt is None else str(moved.attempt),
        moved.state,
        "" if moved.milliseconds is None else took(moved.milliseconds),
        moved.partition_key or "",
        why(moved),
    )


def clock(time: str) -> str:
    """The time of day, to the second, of a time as Towpath writes it."""
    return time.partition("T")[2][:8]


def took(milliseconds: float) -> str:
    """A duration, short."""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def why(moved: Moved) -> str:
    """Why it moved so, and when it comes again."""
    again = "" if moved.again_in is None else f"again in {moved.again_in:,g} s"
    return ": ".join(part for part in (again, moved.reason) if part)


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    return table


def _plain(text: str) -> str:
    """Text that a terminal shows and does not obey, line by line."""
    return "\n".join(line.translate(CONTROLS) for line in text.splitlines())


def _one_line(text: str) -> str:
    return " ".join(text.splitlines()).translate(CONTROLS)
