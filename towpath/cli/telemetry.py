"""What a worker process tells of itself besides its log: metrics, where ``--metrics`` or the process that started it
asks for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from towpath.cli.endpoint import FOLDER_VARIABLE, Address, address
from towpath.observing import Observer, Standing
from towpath.ports import Transport

Source = Callable[[], Sequence[Standing]]
Begin = Callable[[Source, Transport], None]


class Telemetry:
    """``observer`` is for the worker; ``address`` is where its metrics are served. ``None`` where nobody asks."""

    def __init__(self, observer: Observer | None, address: Address | None, begin: Begin) -> None:
        self.observer = observer
        self.address = address
        self._begin = begin

    def begin(self, source: Source, transport: Transport) -> None:
        """The worker that ``source`` asks is about to serve subscriptions of ``transport``."""
        self._begin(source, transport)


@contextmanager
def telemetry(metrics: str | None) -> Iterator[Telemetry]:
    """For one worker, served at ``metrics``, an address as ``--metrics`` takes it; until the end.

    Without one, in a process that was started with ``SharedMetrics.environment``, for that one's files. Raises
    ``typer.BadParameter`` for what is no address, ``CannotServe``, and ``ModuleNotFoundError`` without the extra.
    """
    where = None if metrics is None else address(metrics)
    if where is not None:
        from towpath.cli.metrics import metrics_served

        with metrics_served(where) as (served, got):
            yield Telemetry(served.recorder, got, served.begin)
    elif os.environ.get(FOLDER_VARIABLE):
        with _recording() as recording:
            yield recording
    else:
        yield Telemetry(None, None, _nothing)


@contextmanager
def _recording() -> Iterator[Telemetry]:
    from prometheus_client import CollectorRegistry

    from towpath.cli.metrics import Recorder

    recorder = Recorder(CollectorRegistry())
    with ExitStack() as stack:

        def begin(source: Source, _: Transport) -> None:
            stack.enter_context(recorder.telling(source))

        yield Telemetry(recorder, None, begin)


def _nothing(_: Source, __: Transport) -> None:
    """Nobody asked."""
