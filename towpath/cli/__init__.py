"""The command line: ``towpath``. Importing this package imports nothing that may not be installed."""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["main"]


def main() -> None:
    """Run the command line; see ``towpath.cli.main.main``. Without the extra ``cli`` it is one sentence and exit 1."""
    try:
        program = import_module("towpath.cli.main")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit("error: the command line needs typer and rich: pip install 'towpath[cli]'")
    except KeyboardInterrupt:  # while it loads: nothing is begun, and a traceback of imports helps nobody
        sys.exit(130)
    program.main()
