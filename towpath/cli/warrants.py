"""Who acts and why: the options of every command that changes something for an operator."""

from __future__ import annotations

import getpass
from typing import Annotated, TypeAlias

import typer

from towpath.operating import Warrant

Reason: TypeAlias = Annotated[
    str, typer.Option("--reason", help="Why: kept in the audit trail and, for what is dropped, in the history.")
]
Actor: TypeAlias = Annotated[
    str | None,
    typer.Option("--actor", envvar="TOWPATH_ACTOR", help="Who, for the audit trail. Default: the system's user."),
]


def warrant(actor: str | None, reason: str) -> Warrant:
    """Who and why. Raises ``typer.BadParameter`` for a blank one."""
    try:
        return Warrant(actor=actor or getpass.getuser(), reason=reason)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
