"""Writes ``handler.md`` from the code: signatures, docstrings, refusals as they are; ``generate.py`` runs it."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from towpath import Complete, Context, DeadLetter, FatalError, Message, Retry, TransientError
from towpath.errors import Aborted, HandlerNotFound
from towpath.handler import inspected

HEAD = """\
# Handler

A handler is a function of two arguments, `def` or `async def`, that the topology names by import path,
`"app.documents:convert"`. There is no base class, no registry and no decorator: it is called as it is in a test.

```python
from dataclasses import dataclass

from towpath import Complete, Context, FatalError, Message, NewMessage, Outcome, Retry


@dataclass(frozen=True, kw_only=True)
class Batch:
    tenant: str
    names: list[str]


def convert(message: Message[Batch], context: Context) -> Outcome | None:
    batch = message.payload
    if not batch.names:
        raise FatalError("the batch is empty")
    begin = context.checkpoint["done"] if context.checkpoint else 0
    for done in range(begin, len(batch.names)):
        context.check()  # raises Aborted when there is no use in going on
        if batch.names[done].endswith(".part"):
            return Retry("an upload is not complete yet", after=60)
        context.heartbeat(percent=100 * done / len(batch.names), checkpoint={"done": done})
    context.publish("documents.converted", NewMessage(payload={"tenant": batch.tenant}))
    return Complete()
```

