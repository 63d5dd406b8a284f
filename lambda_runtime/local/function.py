"""A handler as a Lambda function with its queues and its mapping, in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from lambda_runtime.environment import Environment
from lambda_runtime.factory import Extras, Function, function_for
from lambda_runtime.invocation import usual_seconds
from lambda_runtime.local.client import LocalSqs
from lambda_runtime.local.consumers import ConsumerSource
from lambda_runtime.local.mapping import Invocation, LocalMapping, MappingSettings, Source
from lambda_runtime.local.queue import LocalQueue, Sent
from lambda_runtime.watch import Watch
from towpath import limits
from towpath.context import Publish
from towpath.envelope import Origin, Sources, decode, prepare
from towpath.errors import InvalidEnvelope, TowpathError, Unsupported, UnsupportedSchema
from towpath.handler import Handler, inspected, load
from towpath.message import NewMessage, PublishError
from towpath.operating import DeadLetterEntry
from towpath.ports import Consumer
from towpath.testing import LambdaSettings, LocalClock

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_QUEUES: Final = "https://sqs.eu-west-1.amazonaws.com/000000000000/"
_ENDED: Final = "a handler ignored its abort, so that the function's process ended with no answer"
_NOTE: Final = "towpath-dead-letter"


class FunctionEnded(TowpathError):
    """A handler ignored its abort, so that the function's process would have ended with no answer.

    What to do: have the handler call ``context.check()`` more often, or give the function more time.
    """


class LocalFunction:
    """See ``towpath.testing.LocalLambda``, whose entry point this is."""

    def __init__(
        self,
        process: Callable[..., Any] | str,
        settings: LambdaSettings,
        *,
        publish: Publish | None = None,
        consumer: Consumer | None = None,
        clock: LocalClock | None = None,
    ) -> None:
        self.clock = clock if clock is not None else LocalClock()
        self.settings = settings
        fifo = settings.function.fifo
        self.dead_letter_queue = LocalQueue(self.clock, fifo=fifo)
        self.queue = LocalQueue(
            self.clock,
            fifo=fifo,
            visibility_seconds=settings.visibility_seconds,
            max_receive_count=settings.max_receive_count,
            redrive=self.dead_letter_queue.send,
        )
        self._consumer = consumer
        self._ended = False
        handler = load(process) if isinstance(process, str) else inspected(process)
        source = None if consumer is None else ConsumerSource(consumer, lambda: self._ended)
        self._function = self._made(handler, publish, source)
        self._source: Source = self.queue if source is None else source
        self._mappings = [self._mapped()]

    def send(self, *messages: NewMessage) -> list[str]:
        """Put messages into the queue as publishing would. Answers their ids; raises ``ValueError`` for a bad one."""
        topic = self.settings.function.policy.topic
        sources = Sources(clock=self.clock.now, random_bytes=os.urandom)
        ids = []
        for new in messages:
            prepared = prepare(topic, new, limits.MAX_MESSAGE_BYTES, sources)
            if isinstance(prepared, PublishError):
                raise ValueError(f"{prepared.code}: {prepared.message}")  # noqa: TRY004 - of a right type
            message = prepared.message
            self._put(Sent(body=prepared.body, group_id=self._group(message.partition_key or message.id)))
            ids.append(message.id)
        return ids

    def send_body(self, body: str, *, group_id: str | None = None) -> str:
        """Put any text into the queue, as another producer does. Answers the id that SQS gave it."""
        sent = Sent(body=body, group_id=group_id)
        self._put(sent if group_id is not None else replace(sent, group_id=self._group(sent.id)))
        return sent.id

    def run(self, *, pollers: int = 1) -> list[Invocation]:
        """Call the function, batch after batch, until no message is visible. ``pollers`` invocations run at a time."""
        while len(self._mappings) < pollers:
            self._mappings.append(self._mapped())
        if pollers == 1:
            return self._mappings[0].run()
        with ThreadPoolExecutor(pollers) as pool:
            parts = pool.map(lambda mapping: mapping.run(), self._mappings[:pollers])
            return [invocation for part in parts for invocation in part]

    def advance(self, seconds: float) -> None:
        """Move time on."""
        self.clock.advance(seconds)

    @property
    def is_ended(self) -> bool:
        """Whether the function's process would have ended by now, in the invocation that is under way."""
        return self._ended

    @property
    def waiting(self) -> int:
        """How many messages the queue holds, hidden ones with them."""
        return len(self.queue.messages)

    @property
    def dead_letters(self) -> list[DeadLetterEntry]:
        """The messages on the dead-letter queue, in the order in which they came there."""
        return [self._entry(sent) for sent in self.dead_letter_queue.messages]

    def _made(self, handler: Handler, publish: Publish | None, source: ConsumerSource | None) -> Function:
        suffix = ".fifo" if self.settings.function.fifo else ""
        environment = Environment(
            settings=self.settings.function,
            queue_url=f"{_QUEUES}local{suffix}",
            dead_letter_queue_url=f"{_QUEUES}local-dlq{suffix}",
            endpoint=None,
        )
        queues = {environment.queue_url: self.queue, environment.dead_letter_queue_url: self.dead_letter_queue}
        sqs = LocalSqs(queues)
        extras = Extras(publish=publish, end_process=self._end)

        def client() -> SQSClient:
            if self._ended:  # whatever still runs of a process that would have ended reaches nobody
                raise FunctionEnded(_ENDED)
            return cast("SQSClient", sqs)

        made = function_for(environment, handler, extras, client)
        equipment, timeout = made.equipment, self.settings.function.timeout_seconds
        own_settler = replace(cast("Any", equipment.settler), clock=self.clock.now)
        changed = replace(
            equipment,
            dispatcher=replace(equipment.dispatcher, clock=self.clock.now),
            settler=own_settler if source is None else source,
            seconds=self.clock.seconds,
            watch=Watch(self.clock.seconds, usual_seconds(timeout, equipment.dispatcher.policy.max_processing_seconds)),
        )
        return replace(made, equipment=changed)

    def _mapped(self) -> LocalMapping:
        settings = MappingSettings(
            batch_size=self.settings.batch_size,
            batch_window_seconds=self.settings.batch_window_seconds,
            reports_item_failures=self.settings.reports_item_failures,
            timeout_seconds=self.settings.function.timeout_seconds,
        )
        return LocalMapping(self._source, self.handle, settings, self.clock)

    def handle(self, event: Any, context: Any) -> Any:
        """Call the function by itself, as Lambda does. Raises ``FunctionEnded`` where its process would have ended."""
        answer = self._function.handle(event, context)
        if self._ended:
            self._ended = False
            raise FunctionEnded(_ENDED)
        return answer

    def _end(self, exit_code: int) -> None:  # noqa: ARG002 - the process lives on here, whatever its code
        self._ended = True

    def _put(self, sent: Sent) -> None:
        if self._consumer is not None:
            raise Unsupported("the messages come from a consumer here; publish them to its transport")
        self.queue.send(sent)

    def _group(self, key: str) -> str | None:
        return key if self.settings.function.fifo else None

    def _entry(self, sent: Sent) -> DeadLetterEntry:
        carried = sent.attributes.get(_NOTE)
        note = json.loads(carried.value) if carried is not None else {}
        at = datetime.fromisoformat(note["time"]) if note else datetime.fromtimestamp(0, UTC)
        return DeadLetterEntry(
            delivery_id=sent.id,
            subscription=self.settings.function.policy.subscription,
            message_id=self._message_id(sent),
            reason=note.get("reason", "MaxReceivesExceeded"),
            error=note.get("error", "SQS set it aside"),
            attempts=note.get("attempts", self.settings.max_receive_count),
            dead_since=at,
            body=sent.body,
        )

    def _message_id(self, sent: Sent) -> str:
        topic = self.settings.function.policy.topic
        try:
            return decode(
                sent.body, Origin(message_id=sent.id, topic=topic, received_at=datetime.fromtimestamp(0, UTC))
            ).id
        except (InvalidEnvelope, UnsupportedSchema):
            return sent.id
