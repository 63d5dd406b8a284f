"""Replaying dead letters: many as they are, or one with another payload."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from towpath.cli.changing import Asked, replay_all
from towpath.cli.output import print_json, print_sentence, telling
from towpath.message import JsonValue, is_message_id
from towpath.operating import Operator


def replay_asked(operator: Operator, asked: Asked, ids: Sequence[str], edit: Path | None) -> None:
    """Replay what was asked for; with ``edit`` the one that ``ids`` name, with the payload in that file."""
    if edit is None:
        replay_all(operator, asked)
        return
    if asked.dry_run:
        raise typer.BadParameter("--edit replays one dead letter at once; look at it with show instead of --dry-run")
    _replay_edited(operator, ids, _payload(edit), asked)


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
