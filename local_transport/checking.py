"""What of a publish call is valid, decided from the applied topology without the database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from local_transport.applied import AppliedTopic, AppliedTopology
from towpath.envelope import EnvelopeMaker, Prepared, Sources
from towpath.errors import did_you_mean
from towpath.message import NewMessage, PublishError, PublishResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message that keeps the contract, at its position in the call."""

    position: int
    prepared: Prepared
    new: NewMessage

    @property
    def id(self) -> str:
        """The message's id."""
        return self.prepared.message.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A call's messages by one revision of the topology: drafts to write, and results of the rest by position.

    ``ids`` are what the messages are published under. ``target`` is the topic, there whenever there are drafts.
    """

    revision: int
    topic: str
    messages: Sequence[NewMessage]
    ids: Sequence[str]
    target: AppliedTopic | None
    drafts: Sequence[Draft]
    rejected: Mapping[int, PublishResult]


def check(
    applied: AppliedTopology, topic: str, messages: Sequence[NewMessage], ids: Sequence[str], sources: Sources
) -> Checked:
    """Check every message of a call, each under its id in ``ids``; a rejected one keeps no id that was made for it."""
    target = applied.topics.get(topic)
    fault = _topic_fault(topic, target, applied)
    maker = None if target is None else EnvelopeMaker(topic, target.policy.max_payload_bytes, sources.clock())
    drafts: list[Draft] = []
    rejected: dict[int, PublishResult] = {}
    for position, (new, message_id) in enumerate(zip(messages, ids, strict=True)):
        found = fault if maker is None or fault is not None else _prepared(maker, new, message_id)
        if isinstance(found, Prepared):
            drafts.append(Draft(position=position, prepared=found, new=new))
        elif found is not None:
            rejected[position] = rejection(_valid_id(new, found), found)
    return Checked(
        revision=applied.revision,
        topic=topic,
        messages=messages,
        ids=ids,
        target=target,
        drafts=drafts,
        rejected=rejected,
    )


def rejection(message_id: str | None, error: PublishError) -> PublishResult:
    """The result of a message that was not taken."""
    return PublishResult(id=message_id, status="rejected", error=error)


def comparable(body: str) -> str:
    """The canonical envelope without ``published_at``: what makes two messages of one id the same message.

    Publishing a message again makes a new time; everything else in an envelope is the publisher's. A stored body that
    cannot be read is like no other.
    """
    try:
        envelope = json.loads(body)
        del envelope["published_at"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return body
    return json.dumps(envelope, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _topic_fault(topic: str, target: AppliedTopic | None, applied: AppliedTopology) -> PublishError | None:
    if target is None:
        known = ", ".join(sorted(applied.topics)) or "none; run 'towpath apply'"
        problem = f"there is no topic {topic!r} on this database, it has {known}{did_you_mean(topic, applied.topics)}"
        return PublishError(code="TopicNotFound", message=problem)
    if target.policy.status == "disabled":
        return PublishError(code="TopicDisabled", message=f"the topic {topic!r} is disabled in the applied topology")
    return None


def _prepared(maker: EnvelopeMaker, new: NewMessage, message_id: str) -> Prepared | PublishError:
    found = maker.prepare(new, message_id)
    if isinstance(found, Prepared) and new.deduplication_key is not None and "\0" in new.deduplication_key:
        problem = "deduplication_key holds the character NUL, which not every database can keep"
        return PublishError(code="InvalidDeduplication", message=problem)
    return found


def _valid_id(new: NewMessage, error: PublishError) -> str | None:
    return None if error.code == "InvalidMessageId" else new.id
