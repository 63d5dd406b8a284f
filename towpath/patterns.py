"""Regular expressions that are compiled at their first use, not when their module is imported."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Protocol


class FromPlace(Protocol):
    """Looks for a match at one place of a text."""

    def __call__(self, text: str, place: int = 0, /) -> re.Match[str] | None:
        """The match, or ``None``."""


class Pattern:
    """The part of ``re.Pattern`` that is asked for here. To compile one takes up to a millisecond on a small function,
    and most are never asked: only of what is wrong, or seldom.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @cached_property
    def fullmatch(self) -> FromPlace:
        """The match of a whole text, from a position on where one is given."""
        return re.compile(self.pattern).fullmatch

    @cached_property
    def match(self) -> FromPlace:
        """The match that begins at a position of a text."""
        return re.compile(self.pattern).match

    @cached_property
    def search(self) -> Callable[[str], re.Match[str] | None]:
        """The first match in a text."""
        return re.compile(self.pattern).search

    @cached_property
    def sub(self) -> Callable[[str, str], str]:
        """A text with something else in the place of each match."""
        return re.compile(self.pattern).sub
