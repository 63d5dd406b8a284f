"""Names that a shell may complete, from the manifest that TOWPATH_MANIFEST, or ``--manifest``, names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import typer

from towpath.envelope import is_topic_name


def subscriptions_of_manifest(ctx: typer.Context, incomplete: str) -> list[str]:
    """The subscriptions of the manifest whose names begin so. Whatever is wrong with it: none.

    What is no name is left out: shells read what they are given here, and anybody may have written the file.
    """
    return _names("subscriptions", ctx, incomplete)


def topics_of_manifest(ctx: typer.Context, incomplete: str) -> list[str]:
    """The topics of the manifest whose names begin so."""
    return _names("topics", ctx, incomplete)


def _names(section: str, ctx: typer.Context, incomplete: str) -> list[str]:
    given = ctx.params.get("manifest") or os.environ.get("TOWPATH_MANIFEST") or "manifest.json"
    try:
        file = Path(str(given))
        if not file.is_file():  # a pipe would have the shell wait
            return []
        held = json.loads(file.read_text(encoding="utf-8"))[section]
        return sorted(name for name in held if name.startswith(incomplete) and is_topic_name(name))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
