"""The command that goes on where this one ended, as somebody can type it."""

from __future__ import annotations

import shlex
import sys

from towpath.cli.options import hidden_password


def command_again(*more: str, without: str | None = None) -> str:
    """This command with ``more`` behind it, and ``without`` an option and its value. A password is not shown."""
    words = [hidden_password(word) for word in sys.argv[1:]]
    if without in words:
        at = words.index(without)
        del words[at : at + 2]
    words = [word for word in words if without is None or not word.startswith(f"{without}=")]
    at = words.index("--") if "--" in words else len(words)  # behind that, nothing is an option
    return shlex.join(["towpath", *words[:at], *more, *words[at:]])
