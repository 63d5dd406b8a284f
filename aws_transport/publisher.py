"""Publishing through SNS: every message is checked, then sent in batches, and answered at its position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.batches import Entry, batches, request
from aws_transport.bindings import TopicBinding
from aws_transport.faults import code_of, entry_error, publish_error
from towpath.envelope import Prepared, Sources, prepare
from towpath.errors import Unsupported, did_you_mean
from towpath.manifest import AwsTopic, Topic
from towpath.message import NewMessage, PublishError, PublishResult
from towpath.validation import require_messages

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sns.type_defs import PublishBatchResponseTypeDef

_PARALLEL_BATCHES: Final = 8
_SILENT: Final = PublishError(code="TransportUnavailable", message="SNS's answer leaves this message out")

# Refusals of a whole batch for what one of its entries holds (Amazon SNS API reference, PublishBatch).
_ENTRY_FAULTS: Final = frozenset(
    {"BatchRequestTooLong", "InvalidParameter", "InvalidParameterValue", "ParameterValueInvalid", "ValidationException"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsPublisher:
    """``towpath.ports.Publisher`` on SNS. Keeps no state, so any number of threads may share one."""

    topics: Mapping[str, Topic]
    bindings: Mapping[str, TopicBinding]
    client: SNSClient
    sources: Sources

    def publish(
        self, topic: str, messages: Sequence[NewMessage], *, connection: object | None = None
    ) -> list[PublishResult]:
        """Publish ``messages`` to ``topic``: one result for each, at its position. A bad message rejects only itself.

        The batches are sent one after another on a FIFO topic, side by side on a standard one. An accepted message is
        with SNS, durably. One rejected with ``TransportUnavailable`` may have arrived all the same. Raises
        ``Unsupported`` for ``connection``: SNS takes part in no transaction.
        """
        if connection is not None:
            raise Unsupported("publish(connection=...) needs a database transport: SNS takes part in no transaction")
        require_messages(messages)
        results: dict[int, PublishResult] = {}
        entries: list[Entry] = []
        for position, message in enumerate(messages):
            checked = self._checked(topic, message)
            if isinstance(checked, Prepared):
                entries.append(Entry(position=position, prepared=checked))
            else:
                results[position] = checked
        if entries:
            results |= self._send(topic, entries)
        return [results[position] for position in range(len(messages))]

    def _checked(self, name: str, message: NewMessage) -> Prepared | PublishResult:
        """What can be said without AWS: the message ready to be sent, or its rejection."""
        topic = self.topics.get(name)
        if topic is None or topic.aws is None:
            return _rejected(None, PublishError(code="TopicNotFound", message=self._not_here(name)))
        if topic.status == "disabled":
            return _rejected(None, PublishError(code="TopicDisabled", message=f"topic {name!r} is disabled"))
        prepared = prepare(name, message, topic.max_payload_bytes, self.sources)
        if isinstance(prepared, PublishError):
            return _rejected(None, prepared)
        fault = _unsendable(name, topic, message)
        if fault is None and name not in self.bindings:
            problem = f"topic {name!r} has no bindings: deploy the manifest, and give the bindings of that deployment"
            fault = PublishError(code="TopicUnbound", message=problem)
        return prepared if fault is None else _rejected(prepared.message.id, fault)

    def _not_here(self, name: str) -> str:
        if name in self.topics:
            return f"there is no topic {name!r} on AWS: the manifest puts it on a database"
        on_aws = (known for known, topic in self.topics.items() if topic.aws is not None)
        return f"there is no topic {name!r} in this manifest{did_you_mean(name, on_aws)}"

    def _send(self, name: str, entries: Sequence[Entry]) -> dict[int, PublishResult]:
        arn, topic = self.bindings[name].arn, self.topics[name].aws
        if topic is None:
            raise AssertionError("only messages to topics on AWS are sent")

        def send(batch: Sequence[Entry]) -> dict[int, PublishResult]:
            return self._send_batch(arn, topic, batch)

        return _merged(_each(send, list(batches(entries)), parallel=1 if topic.fifo else _PARALLEL_BATCHES))

    def _send_batch(self, arn: str, topic: AwsTopic, batch: Sequence[Entry]) -> dict[int, PublishResult]:
        try:
            response = self.client.publish_batch(
                TopicArn=arn, PublishBatchRequestEntries=[request(entry, topic) for entry in batch]
            )
        except ClientError as error:
            if len(batch) > 1 and code_of(error) in _ENTRY_FAULTS:  # one of them is bad: each alone says which
                return _merged(self._send_batch(arn, topic, [entry]) for entry in batch)
            refused = publish_error(error)
        except BotoCoreError as error:
            refused = publish_error(error)
        else:
            return _answers(batch, response)
        return {entry.position: _rejected(entry.prepared.message.id, refused) for entry in batch}


def _unsendable(name: str, topic: Topic, message: NewMessage) -> PublishError | None:
    """Why a message that keeps the contract asks for what this topic cannot do."""
    if message.deduplication_key is not None:
        problem = (
            f"topic {name!r} has a deduplication ledger, which this version does not use on AWS yet; leave the key out"
            if topic.deduplication.enabled
            else f"topic {name!r} has no deduplication ledger; add deduplication = true to it in the topology"
        )
        return PublishError(code="InvalidDeduplication", message=problem)
    if message.deliver_after is not None:
        problem = "SNS holds no message back; publish it without deliver_after, or to a topic on a database"
        return PublishError(code="DelayUnsupported", message=problem)
    return None


def _answers(batch: Sequence[Entry], response: PublishBatchResponseTypeDef) -> dict[int, PublishResult]:
    """SNS's answer, entry by entry: some may have failed although the call did not."""
    accepted = {entry["Id"] for entry in response["Successful"] if "Id" in entry}
    faults = {
        entry["Id"]: entry_error(entry["Code"], entry.get("Message", ""), sender_fault=entry["SenderFault"])
        for entry in response["Failed"]
    }
    return {
        entry.position: PublishResult(id=entry.prepared.message.id, status="accepted")
        if entry.id in accepted
        else _rejected(entry.prepared.message.id, faults.get(entry.id, _SILENT))
        for entry in batch
    }


def _each(
    send: Callable[[Sequence[Entry]], dict[int, PublishResult]], parts: Sequence[Sequence[Entry]], *, parallel: int
) -> Iterator[dict[int, PublishResult]]:
    """``send`` for each batch, at most ``parallel`` at once."""
    threads = min(parallel, len(parts))
    if threads == 1:
        yield from map(send, parts)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="towpath-publish") as pool:
        yield from pool.map(send, parts)


def _merged(answers: Iterator[dict[int, PublishResult]]) -> dict[int, PublishResult]:
    return {position: result for answer in answers for position, result in answer.items()}


def _rejected(message_id: str | None, error: PublishError) -> PublishResult:
    return PublishResult(id=message_id, status="rejected", error=error)
