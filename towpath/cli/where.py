"""Which deliveries a command means: ids, or ``--all`` with conditions, as a ``Selection``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Final, TypeAlias, get_args

import typer

from towpath.errors import did_you_mean
from towpath.message import is_message_id
from towpath.operating import DeliveryState, Selection

_AGE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])")
_DAY: Final = 86_400
_LONGEST_SECONDS: Final = 36_500 * _DAY
_UNITS: Final[Mapping[str, float]] = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

Ids: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(help="Ids of deliveries, or of messages for all deliveries of these.", metavar="ID"),
]
Everything: TypeAlias = Annotated[bool, typer.Option("--all", help="All that meet the conditions of --where.")]
Where: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="NAME=VALUE with subscription, state (pending, leased, dead; only to look: completed, discarded), key, "
        "reason, error (its type), older-than or newer-than (90s, 15m, "
        "2h, 7d). Repeat for more conditions, each once: all must be met.",
    ),
]


def selected(where: Sequence[str] | None) -> Selection:
    """The selection that meets every condition. Raises ``typer.BadParameter`` for what is none."""
    selection, named = Selection(), set[str]()
    for condition in where or ():
        name, equals, value = condition.partition("=")
        if name not in _CONDITIONS:
            raise typer.BadParameter(
                f"{name!r} is no condition; there are {', '.join(_CONDITIONS)}{did_you_mean(name, _CONDITIONS)}"
            )
        if not equals or not value:
            raise typer.BadParameter(f"--where {name} needs a value: {name}=...")
        written(value, f"--where {name}")
        if name in named:
            raise typer.BadParameter(f"--where {name} is given twice; give each condition once")
        named.add(name)
        selection = _CONDITIONS[name](selection, value)
    return selection


def written(text: str, option: str) -> str:
    """The same text. Raises ``typer.BadParameter`` for bytes that are none, which a command line can hold."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise typer.BadParameter(f"{option} is no text: {text!r} holds what is not UTF-8")
    return text


def chosen(ids: Sequence[str] | None, where: Sequence[str] | None, *, everything: bool) -> list[Selection]:
    """The selections that a command acts on: one for each message, one for all deliveries given by their own ids.

    Raises ``typer.BadParameter`` unless there are either ids or ``--all``: nobody shall change all by leaving out what
    was meant.
    """
    if bool(ids) == everything:
        raise typer.BadParameter("give ids, or --all for everything that meets the conditions of --where")
    selection = selected(where)
    if not ids:
        return [selection]
    deliveries = tuple(text for text in ids if not is_message_id(text))
    of_messages = [replace(selection, message_id=text) for text in ids if is_message_id(text)]
    return ([replace(selection, delivery_ids=deliveries)] if deliveries else []) + of_messages


def age(text: str) -> timedelta:
    """``90s``, ``15m``, ``2h`` or ``7d``. Raises ``typer.BadParameter``."""
    found = _AGE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no age; write 90s, 15m, 2h or 7d")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > _LONGEST_SECONDS:
        raise typer.BadParameter(f"{text!r} is too long an age; the longest is {_LONGEST_SECONDS // _DAY:,}d")
    return timedelta(seconds=seconds)


def _with_state(selection: Selection, value: str) -> Selection:
    for state in get_args(DeliveryState):
        if value == state:
            return replace(selection, state=state)
    raise typer.BadParameter(f"{value!r} is no state; there are {', '.join(get_args(DeliveryState))}")


_CONDITIONS: Final[Mapping[str, Callable[[Selection, str], Selection]]] = {
    "subscription": lambda selection, value: replace(selection, subscription=value),
    "state": _with_state,
    "key": lambda selection, value: replace(selection, partition_key=value),
    "reason": lambda selection, value: replace(selection, reason=value),
    "error": lambda selection, value: replace(selection, error_type=value),
    "older-than": lambda selection, value: replace(selection, older_than=age(value)),
    "newer-than": lambda selection, value: replace(selection, newer_than=age(value)),
}
