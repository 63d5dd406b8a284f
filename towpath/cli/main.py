"""The root command: loads the one command that is called, and turns errors into a sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.metadata import version as version_of
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from towpath.cli.interrupts import Interrupted
from towpath.cli.output import print_document, print_failure, print_warning
from towpath.errors import (
    InvalidBindings,
    InvalidManifest,
    InvalidOverrides,
    InvalidPlan,
    InvalidTopology,
    TowpathError,
)

_GROUP: Final = "towpath.commands"
_INTERRUPTED: Final = 130
_WRONG_FILES: Final = (InvalidBindings, InvalidManifest, InvalidOverrides, InvalidPlan, InvalidTopology)
_EXTRA_OF: Final[Mapping[str, str]] = {
    "alembic": "local",
    "aws_lambda_powertools": "lambda",
    "boto3": "aws",
    "botocore": "aws",
    "prometheus_client": "metrics",
    "psycopg": "local",
    "pydantic": "cli",
    "sqlalchemy": "local",
    "watchfiles": "cli",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _BuiltIn:
    """Where a command of Towpath's own is: the attribute is a Typer app, or a function that is one command."""

    module: str
    attribute: str


_BUILT_IN: Final[Mapping[str, _BuiltIn]] = {
    "init": _BuiltIn(module="towpath.cli.init", attribute="init"),
    "demo": _BuiltIn(module="towpath.cli.demo", attribute="demo"),
    "dev": _BuiltIn(module="towpath.cli.dev.command", attribute="dev"),
    "topology": _BuiltIn(module="towpath.cli.topology", attribute="topology"),
    "manifest": _BuiltIn(module="towpath.cli.manifest", attribute="manifest"),
    "apply": _BuiltIn(module="towpath.cli.operate", attribute="apply"),
    "publish": _BuiltIn(module="towpath.cli.publish", attribute="publish"),
    "work": _BuiltIn(module="towpath.cli.work", attribute="work"),
    "stats": _BuiltIn(module="towpath.cli.operate", attribute="stats"),
    "backlog": _BuiltIn(module="towpath.cli.operate", attribute="backlog"),
    "partitions": _BuiltIn(module="towpath.cli.partitions", attribute="partitions"),
    "deliveries": _BuiltIn(module="towpath.cli.deliveries", attribute="deliveries"),
    "dead-letters": _BuiltIn(module="towpath.cli.dead_letters", attribute="dead_letters"),
    "audit": _BuiltIn(module="towpath.cli.audit", attribute="audit"),
    "pause": _BuiltIn(module="towpath.cli.pausing", attribute="pause"),
    "resume": _BuiltIn(module="towpath.cli.pausing", attribute="resume"),
    "terraform": _BuiltIn(module="towpath.cli.gate", attribute="terraform"),
    "cdk": _BuiltIn(module="towpath.cli.gate", attribute="cdk"),
    "completion": _BuiltIn(module="towpath.cli.completion", attribute="completion"),
}


class _Commands(TyperGroup):
    """Towpath's own commands, and the groups that installed packages add by entry point.

    Each is imported when it is called: a worker that starts should not wait for what bundling needs.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, Towpath's own first."""
        return [name for name in (*_BUILT_IN, *sorted(_extensions())) if self._is_installed(ctx, name)]

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called; a word that is none is told the nearest one."""
        named: dict[str, Any] = dict.fromkeys((*_BUILT_IN, *_extensions()))
        self.commands = named  # Typer takes its suggestions from here
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; for a missing URL, the one thing that everybody forgets once, there is an example.

        What a signal ends says so in one line, and exits with 128 and the signal's number.
        """
        try:
            return super().invoke(ctx)
        except Interrupted as interrupt:
            print_warning(f"interrupted: {interrupt}" if str(interrupt) else "interrupted")
            raise typer.Exit(interrupt.code) from interrupt
        except KeyboardInterrupt as interrupt:
            print_warning("interrupted")
            raise typer.Exit(_INTERRUPTED) from interrupt
        except typer.BadParameter as error:
            forgotten = [name for name in getattr(error.param, "opts", ()) if name in ("--transport", "--database")]
            if type(error) is not typer.BadParameter and forgotten and not error.message:
                error.message = f"For example: {forgotten[0]} sqlite:///dev.db"
            raise

    def _is_installed(self, ctx: Any, name: str) -> bool:
        try:
            self.get_command(ctx, name)
        except ModuleNotFoundError:
            return False
        return True

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click asks for it
        """The command, or ``None`` when there is none of this name.

        Raises ``ModuleNotFoundError`` when its extra is not installed.
        """
        if cmd_name in _BUILT_IN:
            where = _BUILT_IN[cmd_name]
            return _command(cmd_name, getattr(import_module(where.module), where.attribute))
        point = _extensions().get(cmd_name)
        return None if point is None else _command(cmd_name, point.load())


def _extensions() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=_GROUP)}


def _command(name: str, found: Any) -> Any:
    """The click command of a Typer app, which is a group, or of a function, which is a single command."""
    if isinstance(found, typer.Typer):
        group = get_group(found)
        group.name = name
        return group
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name)(found)
    return get_command(single)


def build_app() -> typer.Typer:
    """The whole command line."""
    app = typer.Typer(
        name="towpath",
        cls=_Commands,
        help="One handler, one topology: on AWS Lambda and on a database.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    return app


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer gives the flag
    if wanted:
        print_document(f"towpath {version_of('towpath')}\n")
        raise typer.Exit


def _root(
    context: typer.Context,
    *,
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of a failure.", envvar="TOWPATH_DEBUG"),
    version: bool = typer.Option(  # noqa: ARG001 - it ends the command line before this is called
        False, "--version", help="Print Towpath's version.", is_eager=True, callback=_print_version
    ),
) -> None:
    context.obj = debug


def main() -> None:
    """Run the command line.

    Exit 0 on success, 1 on failure or finding, 2 on wrong use or a wrong file, 130 after Ctrl-C, 143 after SIGTERM
    where the command has steps to end between.
    """
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - handlers are imported from the project's folder
    debug = "--debug" in sys.argv or bool(os.environ.get("TOWPATH_DEBUG"))
    try:
        build_app()()
    except TowpathError as error:
        if debug:
            raise
        print_failure(str(error))
        sys.exit(2 if isinstance(error, _WRONG_FILES) else 1)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except Exception as error:
        if debug:
            raise
        print_failure(_unexpected(error))
        sys.exit(1)


def _unexpected(error: Exception) -> str:
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if missing in _EXTRA_OF:
        return f"this needs {missing}: pip install 'towpath[{_EXTRA_OF[missing]}]'"
    return f"{type(error).__name__}: {error}; Towpath did not expect this, --debug shows where it happened"