It is loaded once, when a worker or a Lambda function starts; where that cannot work, nothing is claimed, and the reason
is told (`HandlerNotFound`, [below](#what-is-refused)). Besides a function, the path may name a method of a module-level
object (`app:converter.convert`), a static or class method, an object with `__call__`, a `functools.partial`, or what a
decorator with `functools.wraps` makes of one. Whatever it returns that can be awaited is awaited to its end, on an
event loop of the worker's thread.
"""

PAYLOADS = """\
## Payload types

The `T` of `Message[T]` says what the payload must be.

| annotation | `message.payload` |
|---|---|
| none, `Message`, `Message[Any]` | the JSON as it is; `ABSENT` when there is no payload |
| `Message[Order]`, a dataclass or a pydantic model | an `Order` |
| `Message[Order]`, a `TypedDict` | a `dict`, whose keys and values were checked |
| `Message[list[Order]]`, `Message[dict[str, int]]` and so on | of these types |
| `Message[Order \\| Refund]`, `Message[Order \\| None]` | of the type that fits; `null` is `None` |
| `Message[Annotated[Order \\| Refund, Field(discriminator="kind")]]` | of the type that the field `kind` names |
| `Message[Annotated[str, Field(max_length=9)]]` | text that keeps the constraint |

Types other than plain JSON are validated by pydantic, which is imported for them only and has to be installed where the
handler runs. A payload is validated as JSON: a strict type takes a list for a tuple and text for a time, a UUID or an
enumeration, and refuses `"1"` for a number. TypedDicts of `typing` work on Python 3.11 too, on their own, within each
other and in `list`, `dict` and unions; within a dataclass or a model write `typing_extensions.TypedDict` there.

A payload that does not fit, or an absent one where a type is asked for, can never succeed: it becomes a dead letter at
once, reason `InvalidPayload`, and the handler is not called. The error lists the first 20 places and what is allowed
there, never a value: `documents.0.pages: Input should be greater than or equal to 1`. A key that does not read like a
name is written `?`. Of a validator of your own only the kind of its error is told:
its words may show any part of the payload.
"""

MEANINGS: Mapping[str, str] = {
    "subscription": "the subscription's name",
    "delivery_id": "one message on its way to this subscription; the same over its attempts",
    "attempt": "1 on the first; a replay starts again at 1",
    "max_attempts": "the attempt after which a retry becomes a dead letter",
    "is_replay": "whether a person sent it again",
    "correlation_id": "what belongs together, by default the first message's id",
    "deadline": "when the handler must be done: Lambda's end, or `max_processing_seconds` from its start; in UTC",
    "checkpoint": "what an earlier attempt saved by `heartbeat`, by transports with `keeps_progress`; else `None`",
    "log": "a logger whose lines carry these ids; `extra=` adds to them",
}
REASONS: Mapping[str, str] = {
    "shutdown": "the worker stops, or Lambda's time is over: the delivery is released, unless a `Complete` still comes",
    "lease_lost": "another worker may have the delivery by now: nothing is settled",
    "max_processing": "it ran longer than `max_processing_seconds`: a failed attempt",
    "cancelled": "a person cancelled the delivery: nothing is settled",
}

OUTCOMES = """\
| the handler | the delivery |
|---|---|
| returns `None` or `Complete()` | is completed |
| returns `Retry(...)` or raises `TransientError(...)` | comes again after `after`, else after the back-off |
| returns `DeadLetter(reason)` or raises `FatalError(reason)` | becomes a dead letter at once |
| raises anything else, or calls `sys.exit()` | comes again after the back-off; type, message and traceback are kept |
| returns anything else | is retried, with an explanation: it is a programming error |
| is to be retried, at its last attempt | becomes a dead letter, reason `MaxAttemptsExceeded`, with the last error |
| is interrupted by a person (`KeyboardInterrupt`) | is released, and the worker ends |

The back-off doubles from `base_seconds` with each attempt up to `max_seconds`; the wait is a whole number of seconds in
the upper half of that, each as likely as the other, and at least 1 unless `base_seconds` is 0. `after`, in seconds or
as a `timedelta`, is rounded up to whole seconds and kept within 0 and 43,200 (12 hours, SQS's limit); what is no delay
is told in the error, and the back-off counts.
"""


def handler_page() -> str:
    """The page, in the order in which somebody who writes a handler comes to its parts."""
    parts = [HEAD, PAYLOADS, "## Outcomes\n", OUTCOMES, *_signatures(Complete, Retry, DeadLetter)]
    parts += _signatures(TransientError, FatalError, Aborted)
    parts += ["## Context\n", _attributes(), *_methods(), "## What is refused\n", _refusals()]
    return "\n".join(parts)


def _signatures(*things: Any) -> Iterator[str]:
    for thing in things:
        plain = "__init__" not in vars(thing)  # an exception that takes what every exception takes
        shown = "(reason)" if plain else _shown(inspect.signature(thing).replace(return_annotation=Any))
        yield f"### `{thing.__name__}{shown.removesuffix(' -> Any').removesuffix(' -> typing.Any')}`\n"
        yield _prose(thing) + "\n"


def _attributes() -> str:
    known = {field.name: field.type for field in fields(Context) if not field.name.startswith("_")}
    if set(known) != set(MEANINGS):
        raise ValueError(f"the page lacks, or has too many of, the attributes {set(known) ^ set(MEANINGS)}")
    rows = [f"| `{name}` | {_cell(f'`{known[name]}`')} | {meaning} |" for name, meaning in MEANINGS.items()]
    return "\n".join(["| attribute | type | |", "|---|---|---|", *rows]) + "\n"


def _methods() -> Iterator[str]:
    for name, member in vars(Context).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"### `{name}`: `{_type_of(member)}`\n"
        elif inspect.isfunction(member):
            yield f"### `{name}{_shown(_without_self(member))}`\n"
        else:
            continue
        yield _prose(member) + "\n"
        if name == "abort_reason":
            yield _reasons()


def _type_of(member: property) -> str:
    return str(inspect.signature(member.fget).return_annotation) if member.fget else ""


def _without_self(method: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(method)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _shown(signature: inspect.Signature) -> str:
    """The signature without the quotes that postponed annotations have."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature)).replace("'", '"')


def _reasons() -> str:
    rows = [f"| `{reason}` | {meaning} |" for reason, meaning in REASONS.items()]
    return "\n".join(["| `abort_reason` | why, and what becomes of the delivery |", "|---|---|", *rows]) + "\n"


def _prose(thing: Any) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", inspect.getdoc(thing) or "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# --- Refusals: each example is tried, and its message is the code's ----------------------------------------------


def _refusals() -> str:
    """What ``HandlerNotFound`` says of each example. All of them are found when the handler is loaded."""
    rows = [f"| {_cell(what)} | {_cell(_refused(example))} |" for what, example in _examples().items()]
    head = "Found when a worker or a Lambda function starts, and by `towpath bundle verify` before that:\n"
    return "\n".join([head, "| the handler | the error |", "|---|---|", *rows]) + "\n"


def _refused(example: Any) -> str:
    try:
        inspected(example, "app:process")
    except HandlerNotFound as error:
        return str(error)
    raise ValueError(f"{example} is accepted")


def _examples() -> dict[str, Any]:
    def one(message: Any) -> None: ...
    def three(message: Any, context: Any, verbose: Any) -> None: ...
    def keyword(message: Any, context: Any, *, verbose: Any) -> None: ...
    def yields(message: Any, context: Any) -> Iterator[Any]:
        yield message, context

    return {
        "`def process(message)`": one,
        "`def process(message, context, verbose)`": three,
        "`def process(message, context, *, verbose)`": keyword,
        "a generator, `async` or not": yields,
        "a class": Message,
        "`process = 7`": 7,
        "`message: dict`": _annotated(message=dict),
        "`message: Message[A] | Message[B]`": _annotated(message=Message[int] | Message[str]),
        "`message: Message[Oder]`, a name that is not defined": _annotated(message="Message[Oder]"),
        "`context: Context, message: Message`, the wrong way round": _annotated(context=Message),
        "a partial that leaves too little": functools.partial(three, None, None),
    }


def _annotated(**annotations: object) -> Callable[..., None]:
    def process(message: Any, context: Any) -> None: ...

    process.__annotations__ = annotations
    process.__globals__["Message"] = Message
    return process
