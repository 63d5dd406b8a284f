"""Every error that Towpath raises, each with the fact, its values and the repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from towpath.frozen import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

AbortReason = Literal["cancelled", "lease_lost", "max_processing", "shutdown"]


class Mistake(metaclass=Record):
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
    """The root of Towpath's errors: catch it to catch all but what a handler raises on purpose.

    What to do: read the message, which says where and how to repair it; the class below it says which kind it is.
    """


class FatalError(TowpathError):
    """Raised by a handler: this message can never succeed. The delivery becomes a dead letter at once.

    What to do: raise it with a reason that tells the person who looks after dead letters what to repair.
    """


class TransientError(TowpathError):
    """Raised by a handler: try again, after ``after`` when given, else after the subscription's back-off.

    What to do: raise it for what passes by itself; any other exception is retried too, with its traceback kept.
    """

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

    What to do: let it pass; clean up in ``finally``. A delivery that was cut short is released or comes again.
    """

    def __init__(self, reason: AbortReason = "shutdown") -> None:
        super().__init__(f"the handler was asked to stop: {reason}")
        self.reason: AbortReason = reason


class MistakesFound(TowpathError):
    """Something a person wrote has mistakes; all of them are in ``mistakes``.

    What to do: correct them all: each has the path of its key, its line where it is known, and what is allowed there.
    """

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
    """The topology cannot be deployed as it is written.

    What to do: correct the mistakes that the message lists; ``towpath topology check`` finds them without deploying
    anything.
    """


class InvalidManifest(MistakesFound):
    """The manifest is not one that this version of Towpath can read.

    What to do: render it again with ``towpath manifest render``, by the version that reads it; nobody writes it by
    hand.
    """


class InvalidBindings(MistakesFound):
    """The bindings file is not what a deployment of the manifest writes.

    What to do: take the bindings from the outputs of the deployment again, whole.
    """


class InvalidPlan(MistakesFound):
    """What the gate was given is no plan or template that it can judge.

    What to do: write the file again as the message says, whole, with the tool that is about to make the change.
    """


class InvalidOverrides(MistakesFound):
    """The file of what may pass the gate has mistakes, and allows nothing.

    What to do: name each address, its environment, a last day and a reason; nothing allows everything.
    """


class InvalidFilter(MistakesFound):
    """The filter policy is outside Amazon SNS's filter-policy language or its limits.

    What to do: correct the conditions at the paths that the message lists.
    """


class InvalidEnvelope(TowpathError):
    """The body claims to be a Towpath envelope, or must be one, and is malformed.

    What to do: correct the producer, which wrote what ``docs/reference/contracts.md`` does not allow, and publish the
    message again.
    """


class UnsupportedSchema(TowpathError):
    """The body is an envelope of another schema version than ``towpath/1``.

    What to do: update the consumer to a version that reads it, then deliver the dead letters again.
    """

    def __init__(self, schema: str) -> None:
        self.schema = schema
        super().__init__(f"envelope schema {schema[:80]!r} is not supported; this version reads 'towpath/1'")


class InvalidPayload(TowpathError):
    """The payload does not fit the type that the handler's annotation asks for; ``errors`` says where.

    What to do: correct the producer or the type; a handler that has to take both versions asks for a union of them.
    """

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(self.errors))


class HandlerNotFound(TowpathError):
    """A handler's import path does not resolve, or what it names cannot be called with (message, context).

    What to do: correct ``handler`` in the topology, written ``package.module:function``, or what it names.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"handler {path!r}: {problem}")


class UnknownTransport(TowpathError):
    """No installed package serves the scheme of this transport URL.

    What to do: write one of the schemes that the message lists, or install the extra that serves it.
    """


class InvalidTransportUrl(TowpathError):
    """The transport URL has a scheme that is served, and is not written as that transport reads it.

    What to do: write it as the message shows.
    """


class TransportUnavailable(TowpathError):
    """The transport did not answer, throttled or dropped the connection.

    What to do: try again later; a worker does so by itself. If it lasts, look at the database or at AWS's status.
    """


class TransportRejected(TowpathError):
    """The transport refused the call as the caller's fault (a right, a missing resource).

    What to do: grant the right or deploy the resource that the message names; waiting changes nothing.
    """


class SchemaOutdated(TowpathError):
    """The database's tables are not of this version.

    What to do: run ``towpath db upgrade``.
    """


class SubscriptionNotFound(TowpathError):
    """The transport has no subscription of this name.

    What to do: write one of the names that the message lists, or deploy or apply the manifest that has it.
    """

    def __init__(self, name: str, repair: str) -> None:
        self.name = name
        super().__init__(f"there is no subscription {name!r}; {repair}")


class DeliveryNotFound(TowpathError):
    """The transport has no delivery of this id in the state that was asked for: it may have ended meanwhile.

    What to do: list the deliveries or dead letters again, and take an id from there.
    """

    def __init__(self, delivery_id: str, what: str) -> None:
        self.delivery_id = delivery_id
        super().__init__(f"there is no {what} {delivery_id!r}; it may have ended meanwhile: list them again")


class InvalidSelection(TowpathError):
    """A condition or a cursor cannot be read, so nothing was looked for and nothing changed.

    What to do: correct the condition that the message names; begin the list anew, without the cursor.
    """


class InvalidEdit(TowpathError):
    """The edited message breaks the contract, so the dead letter stays as it is; ``code`` is the publish error's.

    What to do: what the table of codes above says about that code, then edit the dead letter again.
    """

    def __init__(self, code: str, problem: str) -> None:
        self.code = code
        super().__init__(f"the edited message is refused ({code}): {problem}")


class NothingApplied(TowpathError):
    """The database has no subscriptions: nothing is applied to it yet, or it is not the one that was meant.

    What to do: check the transport's URL, then run ``towpath apply``.
    """


class ApplyRefused(TowpathError):
    """Applying the manifest would lose deliveries; nothing was changed. ``reasons`` lists each conflict.

    What to do: let the subscriptions that it names run empty first, or keep them in the topology.
    """

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("the manifest was not applied: " + "; ".join(self.reasons))


class Unsupported(TowpathError):
    """This transport cannot do what was asked; the message names the missing capability.

    What to do: leave it out, or use a transport that can: ``docs/reference/transports.md`` compares them.
    """


class InvalidEnvironment(TowpathError):
    """A variable of a Lambda function's environment is missing or wrong; the function cannot start.

    What to do: deploy the function from the manifest again, which writes all of its variables.
    """


class InvalidEvent(TowpathError):
    """What Lambda handed over is no SQS event: the function is wired to something else than its queue.

    What to do: remove the other trigger; a function of Towpath has one event source mapping, of its own queue.
    """


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
