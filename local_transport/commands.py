"""``towpath db``: the schema of a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, TypeAlias

import typer

from local_transport.connections import Database, upgrade_command
from local_transport.schema import SchemaState, schema_state, upgrade
from towpath.cli.options import require_file
from towpath.cli.output import JsonFlag, console, print_json

app = typer.Typer(help="The schema of a database.", no_args_is_help=True)

DatabaseOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--database", "--transport", envvar="TOWPATH_TRANSPORT", help="The database's URL.", show_default=False
    ),
]


@app.command("upgrade")
def upgrade_schema(*, database: DatabaseOption, as_json: JsonFlag = False) -> None:
    """Bring the tables up to this version, in one transaction; make them when there are none.

    Example: towpath db upgrade --database postgresql://host/name
    """
    with _opened(database) as opened:
        before = upgrade(opened)
    if as_json:
        print_json({"before": before.installed, "after": before.needed})
    elif before.current:
        console().print(f"Schema version {before.needed} already; nothing to do.")
    else:
        console().print(f"Schema version {before.needed} now; it was {before.installed or 'not there'}.")
        if before.installed is None:
            console().print("Next: towpath apply")


@app.command()
def check(*, database: DatabaseOption, as_json: JsonFlag = False) -> None:
    """Say which version the tables have. Exit 0 when it is this one's, 1 when not.

    Example: towpath db check --database postgresql://host/name
    """
    require_file(database)
    with _opened(database) as opened:
        state = schema_state(opened)
        label = opened.label
    if as_json:
        print_json(asdict(state) | {"current": state.current})
    else:
        console().print(_sentence(state, label), soft_wrap=True, markup=False)
    if not state.current:
        raise typer.Exit(1)


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    database = Database(url)
    try:
        yield database
    finally:
        database.close()


def _sentence(state: SchemaState, label: str) -> str:
    if state.current:
        return f"Schema version {state.installed}, as this Towpath needs."
    found = "There are no Towpath tables" if state.installed is None else f"The schema has version {state.installed}"
    return f"{found}; this Towpath needs {state.needed}: run {upgrade_command(label)}."
