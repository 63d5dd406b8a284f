"""What a person has allowed: addresses, for one environment, until a day, with a reason; a file under review."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from towpath.errors import InvalidOverrides, Mistake
from towpath.gate.guards import Blocked
from towpath.records import read_json, read_record

_WILDCARDS = ("*", "?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One entry: these addresses may change in ``environment``, to the end of the day ``expires`` in UTC."""

    addresses: tuple[str, ...]
    environment: str
    expires: str
    reason: str

    def is_over(self, today: date) -> bool:
        """Whether its last day has passed."""
        return date.fromisoformat(self.expires) < today


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    overrides: tuple[Override, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What of a plan stays blocked, what is allowed by an entry, and what is to be said of the entries."""

    blocked: tuple[Blocked, ...]
    allowed: tuple[Blocked, ...] = ()
    notes: tuple[str, ...] = field(default=())


def load_overrides(path: Path) -> tuple[Override, ...]:
    """Read the entries in the file ``path``. Raises ``InvalidOverrides`` with every mistake: an entry with a wildcard,
    or without a day, an environment, a reason or an address.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidOverrides(str(path), [Mistake(path="", problem=f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise InvalidOverrides(str(path), [Mistake(path="", problem="is not UTF-8 text")]) from error
    document = read_json(text, InvalidOverrides, str(path))
    overrides = read_record(_File, document, InvalidOverrides, str(path)).overrides
    mistakes = [mistake for number, one in enumerate(overrides) for mistake in _mistakes(one, f"overrides[{number}]")]
    if mistakes:
        raise InvalidOverrides(str(path), mistakes)
    return overrides


def _mistakes(one: Override, where: str) -> Iterator[Mistake]:
    if not one.addresses:
        yield Mistake(path=f"{where}.addresses", problem="are none; name each address that may change")
    for number, address in enumerate(one.addresses):
        if any(wildcard in address for wildcard in _WILDCARDS) or not address.strip():
            problem = f"must be the whole address of one resource, not {address!r}; no pattern allows anything"
            yield Mistake(path=f"{where}.addresses[{number}]", problem=problem)
    if not one.environment.strip() or any(wildcard in one.environment for wildcard in _WILDCARDS):
        yield Mistake(path=f"{where}.environment", problem="must be the name of one environment, such as prod")
    if not one.reason.strip():
        yield Mistake(path=f"{where}.reason", problem="must say why, for those who review it")
    if not _is_day(one.expires):
        yield Mistake(path=f"{where}.expires", problem=f"must be a day such as 2027-03-31, not {one.expires!r}")


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def verdict(
    found: Sequence[Blocked], addresses: Collection[str], overrides: Sequence[Override], environment: str, today: date
) -> Verdict:
    """What the entries for ``environment`` allow on the day ``today``. ``addresses`` are all that the plan changes.

    Entries of other environments are not looked at. An entry that is over allows nothing, and is told; so is an address
    that the plan does not change, or for which nothing is blocked.
    """
    ours = [one for one in overrides if one.environment == environment]
    allowed = {address for one in ours if not one.is_over(today) for address in one.addresses}
    return Verdict(
        blocked=tuple(one for one in found if one.address not in allowed),
        allowed=tuple(one for one in found if one.address in allowed),
        notes=tuple(_notes(found, addresses, ours, today)),
    )


def _notes(
    found: Sequence[Blocked], addresses: Collection[str], ours: Sequence[Override], today: date
) -> Iterator[str]:
    needed = {one.address for one in found}
    for one in ours:
        for address in one.addresses:
            if one.is_over(today):
                yield f"the override of {address} expired after {one.expires}: take it out, or have it reviewed anew"
            elif address not in addresses:
                yield f"the override of {address} is for nothing that is about to change: take it out, or correct it"
            elif address not in needed:
                yield f"the override of {address} is not needed, since nothing of it is blocked: take it out"
