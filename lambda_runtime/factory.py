"""The handler factory: from a plain function to what Lambda calls with an SQS event."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools import Logger

from aws_transport.settlement import ClientOnFirstUse, SqsSettler
from lambda_runtime.batch import Batch
from lambda_runtime.emf import report_to_log
from lambda_runtime.environment import SUBSCRIPTION, Environment, read_environment
from lambda_runtime.equipment import Equipment
from lambda_runtime.figures import Figures
from lambda_runtime.invocation import Invocation, begin, usual_seconds
from lambda_runtime.processor import SqsProcessor
from lambda_runtime.records import Slot, lanes_of, read_delivery, record_id, records_of
from lambda_runtime.threads import EventLoops, Threads
from lambda_runtime.watch import Watch
from towpath import limits, payload
from towpath.context import Publish
from towpath.dispatch import Dispatcher
from towpath.errors import InvalidEnvironment, Unsupported
from towpath.frozen import Record
from towpath.function_settings import FunctionSettings
from towpath.handler import Handler, inspected, load
from towpath.message import NewMessage, PublishResult

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer
    from mypy_boto3_sqs import SQSClient

    from lambda_runtime.idempotency import Idempotency
    from lambda_runtime.tracing import Tracer

_DELETE_MARGIN: Final = timedelta(seconds=60)  # what Lambda gets to delete what is done, once it has its answer

LambdaHandler = Callable[[Any, Any], dict[str, Any]]


def sqs_handler(
    process: Callable[..., Any] | str,
    *,
    publish: Publish | None = None,
    idempotency: Idempotency | BasePersistenceLayer | None = None,
    tracer: Tracer | None = None,
) -> LambdaHandler:
    """What Lambda calls, made of ``process``: a handler, or its import path (``app.documents:process``).

    Make it once, at import. The settings come from the variables that a deployment of the manifest sets; a missing
    or wrong one raises ``InvalidEnvironment``, and what is no handler ``HandlerNotFound``: the cold start fails and no
    record is taken. ``publish`` is what ``context.publish`` calls (a transport's ``publish``). ``idempotency``, a
    persistence layer of Powertools or an ``Idempotency`` around one, has a message that was completed not run again.
    ``tracer``, Powertools' Tracer, gives each delivery a subsegment.

    The function answers Lambda with the ids of the records that must come again (``ReportBatchItemFailures``).
    """
    environment = read_environment(os.environ)
    handler = load(process) if isinstance(process, str) else inspected(process)
    return _started(environment, handler, publish=publish, idempotency=idempotency, tracer=tracer)


def own_handler(variables: Mapping[str, str]) -> LambdaHandler:
    """What Lambda calls, made of the handler that the subscription's own settings name. Raises as ``sqs_handler``."""
    environment = read_environment(variables)
    path = environment.settings.policy.handler
    if path is None:
        raise InvalidEnvironment(f"the function cannot start, {SUBSCRIPTION}: policy.handler names no handler")
    return _started(environment, load(path))


class Extras(metaclass=Record):
    """What a function may have besides its handler: see ``sqs_handler``. ``report`` is told each invocation's figures,
    ``on_begin`` Lambda's context at its start, ``end_process`` ends this process when nothing else can be done.
    """

    publish: Publish | None = None
    idempotency: Idempotency | BasePersistenceLayer | None = None
    tracer: Tracer | None = None
    report: Callable[[Figures], None] | None = None
    on_begin: tuple[Callable[[Any], None], ...] = ()
    end_process: Callable[[int], object] = os._exit


def _started(environment: Environment, handler: Handler, **given: Any) -> LambdaHandler:
    logger = Logger(service="towpath")  # the logger "towpath" writes JSON lines, and keeps them out of Lambda's own
    subscription = environment.settings.policy.subscription
    report = report_to_log(subscription, os.environ)
    client = ClientOnFirstUse(environment.endpoint, connections=environment.settings.concurrency + 2)  # the guard's

    def name_request(lambda_context: Any) -> None:
        logger.append_keys(function_request_id=getattr(lambda_context, "aws_request_id", None))

    extras = Extras(report=report, on_begin=(name_request,), **given)
    return function_for(environment, handler, extras, client).handle


def function_for(
    environment: Environment, handler: Handler, extras: Extras, client: Callable[[], SQSClient]
) -> Function:
    """The function that ``environment`` describes, over ``client``, which is not called before it is needed."""
    settings, loops, on_begin = environment.settings, EventLoops(), list(extras.on_begin)
    convert = payload.converter(handler.payload_type, handler.path)
    if extras.idempotency is not None:
        handler, told = _once(handler, extras.idempotency, settings.policy.subscription, loops)
        on_begin.append(told)
    if extras.tracer is not None and not extras.tracer.disabled:
        from lambda_runtime.tracing import Tracing

        tracing = Tracing(extras.tracer)
        handler = tracing.traced(handler)
        on_begin.append(tracing.begin)
    equipment = Equipment(
        dispatcher=Dispatcher(
            policy=settings.policy,
            handler=handler,
            convert=convert,
            publish=extras.publish if extras.publish is not None else _publish_nothing,
            log=logging.getLogger("towpath.handler"),
        ),
        settler=SqsSettler(
            client=client,
            queue_url=environment.queue_url,
            dead_letter_queue_url=environment.dead_letter_queue_url,
            receive_margin=timedelta(seconds=limits.ESM_BATCH_WINDOW_SECONDS),  # Lambda may have held it as long
            copy_hold=timedelta(seconds=settings.timeout_seconds) + _DELETE_MARGIN,
        ),
        threads=Threads(settings.concurrency),
        loops=loops,
        watch=Watch(time.monotonic, usual_seconds(settings.timeout_seconds, settings.policy.max_processing_seconds)),
        log=logging.getLogger("towpath.delivery"),
        end_process=extras.end_process,
        report=extras.report,
    )
    return Function(settings=settings, equipment=equipment, on_begin=tuple(on_begin))


def _once(
    handler: Handler, idempotency: Idempotency | BasePersistenceLayer, subscription: str, loops: EventLoops
) -> tuple[Handler, Callable[[Any], None]]:
    from lambda_runtime.idempotency import Idempotency, Idempotent

    chosen = idempotency if isinstance(idempotency, Idempotency) else Idempotency(persistence=idempotency)
    idempotent = Idempotent(chosen, subscription, loops.run)
    return idempotent.once(handler), idempotent.begin


class Function(metaclass=Record):
    """One Lambda function: its settings, what its invocations work with, and who is told that one begins."""

    settings: FunctionSettings
    equipment: Equipment
    on_begin: tuple[Callable[[Any], None], ...] = ()

    def handle(self, event: Any, context: Any) -> dict[str, Any]:
        """Handle one SQS event; the answer is Lambda's partial batch response. ``context`` may be ``None``."""
        records = records_of(event)
        for told in self.on_begin:
            told(context)
        equipment = self.equipment
        timeout, clock = self.settings.timeout_seconds, equipment.dispatcher.clock
        invocation = begin(records, context, timeout, clock, equipment.seconds)
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
