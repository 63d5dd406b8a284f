"""What a worker process tells of itself besides its log: metrics, where ``--metrics`` or the process that started it
asks for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial

from towpath.cli.endpoint import FOLDER_VARIABLE, Address, address
from towpath.observing import Observer, Standing
from towpath.ports import Operator, Transport

Source = Callable[[], Sequence[Standing]]
Begin = Callable[[Source, Callable[[], Operator]], None]


class Telemetry:
    """``observer`` is for the worker; ``address`` is where its metrics are served. ``None`` where nobody asks."""

    def __init__(self, observer: Observer | None, address: Address | None, begin: Begin) -> None:
        self.observer = observer
        self.address = address
        self._begin = begin

    @property
    def where(self) -> str:
        """For people, to be added to a sentence."""
        return _where(self.address)

    def begin(self, source: Source, transport: Transport) -> None:
        """The worker that ``source`` asks is about to serve subscriptions of ``transport``."""
        self._begin(source, transport.operator)


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

        def begin(source: Source, _: Callable[[], Operator]) -> None:
            stack.enter_context(recorder.telling(source))

        yield Telemetry(recorder, None, begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryOfProcesses:
    """For several worker processes, by the one that starts them. ``environment`` is each one's; ``begin`` takes what
    opens a transport to ask for the backlog; ``ended`` the id of a process that is no more; ``where`` is for people.
    """

    environment: Mapping[str, str]
    begin: Callable[[Callable[[], Transport]], None]
    ended: Callable[[int], None]
    where: str


@contextmanager
def telemetry_of_processes(metrics: str | None) -> Iterator[TelemetryOfProcesses]:
    """Added up and served at ``metrics``, as ``--metrics`` takes it, until the end. Raises as ``telemetry``."""
    if metrics is None:
        yield TelemetryOfProcesses(environment={}, begin=_nothing, ended=_nothing, where="")
        return
    from towpath.cli.metrics import SharedMetrics, shared_metrics

    def begin(stack: ExitStack, shared: SharedMetrics, connect: Callable[[], Transport]) -> None:
        shared.begin(stack.enter_context(closing(_OnUse(connect))))

    with ExitStack() as stack, shared_metrics(address(metrics)) as (shared, got):
        yield TelemetryOfProcesses(
            environment=shared.environment,
            begin=partial(begin, stack, shared),
            ended=shared.ended,
            where=_where(got),
        )


class _OnUse:
    """The operator of a transport that is opened when it is first asked for, by one thread at a time; a call that fails
    tries again at the next. What starts processes needs the transport for nothing else, so it waits for none.
    """

    def __init__(self, connect: Callable[[], Transport]) -> None:
        self._connect = connect
        self._transport: Transport | None = None

    def __call__(self) -> Operator:
        if self._transport is None:
            self._transport = self._connect()
        return self._transport.operator()

    def close(self) -> None:
        """Close it, if it was opened."""
        if self._transport is not None:
            self._transport.close()


def _where(served: Address | None) -> str:
    return "" if served is None else f"; metrics on http://{served}/metrics"


def _nothing(*_: object) -> None:
    """Nobody asked."""
