"""Publishing through SNS: every message is checked, then sent in batches, and answered at its position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.batches import DeduplicationClaim, Entry, message_group, request
from aws_transport.bindings import TopicBinding
from aws_transport.faults import AwsFault, code_of, entry_error, publish_error, was_refused
from aws_transport.lanes import Lanes
from aws_transport.ledger import Ledger, LedgerClient, Reservation
from aws_transport.sending import Sent, send_all
from towpath.envelope import EnvelopeMaker, Prepared, Sources, ids_of
from towpath.errors import Unsupported, did_you_mean
from towpath.manifest import AwsTopic, Topic
from towpath.message import NewMessage, PublishError, PublishResult
from towpath.validation import require_messages

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sns.type_defs import PublishBatchResponseTypeDef

_SILENT: Final = PublishError(code="TransportUnavailable", message="SNS's answer leaves this message out")
_TOO_LATE: Final = PublishError(
    code="TransportUnavailable", message="not sent to SNS: its deduplication key was reserved too long ago"
)

# Refusals of a whole batch for what one of its entries holds (Amazon SNS API reference, PublishBatch).
_ENTRY_FAULTS: Final = frozenset(
    {"BatchRequestTooLong", "InvalidParameter", "InvalidParameterValue", "ParameterValueInvalid", "ValidationException"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsPublisher:
    """``towpath.ports.Publisher`` on SNS. Keeps no state, so any number of threads may share one.

    ``ledger_client`` is boto3's DynamoDB client; only topics with a deduplication ledger need it.
    """

    topics: Mapping[str, Topic]
    bindings: Mapping[str, TopicBinding]
    client: SNSClient
    sources: Sources
    ledger_client: LedgerClient | None = None

    def publish(
        self, topic: str, messages: Sequence[NewMessage], *, connection: object | None = None
    ) -> list[PublishResult]:
        """Publish ``messages`` to ``topic``: one result for each, at its position. A bad message rejects only itself.

        Batches are sent side by side. On a FIFO topic no two messages of one key are on their way at once, and behind
        one that SNS did not take the later ones of its key are rejected unsent, retryable; one that breaks the contract
        was never a message, and holds up none. An accepted message is with SNS, durably. One rejected with
        ``TransportUnavailable`` may have arrived all the same: publish it again under the id of its result. Raises
        ``Unsupported`` for ``connection``: SNS takes part in no transaction.
        """
        if connection is not None:
            raise Unsupported("publish(connection=...) needs a database transport: SNS takes part in no transaction")
        require_messages(messages)
        refusal = self._refusal(topic)
        if refusal is not None:
            return [_rejected(None, refusal) for _ in messages]
        results: dict[int, PublishResult] = {}
        entries: list[Entry] = []
        now = self.sources.clock()
        maker = EnvelopeMaker(topic, self.topics[topic].max_payload_bytes, now)
        ids = ids_of(messages, self.sources)
        for position, message in enumerate(messages):
            checked = self._checked(topic, message, maker.prepare(message, ids[position]))
            if isinstance(checked, Prepared):
                entries.append(self._entry(self.topics[topic], position, message, checked))
            else:
                results[position] = checked
        if entries:
            results |= send_all(Lanes(entries), self._sending(topic).send)
        return [results[position] for position in range(len(messages))]

    def _refusal(self, name: str) -> PublishError | None:
        """Why nothing can be published to this topic."""
        topic = self.topics.get(name)
        if topic is None or topic.aws is None:
            return PublishError(code="TopicNotFound", message=self._not_here(name))
        if topic.status == "disabled":
            return PublishError(code="TopicDisabled", message=f"topic {name!r} is disabled")
        return None

    def _checked(self, name: str, message: NewMessage, prepared: Prepared | PublishError) -> Prepared | PublishResult:
        """What can be said without AWS: the message ready to be sent, or its rejection."""
        if isinstance(prepared, PublishError):
            return _rejected(None, prepared)
        fault = _unsendable(name, self.topics[name], message)
        if fault is None and name not in self.bindings:
            problem = f"topic {name!r} has no bindings: deploy the manifest, and give the bindings of that deployment"
            fault = PublishError(code="TopicUnbound", message=problem)
        return prepared if fault is None else _rejected(prepared.message.id, fault)

    def _not_here(self, name: str) -> str:
        if name in self.topics:
            return f"there is no topic {name!r} on AWS: the manifest puts it on a database"
        on_aws = (known for known, topic in self.topics.items() if topic.aws is not None)
        return f"there is no topic {name!r} in this manifest{did_you_mean(name, on_aws)}"

    def _entry(self, topic: Topic, position: int, message: NewMessage, prepared: Prepared) -> Entry:
        group = message_group(prepared.message, topic.aws) if topic.aws is not None and topic.aws.fifo else None
        entry = Entry(position=position, prepared=prepared, group=group)
        if message.deduplication_key is None:
            return entry
        ttl = message.deduplication_ttl
        claim = DeduplicationClaim(
            key=message.deduplication_key,
            ttl_seconds=topic.deduplication.ttl_seconds if ttl is None else ttl.total_seconds(),
            window=message.deduplication_window,
        )
        return replace(entry, claim=claim)

    def _sending(self, name: str) -> _Sending:
        topic = self.topics[name].aws
        if topic is None:
            raise AssertionError("only messages to topics on AWS are sent")
        ledger = None
        if topic.deduplication_table is not None and self.ledger_client is not None:
            ledger = Ledger(client=self.ledger_client, table=topic.deduplication_table.name, sources=self.sources)
        arn = self.bindings[name].arn
        return _Sending(client=self.client, arn=arn, topic=topic, ledger=ledger, sources=self.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """SNS's answer for one entry. ``is_certain`` says that a rejected one is surely not with SNS."""

    result: PublishResult
    is_certain: bool = True


