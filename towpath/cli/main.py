"""The root command: gathers the command groups and turns errors into one sentence and an exit code."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

from towpath.cli import operate
from towpath.cli.demo import demo
from towpath.cli.output import print_failure
from towpath.cli.publish import publish
from towpath.cli.topology import manifest_commands, topology_commands
from towpath.cli.work import work
from towpath.errors import InvalidTopology, TowpathError

_GROUP = "towpath.commands"

DebugFlag = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.", envvar="TOWPATH_DEBUG")]


def build_app() -> typer.Typer:
    """The whole command line: Towpath's own commands, and the groups that installed packages add."""
    app = typer.Typer(
        name="towpath",
        help="One handler, one topology: on AWS Lambda and on a database.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    app.add_typer(topology_commands(), name="topology")
    app.add_typer(manifest_commands(), name="manifest")
    app.command()(demo)
    app.command()(operate.apply)
    app.command()(publish)
    app.command()(work)
    app.command()(operate.stats)
    app.add_typer(operate.dead_letters, name="dead-letters")
    for point in sorted(entry_points(group=_GROUP), key=lambda point: point.name):
        try:
            app.add_typer(point.load(), name=point.name)
        except ModuleNotFoundError:  # the group's extra is not installed
            continue
    return app


def _root(context: typer.Context, debug: DebugFlag = False) -> None:  # noqa: FBT002 - a command line switch
    context.obj = debug


def main() -> None:
    """Run the command line. Exit 0 on success, 1 on failure or finding, 2 on wrong use or a wrong topology."""
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - handlers are imported from the project's folder
    debug = "--debug" in sys.argv or bool(os.environ.get("TOWPATH_DEBUG"))
    try:
        build_app()()
    except TowpathError as error:
        if debug:
            raise
        print_failure(str(error))
        sys.exit(2 if isinstance(error, InvalidTopology) else 1)
