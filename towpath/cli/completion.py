"""``towpath completion``: the script that has a shell complete commands, options and names."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer.completion import shell_complete

Shell = Literal["bash", "zsh", "fish"]


def completion(
    context: typer.Context, shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.", metavar="SHELL")]
) -> None:
    """Print the script that has a shell complete commands, options, and names of the manifest.

    Names come from the manifest that TOWPATH_MANIFEST names, or manifest.json.

    Example: towpath completion bash >> ~/.bashrc
    """
    shell_complete(context.find_root().command, {}, "towpath", "_TOWPATH_COMPLETE", f"source_{shell}")