_Answers = Mapping[int, _Answer]  # by the entry's position


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sending:
    """Sends batches to one topic; used by several threads at once."""

    client: SNSClient
    arn: str
    topic: AwsTopic
    ledger: Ledger | None
    sources: Sources

    def send(self, batch: Sequence[Entry]) -> Sent:
        """Reserve the deduplication keys of a batch, publish what is to be published, and conclude the reservations."""
        reserved = {entry.position: self._reserve(entry) for entry in batch}
        answers = {position: self._standing(one) for position, one in reserved.items()}
        results = {position: answer.result for position, answer in answers.items() if answer is not None}
        answers |= self._publish([entry for entry in batch if entry.position not in results])
        for position, answer in answers.items():
            if answer is not None:
                results[position] = answer.result
                self._conclude(reserved[position], answer)
        return Sent(results=results, unavailable=all(map(_is_unavailable, results.values())))

    def _reserve(self, entry: Entry) -> Reservation | PublishResult | None:
        if entry.claim is None:
            return None
        if self.ledger is None:
            raise AssertionError("a deduplication key without a ledger is refused before")
        return self.ledger.reserve(entry.claim, entry.prepared.message.id)

    def _standing(self, reserved: Reservation | PublishResult | None) -> _Answer | None:
        """The answer for what is not to be published, or not any more: others may reserve the key before it arrives."""
        if isinstance(reserved, Reservation):
            in_time = reserved.holds_for_sending(self.sources.clock())
            return None if in_time else _Answer(result=_rejected(reserved.message_id, _TOO_LATE))
        return None if reserved is None else _Answer(result=reserved)

    def _conclude(self, reserved: Reservation | PublishResult | None, answer: _Answer) -> None:
        if not isinstance(reserved, Reservation) or self.ledger is None:
            return
        if answer.result.status == "accepted":
            self.ledger.confirm(reserved)
        elif answer.is_certain:
            self.ledger.withdraw(reserved)  # else SNS may have the message: the reservation runs out by itself

    def _publish(self, batch: Sequence[Entry]) -> _Answers:
        if not batch:
            return {}
        try:
            response = self.client.publish_batch(
                TopicArn=self.arn, PublishBatchRequestEntries=[request(entry, self.topic) for entry in batch]
            )
        except ClientError as error:
            if len(batch) > 1 and code_of(error) in _ENTRY_FAULTS:  # one of them is bad: each alone says which
                return {position: answer for entry in batch for position, answer in self._publish([entry]).items()}
            return _failed(batch, error)
        except BotoCoreError as error:
            return _failed(batch, error)
        return _answers(batch, response)


def _unsendable(name: str, topic: Topic, message: NewMessage) -> PublishError | None:
    """Why a message that keeps the contract asks for what this topic cannot do."""
    if message.deduplication_key is not None and (topic.aws is None or topic.aws.deduplication_table is None):
        problem = f"topic {name!r} has no deduplication ledger; add deduplication = true to it in the topology"
        return PublishError(code="InvalidDeduplication", message=problem)
    if message.deliver_after is not None:
        problem = "SNS holds no message back; publish it without deliver_after, or to a topic on a database"
        return PublishError(code="DelayUnsupported", message=problem)
    return None


def _answers(batch: Sequence[Entry], response: PublishBatchResponseTypeDef) -> _Answers:
    """SNS's answer, entry by entry: some may have failed although the call did not."""
    accepted = {entry["Id"] for entry in response.get("Successful", ()) if "Id" in entry}
    faults = {
        entry["Id"]: entry_error(entry["Code"], entry.get("Message", ""), sender_fault=entry["SenderFault"])
        for entry in response.get("Failed", ())
    }
    answers = {}
    for entry in batch:
        fault = faults.get(entry.id, _SILENT)
        message_id = entry.prepared.message.id
        result = (
            PublishResult(id=message_id, status="accepted") if entry.id in accepted else _rejected(message_id, fault)
        )
        answers[entry.position] = _Answer(result=result, is_certain=entry.id in faults)
    return answers


def _failed(batch: Iterable[Entry], error: AwsFault) -> _Answers:
    """The answers of a call that failed as a whole."""
    refused = publish_error(error)
    return {
        entry.position: _Answer(result=_rejected(entry.prepared.message.id, refused), is_certain=was_refused(error))
        for entry in batch
    }


def _is_unavailable(result: PublishResult) -> bool:
    return result.error is not None and result.error.code == "TransportUnavailable"


def _rejected(message_id: str | None, error: PublishError) -> PublishResult:
    return PublishResult(id=message_id, status="rejected", error=error)
