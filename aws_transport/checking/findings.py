"""What a check found, in words for a person and with a code for a program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["error", "warning"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning")
"""From the worst on. Error: messages, a protection or a promise of the manifest can be lost, or nobody could look.
Warning: it works, otherwise than the manifest says.
"""

DEPLOY_AGAIN: Final = "deploy the manifest again, which sets it; see who changed it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is otherwise than the manifest says.

    ``subject`` is whose it is, as the manifest names it: ``topic documents.process``. ``code`` says which rule found
    it, and stays the same between versions.
    """

    severity: Severity
    subject: str
    code: str
    what_is: str
    what_should_be: str
    what_to_do: str


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first, then by subject and rule."""
    return tuple(sorted(findings, key=lambda one: (SEVERITIES.index(one.severity), one.subject, one.code)))
