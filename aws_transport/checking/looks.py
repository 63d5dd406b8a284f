"""What to say of a look that did not show the thing: it is not there, or nobody could look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from aws_transport.checking.facts import Look, Missing, Seen, Unseen
from aws_transport.checking.findings import DEPLOY_AGAIN, Finding, Severity

T = TypeVar("T")

ANEW: Final = "write the bindings anew from this manifest's deployment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Makes findings about one resource of ``subject``. ``code`` begins their codes, ``of`` is what it is called."""

    subject: str
    code: str
    of: str

    def finding(
        self,
        rule: str,
        what_is: str,
        what_should_be: str,
        what_to_do: str = DEPLOY_AGAIN,
        *,
        severity: Severity = "error",
    ) -> Finding:
        """A finding of the rule ``rule``."""
        return Finding(
            severity=severity,
            subject=self.subject,
            code=f"{self.code}.{rule}",
            what_is=what_is,
            what_should_be=what_should_be,
            what_to_do=what_to_do,
        )

    def number(self, rule: str, said: str, found: object, wanted: int, less: Severity = "error") -> Finding | None:
        """That a number is another: ``less`` when it is too small, a warning when it is too large."""
        number = _whole(found)
        if number == wanted:
            return None
        severity: Severity = less if number is None or number < wanted else "warning"
        shown = "none" if number is None else f"{number:,}"
        return self.finding(rule, f"{self.of} has {said} of {shown}", f"{wanted:,}", severity=severity)

    def other(
        self, rule: str, said: str, found: object, wanted: object, severity: Severity = "error"
    ) -> Finding | None:
        """That a value is another."""
        if found == wanted:
            return None
        shown, meant = ("none" if value is None else str(value) for value in (found, wanted))
        return self.finding(rule, f"{self.of} has {said} {shown}", meant, severity=severity)


def unseen(look: Look[T], told: Told, gone: str) -> Finding | None:
    """The finding about a thing that was not seen; ``None`` when it was. ``gone`` is what follows from its absence."""
    match look:
        case Seen():
            return None
        case Missing():
            return told.finding(
                "missing",
                f"{told.of} does not exist: {gone}",
                "it exists",
                "deploy the manifest, and write the bindings anew",
            )
        case Unseen():
            return could_not_look(look, told)


def could_not_look(look: Unseen, told: Told) -> Finding:
    """That nobody could look: what is there may be right or wrong."""
    allow = f"allow {look.action} to whoever checks; 'towpath bindings rights' prints the policies that do"
    return told.finding(
        "unseen",
        f"could not look at {told.of}: {look.why}",
        "it can be looked at",
        allow if look.denied else "check again; what could not be looked at is not known to be right",
    )


def text_of(attributes: Mapping[str, str], name: str) -> str | None:
    """An attribute's text; an empty one is none."""
    return attributes.get(name) or None


def _whole(value: object) -> int | None:
    return int(str(value)) if str(value).lstrip("-").isdigit() else None
