"""One X-Ray subsegment for each delivery, by the Powertools Tracer that a function was made with."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Protocol

from towpath.context import Context
from towpath.handler import Handler
from towpath.message import Message


class Subsegment(Protocol):
    """A part of a trace."""

    def put_annotation(self, key: str, value: Any) -> object:
        """Note something that traces can be searched by."""


class Provider(Protocol):
    """What a Tracer writes with: X-Ray's recorder. What is open now is each thread's own."""

    def in_subsegment(self, name: str) -> AbstractContextManager[Any]:
        """Open a subsegment below what is open in this thread, until the block ends."""

    def get_trace_entity(self) -> Any:
        """What is open in this thread."""

    def set_trace_entity(self, trace_entity: Any) -> object:
        """Have this be open in this thread."""


class Tracer(Protocol):
    """``aws_lambda_powertools.Tracer``."""

    @property
    def provider(self) -> Any:
        """What it writes with; a ``Provider``."""

    @property
    def disabled(self) -> bool:
        """Whether it writes nothing."""


class Tracing:
    """Wraps handlers; told of each invocation before it begins."""

    def __init__(self, tracer: Tracer) -> None:
        self._provider: Provider = tracer.provider
        self._entity: Any = None
        self._thread: int | None = None

    def begin(self, lambda_context: object) -> None:  # noqa: ARG002 - told of each, whatever it is
        """Remember what is open in the thread that Lambda calls: subsegments of other threads go below it."""
        self._entity = self._provider.get_trace_entity()
        self._thread = threading.get_ident()

    def traced(self, handler: Handler) -> Handler:
        """``handler`` with a subsegment around each call, which has the delivery's ids and what it raised."""
        function = handler.function

        @functools.wraps(function)
        def run(message: Message[Any], context: Any) -> Any:
            with self._subsegment(message, context):
                return function(message, context)

        @functools.wraps(function)
        async def run_async(message: Message[Any], context: Any) -> Any:
            with self._subsegment(message, context):
                return await function(message, context)

        wrapped: Callable[..., Any] = run_async if inspect.iscoroutinefunction(function) else run
        return replace(handler, function=wrapped)

    @contextmanager
    def _subsegment(self, message: Message[Any], context: Context) -> Iterator[None]:
        if threading.get_ident() != self._thread:
            self._provider.set_trace_entity(self._entity)
        with self._provider.in_subsegment(f"## {context.subscription}") as opened:
            part: Subsegment | None = opened  # there is none where no trace is open
            if part is not None:
                part.put_annotation("subscription", context.subscription)
                part.put_annotation("message_id", message.id)
                part.put_annotation("correlation_id", message.correlation_id)
                part.put_annotation("attempt", context.attempt)
            yield
