"""The page of the command line, from the commands themselves."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from towpath.cli.main import build_app

SHAPES = runpy.run_path(str(Path(__file__).with_name("command_shapes.py")))

HEAD = """# Command line

Tables are for people, `--json` is for programs: one JSON document on standard output, whose shape is below. The
transport comes from `--transport` or `TOWPATH_TRANSPORT`, the manifest from `--manifest` or `TOWPATH_MANIFEST`, the
bindings from `--bindings` or `TOWPATH_BINDINGS`. `NO_COLOR` keeps colours away. Long work shows on standard error how
far it has come, where that is a terminal. [Work in bulk](../how-to/work-in-bulk.md) shows what commands do together,
and how a shell completes them.

| exit code | |
|---|---|
| 0 | success |
| 1 | a failure, told in one sentence (`towpath --debug` shows its traceback), or a finding |
| 2 | wrong use, or a topology, manifest, bindings or overrides with mistakes |
| 130 | ended by Ctrl-C; one line says what is done and how to go on |
| 143 | the same by SIGTERM, of `publish`, of what changes or exports deliveries, and of `db purge` |

What works in batches ends with the batch under way at the first signal, and at once at the second. `work` drains.

Standard output that cannot be written, for a full disk or because it is closed, is a failure only of a
command whose output is all that it is called for, such as `stats`. `publish`, `apply`, `manifest render`
into a file and `bundle` say on standard error what they did, and exit as if it had been written: a script
that repeats what failed does not publish again. A reader who goes, as `head` does, is told nothing.

In a shape stands the kind of each value: a time is text such as `2026-01-31T08:15:00.123Z`, a key with `?` may be
missing, `*` stands for any key, and an array may have any length. Keys may be added in a later version, none is taken
away.
"""


def command_line_page() -> str:
    """Every command with its help, its options and the shape of its JSON."""
    lines = [HEAD.rstrip()]
    for path, command in commands():
        lines += ["", f"## `towpath {path}`", "", *_paragraphs(command.help or "")]
        rows = [row for parameter in command.params if (row := _row(parameter))]
        if rows:
            lines += ["", "| | default | |", "|---|---|---|", *rows]
        lines += _shape(path)
    return "\n".join(lines) + "\n"


def commands() -> Iterator[tuple[str, Any]]:
    """The words of each command behind ``towpath``, and the command."""
    yield from _commands("", get_command(build_app()))


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from _commands(f"{path} {name}".strip(), command.get_command(None, name))


def _paragraphs(text: str) -> list[str]:
    text = re.sub(r"\s*Example: (.*?)\s*$", r"\n\n`\1`", text.replace("\n", " ").replace("\f", ""), flags=re.DOTALL)
    return re.sub(r" {2,}", "\n\n", text.strip()).splitlines()


def _row(parameter: Any) -> str | None:
    if parameter.name in ("help", "install_completion", "show_completion"):
        return None
    is_option = parameter.param_type_name == "option"
    names = ", ".join(parameter.opts) if is_option else parameter.name.upper()
    meaning = (parameter.help or "").replace("|", "&#124;")
    return f"| `{names}` | {_default(parameter)} | {meaning} |"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    return "" if default in (None, False) or callable(default) else f"`{default}`"


def _shape(path: str) -> list[str]:
    for name, said in (("SHAPES", "With `--json`:"), ("LINES", "Each line:")):
        if path in SHAPES[name]:
            text = json.dumps(SHAPES[name][path], indent=2, ensure_ascii=False)
            note = SHAPES["NOTES"].get(path)
            return ["", said, "", "```json", text, "```", *(["", note] if note else [])]
    return []
