"""Options that the commands about deliveries and dead letters share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from towpath.cli.known import subscriptions_of_manifest

Name: TypeAlias = Annotated[
    str, typer.Argument(help="The subscription.", metavar="SUBSCRIPTION", autocompletion=subscriptions_of_manifest)
]
AnyName: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        help="Only this subscription's.",
        metavar="[SUBSCRIPTION]",
        show_default=False,
        autocompletion=subscriptions_of_manifest,
    ),
]
Rate: TypeAlias = Annotated[
    float | None,
    typer.Option("--rate", min=0.01, max=1_000_000, help="Change at most so many a second.", show_default=False),
]
Most: TypeAlias = Annotated[
    int | None,
    typer.Option("--limit", min=1, max=2**63 - 1, help="Change at most so many.", show_default=False),
]
Rows: TypeAlias = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="Show at most so many.")]
Cursor: TypeAlias = Annotated[
    str | None, typer.Option("--cursor", help="Go on where another list ended.", show_default=False)
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Count what would be changed, and change nothing.")]
Edit: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--edit",
        help="Replay one dead letter with the JSON payload in this file ('-': standard input), as a new message.",
        show_default=False,
    ),
]
