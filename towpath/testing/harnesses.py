"""What tests run handlers in, found by entry point: the core imports none of the packages that have it."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from towpath.errors import Unsupported


def harness(name: str, what: str, extras: str) -> Any:
    """The harness ``name`` of the group ``towpath.harnesses``. Raises ``Unsupported`` when it is not installed.

    ``what`` is what a person calls it, ``extras`` are those of the distribution that it needs.
    """
    found = tuple(entry_points(group="towpath.harnesses", name=name))
    if not found:
        raise Unsupported(f"{what} is not installed; install towpath[{extras}]")
    try:
        return found[0].load()
    except ModuleNotFoundError as error:
        raise Unsupported(f"{what} needs {error.name}; install towpath[{extras}]") from error
