"""Every error that Towpath raises, each with the fact, its values and the repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

AbortReason = Literal["cancelled", "lease_lost", "max_processing", "shutdown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing that is wrong in something a person wrote: where, and what is allowed there.

    ``path`` is the dotted path of the key (``subscriptions."a.b".lease_seconds``), ``line`` the 1-based line in the
    file where it is known.
    """

    path: str
    problem: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{where}{self.path}: {self.problem}" if self.path else f"{where}{self.problem}"


class TowpathError(Exception):
    """The root of Towpath's errors: catch it to catch all but what a handler raises on purpose."""


class FatalError(TowpathError):
    """Raised by a handler: this message can never succeed. The delivery becomes a dead letter at once."""


class TransientError(TowpathError):
    """Raised by a handler: try again, after ``after`` when given, else after the subscription's back-off."""

    reason: str = ""  # for a subclass that does not call this class's ``__init__``
    after: timedelta | float | None = None

    def __init__(self, reason: str = "", after: timedelta | float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = after


class Aborted(BaseException):
    """Raised by ``context.check()`` when the handler must stop: see ``reason``.

    A ``BaseException``, like ``asyncio.CancelledError``, so that a handler's own ``except Exception`` cannot
    swallow it and run on without a lease.
    """

    def __init__(self, reason: AbortReason = "shutdown") -> None:
        super().__init__(f"the handler was asked to stop: {reason}")
        self.reason: AbortReason = reason


class MistakesFound(TowpathError):
    """Something a person wrote has mistakes; all of them are in ``mistakes``."""

    def __init__(self, subject: str, mistakes: Sequence[Mistake]) -> None:
        self.subject = subject
        self.mistakes = tuple(mistakes)
        super().__init__(self._sentence() or self._list())

    def _sentence(self) -> str | None:
        """For one mistake that is about the subject as a whole."""
        if len(self.mistakes) != 1 or self.mistakes[0].path:
            return None
        (mistake,) = self.mistakes
        where = f", line {mistake.line}," if mistake.line is not None else ""
        return f"{self.subject}{where} {mistake.problem}"

    def _list(self) -> str:
        listed = "\n".join(f"  {mistake}" for mistake in self.mistakes)
        noun = "mistake" if len(self.mistakes) == 1 else "mistakes"
        return f"{self.subject} has {len(self.mistakes)} {noun}:\n{listed}"


class InvalidTopology(MistakesFound):
    """The topology cannot be deployed as it is written."""


class InvalidManifest(MistakesFound):
    """The manifest is not one that this version of Towpath can read; render it again."""


class InvalidBindings(MistakesFound):
    """The bindings file is not what a deployment of the manifest writes."""


class InvalidFilter(MistakesFound):
    """The filter policy is outside Amazon SNS's filter-policy language or its limits."""


class InvalidEnvelope(TowpathError):
    """The body claims to be a Towpath envelope, or must be one, and is malformed."""


class UnsupportedSchema(TowpathError):
    """The body is an envelope of another schema version than ``towpath/1``."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        super().__init__(f"envelope schema {schema[:80]!r} is not supported; this version reads 'towpath/1'")


class InvalidPayload(TowpathError):
    """The payload does not fit the type that the handler's annotation asks for; ``errors`` says where."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(self.errors))


class HandlerNotFound(TowpathError):
    """A handler's import path does not resolve, or what it names cannot be called with (message, context)."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"handler {path!r}: {problem}")


class UnknownTransport(TowpathError):
    """No installed package serves the scheme of this transport URL."""


class InvalidTransportUrl(TowpathError):
    """The transport URL has a scheme that is served, and is not written as that transport reads it."""


class TransportUnavailable(TowpathError):
    """The transport did not answer, throttled or dropped the connection; trying again later can succeed."""


class TransportRejected(TowpathError):
    """The transport refused the call as the caller's fault (a right, a missing resource); waiting changes nothing."""


class SchemaOutdated(TowpathError):
    """The database's tables are not of this version; ``towpath db upgrade`` brings them up."""


class SubscriptionNotFound(TowpathError):
    """The transport has no subscription of this name."""

    def __init__(self, name: str, repair: str) -> None:
        self.name = name
        super().__init__(f"there is no subscription {name!r}; {repair}")


class NothingApplied(TowpathError):
    """The database has no subscriptions: nothing is applied to it yet, or it is not the one that was meant."""


class ApplyRefused(TowpathError):
    """Applying the manifest would lose deliveries; nothing was changed. ``reasons`` lists each conflict."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("the manifest was not applied: " + "; ".join(self.reasons))


class Unsupported(TowpathError):
    """This transport cannot do what was asked; the message names the missing capability."""


class InvalidEnvironment(TowpathError):
    """A variable of a Lambda function's environment is missing or wrong; the function cannot start."""


class InvalidEvent(TowpathError):
    """What Lambda handed over is no SQS event: the function is wired to something else than its queue."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``word`` is probably meant to be, whatever its case and what joins its words."""
    from difflib import get_close_matches  # a Lambda function that has no such mistake need not wait for it

    def plain(text: str) -> str:
        return text.lower().translate({ord(mark): None for mark in "_-. "})

    by_letters = {plain(one): one for one in known}
    close = get_close_matches(plain(word), list(by_letters), n=1)
    return by_letters[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about ``word``, which is none of ``known``: the nearest of them, or nothing."""
    found = nearest(word, known)
    return f"; did you mean {found!r}?" if found is not None else ""
