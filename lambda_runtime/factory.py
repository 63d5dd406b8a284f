"""The handler factory: from a plain function to what Lambda calls with an SQS event."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger

from aws_transport.settlement import ClientOnFirstUse, SqsSettler
from lambda_runtime.batch import Batch, Equipment
from lambda_runtime.environment import SUBSCRIPTION, Environment, read_environment
from lambda_runtime.invocation import Invocation, begin
from lambda_runtime.processor import SqsProcessor
from lambda_runtime.records import Slot, lanes_of, read_delivery, record_id, records_of
from lambda_runtime.threads import EventLoops, Threads
from towpath import limits, payload
from towpath.context import Publish
from towpath.dispatch import Dispatcher
from towpath.errors import InvalidEnvironment, Unsupported
from towpath.function_settings import FunctionSettings
from towpath.handler import Handler, inspected, load
from towpath.message import NewMessage, PublishResult

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

LambdaHandler = Callable[[Any, Any], dict[str, Any]]


def sqs_handler(process: Callable[..., Any] | str, *, publish: Publish | None = None) -> LambdaHandler:
    """What Lambda calls, made of ``process``: a handler, or its import path (``app.documents:process``).

    Make it once, at import. The settings come from the variables that a deployment of the manifest sets; a missing
    or wrong one raises ``InvalidEnvironment``, and what is no handler ``HandlerNotFound``: the cold start fails and no
    record is taken. ``publish`` is what ``context.publish`` calls (a transport's ``publish``).

    The function answers Lambda with the ids of the records that must come again (``ReportBatchItemFailures``).
    """
    environment = read_environment(os.environ)
    return _started(environment, load(process) if isinstance(process, str) else inspected(process), publish)


def own_handler(variables: Mapping[str, str]) -> LambdaHandler:
    """What Lambda calls, made of the handler that the subscription's own settings name. Raises as ``sqs_handler``."""
    environment = read_environment(variables)
    path = environment.settings.policy.handler
    if path is None:
        raise InvalidEnvironment(f"the function cannot start, {SUBSCRIPTION}: policy.handler names no handler")
    return _started(environment, load(path), None)


def _started(environment: Environment, handler: Handler, publish: Publish | None) -> LambdaHandler:
    Logger(service="towpath")  # gives the logger "towpath" its JSON lines, and keeps them out of Lambda's own
    client = ClientOnFirstUse(environment.endpoint, connections=environment.settings.concurrency)
    return function_for(environment, handler, publish if publish is not None else _publish_nothing, client).handle


def function_for(
    environment: Environment, handler: Handler, publish: Publish, client: Callable[[], SQSClient]
) -> Function:
    """The function that ``environment`` describes, over ``client``, which is not called before it is needed."""
    settings = environment.settings
    return Function(
        settings=settings,
        equipment=Equipment(
            dispatcher=Dispatcher(
                policy=settings.policy,
                handler=handler,
                convert=payload.converter(handler.payload_type, handler.path),
                publish=publish,
                log=logging.getLogger("towpath.handler"),
            ),
            settler=SqsSettler(
                client=client,
                queue_url=environment.queue_url,
                dead_letter_queue_url=environment.dead_letter_queue_url,
                receive_margin=timedelta(seconds=limits.ESM_BATCH_WINDOW_SECONDS),  # Lambda may have held it as long
            ),
            threads=Threads(settings.concurrency),
            loops=EventLoops(),
            log=logging.getLogger("towpath.delivery"),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One Lambda function: its settings, and what its invocations work with."""

    settings: FunctionSettings
    equipment: Equipment

    def handle(self, event: Any, context: Any) -> dict[str, Any]:
        """Handle one SQS event; the answer is Lambda's partial batch response. ``context`` may be ``None``."""
        records = records_of(event)
        invocation = begin(context, self.settings.timeout_seconds, self.equipment.dispatcher.clock)
        processor = SqsProcessor()
        with processor(records, lambda records: self._done(records, invocation)):
            processor.process()
        return dict(processor.response())

    def _done(self, records: Sequence[Any], invocation: Invocation) -> set[int]:
        slots = list(self._slots(records, invocation))
        lanes = lanes_of(slots, fifo=self.settings.fifo)
        return Batch(self.equipment, invocation, lanes).run()

    def _slots(self, records: Sequence[Any], invocation: Invocation) -> Iterator[Slot]:
        policy = self.settings.policy
        for position, record in enumerate(records):
            delivery = read_delivery(record, policy, invocation.started_at)
            if delivery is not None:
                yield Slot(position=position, delivery=delivery)
                continue
            extra = {"subscription": policy.subscription, "delivery_id": record_id(record), "position": position}
            self.equipment.log.error("a record lacks what every SQS record has, and cannot be handled", extra=extra)


def _publish_nothing(_topic: str, _messages: Sequence[NewMessage]) -> list[PublishResult]:
    raise Unsupported(
        "context.publish has nothing to publish with here; make the handler with sqs_handler(…, publish=…)"
    )
