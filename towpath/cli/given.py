"""What is given to ``towpath publish`` on the command line: a payload, attributes, claim checks to files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from towpath.message import JsonValue, NewMessage, PayloadRef, PublishError

_BARE_NAME = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """One message to publish and where it came from in words, or the fault for which it is none.

    ``line`` is its number in JSON Lines, from 1 on, and ``read`` how many bytes there are up to its end; 0 for what
    comes from elsewhere.
    """

    source: str
    message: NewMessage
    fault: PublishError | None = None
    line: int = 0
    read: int = 0

    def under(self, message_id: str) -> Numbered:
        """The same message under this id."""
        return replace(self, message=replace(self.message, id=message_id))


def claim_checks(files: list[Path], template: NewMessage) -> Iterator[Numbered]:
    """One message for each file, with a claim check to it. Raises ``typer.BadParameter`` for one it cannot read."""
    for file in files:
        try:
            reference = PayloadRef.for_file(file)
        except OSError as error:
            raise typer.BadParameter(f"--ref {file} cannot be read: {error.strerror}") from error
        yield Numbered(source=f"{file}: ", message=replace(template, payload_ref=reference))


def repeated(payload: JsonValue, template: NewMessage, count: int) -> Iterator[Numbered]:
    """The payload ``count`` times, each a message of its own."""
    for _ in range(count):
        yield Numbered(source="", message=replace(template, payload=payload))


def parsed(text: str | bytes, where: str) -> JsonValue:
    """The JSON value that ``text`` is. Raises ``typer.BadParameter``, with what was probably meant."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = _json_hint(text) if isinstance(text, str) else ""
        raise typer.BadParameter(f"{where} is not JSON: {error}{hint}") from error


def _json_hint(text: str) -> str:
    """What was probably meant: a word as text, or an object whose names lost their quotes to the shell."""
    if text.isalnum():
        return f"; text needs its own quotes, as in '\"{text}\"'"
    quoted = _BARE_NAME.sub(r'\1"\2":', text.replace("'", '"'))
    with suppress(ValueError, RecursionError):
        return f"; did you mean '{json.dumps(json.loads(quoted), ensure_ascii=False)}'?"
    return ""


def attributes(pairs: list[str]) -> dict[str, JsonValue]:
    """The attributes that NAME=TEXT and NAME:=JSON give. Raises ``typer.BadParameter``."""
    found = [_attribute(pair) for pair in pairs]
    names = [name for name, _ in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise typer.BadParameter(f'--attribute {twice} is given twice; a list is written {twice}:=\'["a", "b"]\'')
    return dict(found)


def _attribute(pair: str) -> tuple[str, JsonValue]:
    name, separator, text = pair.partition("=")
    if not separator:
        raise typer.BadParameter(f"--attribute {pair!r} must be NAME=TEXT or NAME:=JSON")
    if not name.endswith(":"):
        return name, text
    return name[:-1], parsed(text, f"--attribute {name[:-1]}")
