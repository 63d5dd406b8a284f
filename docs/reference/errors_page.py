"""Writes ``errors.md``: the codes of publishing, the reasons of dead letters, and every exception of Towpath.

Exceptions are told by their docstrings. Codes and reasons are told here; a test finds those that the code knows and
this file does not.
"""

from __future__ import annotations

import inspect
import textwrap
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from towpath import errors, limits
from towpath.message import RETRYABLE_CODES, PublishCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one code means, and what a person does about it."""

    when: str
    what_to_do: str


PUBLISH_CODES: Mapping[PublishCode, Entry] = {
    "InvalidMessageId": Entry(
        when="`id` is no UUID in lower-case text",
        what_to_do="leave the id out, or make it with `str(uuid.uuid4())`",
    ),
    "InvalidPayload": Entry(
        when="`payload` is no JSON that survives the wire, or `payload_ref` is no claim check; the path says where",
        what_to_do="turn what it names into JSON: text for a time or a `Decimal`, a list for a set, base64 for bytes",
    ),
    "InvalidAttributes": Entry(
        when="an attribute breaks its rules, a time has no time zone, or `deliver_after` is not before `expires_at`",
        what_to_do="correct the attribute or time that it names; what does not fit belongs into the payload",
    ),
    "InvalidPartitionKey": Entry(
        when=f"`partition_key` is not 1 to {limits.PARTITION_KEY_LENGTH} characters, or has a NUL",
        what_to_do="shorten it, or leave it out: `None` and not empty text means none",
    ),
    "InvalidCorrelationId": Entry(
        when="`correlation_id`, `causation_id` or `traceparent` breaks its rules",
        what_to_do="correct the one that it names, or leave it out: a handler's `context.publish` sets all three",
    ),
    "InvalidDeduplication": Entry(
        when="the key or its time to live breaks its rules, or the topic on AWS does not deduplicate",
        what_to_do="correct what it names, or leave the key out",
    ),
    "PayloadTooLarge": Entry(
        when="the envelope and its attributes are larger than the topic's `max_payload_bytes`, or than "
        f"{limits.MAX_MESSAGE_BYTES:,} bytes; the sentence says by how much",
        what_to_do="store the payload elsewhere and publish a claim check: `payload_ref=PayloadRef(uri=...)`",
    ),
    "TopicNotFound": Entry(
        when="the manifest, or the topology that is applied, has no topic of this name",
        what_to_do="correct the name (the sentence has the nearest one), or add the topic and deploy or apply it",
    ),
    "TopicDisabled": Entry(
        when='the topic has `status = "disabled"`',
        what_to_do="wait for the people who disabled it, or set its status and apply or deploy that",
    ),
    "TopicUnbound": Entry(
        when="the bindings do not name this AWS topic yet",
        what_to_do="try again once the topic is deployed: producers may be deployed first",
    ),
    "MessageIdConflict": Entry(
        when="the id belongs to a message with other content",
        what_to_do="publish under a new id; a message that is only repeated answers `duplicate`",
    ),
    "DeduplicationPending": Entry(
        when="another publisher holds the deduplication key at this moment",
        what_to_do="try again in a moment: the answer is then `duplicate`, or the message is accepted",
    ),
    "DelayUnsupported": Entry(
        when="`deliver_after` on a transport without the capability `delay`",
        what_to_do="publish it when it is due, or to a topic on a database",
    ),
    "TransportRejected": Entry(
        when="AWS refused this message as the sender's fault, or the caller has no right to publish",
        what_to_do="read AWS's sentence, and correct the right or the message",
    ),
    "TransportUnavailable": Entry(
        when="throttled, timed out, not connected, or a fault of the server",
        what_to_do="publish the same message, with the same id, again: it may have arrived all the same",
    ),
}

REASONS: Mapping[str, Entry] = {
    "InvalidEnvelope": Entry(
        when="the body says that it is a Towpath envelope and is malformed, is no text in UTF-8, or is foreign where "
        "`accept_foreign = false`",
        what_to_do="correct the producer that the body comes from, and publish the message again",
    ),
    "UnsupportedSchema": Entry(
        when="the body is an envelope of another version than `towpath/1`",
        what_to_do="update the consumer to a version that reads it, then deliver the message again",
    ),
    "InvalidPayload": Entry(
        when="the payload does not fit the type in the handler's annotation; the last error has the places",
        what_to_do="correct the producer and publish again, or correct the type and deliver the message again",
    ),
    "MaxAttemptsExceeded": Entry(
        when="the last attempt failed, or ended with its lease; the last error says how",
        what_to_do="repair what the last error shows, then deliver the message again",
    ),
    "MaxReceivesExceeded": Entry(
        when="SQS itself moved the message to the dead-letter queue: it came back more often than functions or workers "
        "ever settled it",
        what_to_do="look for crashes, time-outs and throttling of the function: no handler had the chance to say why",
    ),
    "DeliveryFailed": Entry(
        when="SNS could not deliver the message to the subscription's queue, so no handler has seen it",
        what_to_do="look at the queue's policy, its KMS key and whether it is there, then replay it",
    ),
    "Unknown": Entry(
        when="a message on a dead-letter queue carries neither a note of Towpath's nor a sign of SQS's redrive",
        what_to_do="find out who sent it there",
    ),
    "DeadLetter": Entry(
        when='the handler returned `DeadLetter("")`: with a reason, that reason stands here',
        what_to_do="return `DeadLetter(reason)` with a reason that helps",
    ),
    "FatalError": Entry(
        when="the handler raised `FatalError` without a message: with one, that message stands here",
        what_to_do="raise it with a message that helps",
    ),
    "Expired": Entry(
        when="the delivery came past its `expires_at`; it is discarded and becomes no dead letter",
        what_to_do="nothing, or publish with a later `expires_at`, or look why it waited so long",
    ),
}

LAST_ERRORS: Mapping[str, Entry] = {
    "Retry": Entry(
        when="the handler returned `Retry(reason)`",
        what_to_do="the text is the handler's reason",
    ),
    "InvalidOutcome": Entry(
        when="the handler returned something else than an outcome or `None`",
        what_to_do="return `Complete()`, `Retry()`, `DeadLetter()` or `None`",
    ),
    "MaxProcessingExceeded": Entry(
        when="the attempt ran longer than the subscription's `max_processing_seconds`",
        what_to_do="make the work smaller, or allow more time in the topology",
    ),
    "LeaseExpired": Entry(
        when="the lease ended before the attempt did: the worker crashed, was killed, or hung",
        what_to_do="look at that worker's log and memory; raise `lease_seconds` where it only was slow",
    ),
    "ReceiveGuard": Entry(
        when=f"SQS handed the message out {limits.RECEIVE_GUARD_EXTRA} times more than `max_attempts`, and nobody "
        "settled it: the handler did not run again",
        what_to_do="look for crashes and time-outs of the function",
    ),
}


def errors_page() -> str:
    """The page, from the entries above and the docstrings of ``towpath.errors``."""
    lines = [
        "# Errors",
        "",
        "Every code, reason and exception of Towpath, and what to do about it.",
        "",
        "## Codes of publishing",
        "",
        "A rejected message's `PublishResult` has an `error` with one of these codes. The topic is looked at first,",
        "then the message's own rules in this order, and the first fault counts. `retryable` says whether the same",
        "call can succeed later with nothing changed. The rules are in [contracts](contracts.md#message).",
        "",
        "| code | retryable | when | what to do |",
        "|---|---|---|---|",
        *(_publish_row(code) for code in typing.get_args(PublishCode)),
        "",
        "## Reasons of dead letters",
        "",
        "`towpath dead-letters list` shows them. A handler's own reasons (`DeadLetter(reason)`, `FatalError(reason)`)",
        "stand here as it wrote them.",
        "",
        "| reason | when | what to do |",
        "|---|---|---|",
        *_rows(REASONS),
        "",
        "## Last errors that no handler raised",
        "",
        "A delivery's last error has a type and a text. An exception's type is its class; these are Towpath's own.",
        "",
        "| type | when | what to do |",
        "|---|---|---|",
        *_rows(LAST_ERRORS),
        "",
        "## Exceptions",
        "",
        "All are in `towpath.errors`. The command line prints the message of one as a sentence and exits with 1 or 2.",
        "",
        "| exception | is a | meaning | what to do |",
        "|---|---|---|---|",
        *(_exception_row(kind) for kind in exceptions()),
    ]
    return "\n".join(lines) + "\n"


def exceptions() -> Iterator[type[BaseException]]:
    """Every exception of ``towpath.errors``, in the order in which the module defines them."""
    for found in vars(errors).values():
        if isinstance(found, type) and issubclass(found, BaseException) and found.__module__ == errors.__name__:
            yield found


def _publish_row(code: PublishCode) -> str:
    entry = PUBLISH_CODES[code]
    retryable = "yes" if code in RETRYABLE_CODES else "no"
    return f"| `{code}` | {retryable} | {entry.when} | {entry.what_to_do} |"


def _rows(entries: Mapping[str, Entry]) -> Iterator[str]:
    for name, entry in entries.items():
        yield f"| `{name}` | {entry.when} | {entry.what_to_do} |"


def _exception_row(kind: type[BaseException]) -> str:
    """A row of the docstring: what comes before "What to do:", and what comes after it."""
    meaning, marker, what_to_do = inspect.cleandoc(kind.__doc__ or "").partition("What to do: ")
    if not marker:
        raise ValueError(f"the docstring of {kind.__name__} has no paragraph that begins 'What to do: '")
    parent = kind.__bases__[0].__name__
    return f"| `{kind.__name__}` | `{parent}` | {_prose(meaning)} | {_prose(what_to_do)} |"


def _prose(text: str) -> str:
    """A docstring's text on one line, with code as Markdown writes it."""
    return " ".join(textwrap.dedent(text).split()).replace("``", "`")
