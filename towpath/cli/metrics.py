"""A worker's figures as Prometheus metrics. Imported only where ``--metrics`` asks for them.

Counts, durations and ages come from the worker as it settles, the backlog from the transport's operator when somebody
looks. Labels name subscriptions, topics, endings and states, of which there are few; never a key, an id or a payload.
"""

from __future__ import annotations

import platform
import tempfile
import threading
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final, get_args

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from towpath.cli.backlogs import Backlogs
from towpath.cli.endpoint import FOLDER_VARIABLE, Address, Health, health, serving
from towpath.observing import ENDINGS, Ended, Standing, State
from towpath.ports import Operator

_MULTIPROCESS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"  # prometheus-client's own; read when it is imported
_OF_SUBSCRIPTION: Final = ("subscription", "topic")
_DURATIONS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
_AGES: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400)
_STATE: Final = "towpath_worker_state"
_TELL_SECONDS: Final = 1.0  # how often a process of several tells how it stands

# prometheus-client has no types for these.
_leave_out_created: Final[Callable[[], None]] = disable_created_metrics
_forget: Final[Callable[[int, str], None]] = mark_process_dead
_merge: Final[Callable[[Sequence[str]], Iterable[Metric]]] = MultiProcessCollector.merge

Source = Callable[[], Sequence[Standing]]


class Recorder:
    """``Observer`` that counts into a registry, or, in one of several processes, into the files that they share.

    An observation is a lock and an addition; a batch's endings are counted together.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._settled = Counter(
            "towpath_deliveries_total",
            "Deliveries that the worker was done with, by what became of them.",
            (*_OF_SUBSCRIPTION, "outcome"),
            registry=registry,
        )
        self._lost = Counter(
            "towpath_leases_lost_total",
            "Deliveries whose lease was lost before they were settled: another worker handles them too.",
            _OF_SUBSCRIPTION,
            registry=registry,
        )
        self._durations = Histogram(
            "towpath_handler_duration_seconds",
            "Time that the handler took for a delivery, whatever came of it.",
            _OF_SUBSCRIPTION,
            buckets=_DURATIONS,
            registry=registry,
        )
        self._ages = Histogram(
            "towpath_age_at_start_seconds",
            "Time from publishing, or the end of the delay, to the start of the handler: first attempts only.",
            _OF_SUBSCRIPTION,
            buckets=_AGES,
            registry=registry,
        )
        self._in_flight = Gauge(
            "towpath_deliveries_in_flight",
            "Deliveries in the worker's hands now: claimed and not settled.",
            _OF_SUBSCRIPTION,
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._state = Gauge(
            _STATE,
            "Worker processes that are in this state with the subscription.",
            (*_OF_SUBSCRIPTION, "state"),
            multiprocess_mode="livesum",
            registry=registry,
        )

    def settled(self, subscription: str, topic: str, ended: Sequence[Ended]) -> None:
        """Count a batch. Thread-safe."""
        for ending, count in Tally(one.ending for one in ended).items():
            self._settled.labels(subscription, topic, ending).inc(count)
            if ending == "lease_lost":
                self._lost.labels(subscription, topic).inc(count)
        durations, ages = self._durations.labels(subscription, topic), self._ages.labels(subscription, topic)
        for one in ended:
            if one.duration is not None:
                durations.observe(one.duration)
            if one.age is not None:
                ages.observe(one.age)

    def stands(self, standings: Iterable[Standing]) -> None:
        """Tell how the worker stands now. Every series is there from the first time on, so that a rate has a start."""
        for standing in standings:
            labels = (standing.subscription, standing.topic)
            for ending in ENDINGS:
                self._settled.labels(*labels, ending).inc(0)
            for counted in (self._lost, self._durations, self._ages):
                counted.labels(*labels)
            self._in_flight.labels(*labels).set(standing.in_flight)
            for state in get_args(State):
                self._state.labels(*labels, state).set(standing.state == state)

    @contextmanager
    def telling(self, source: Source) -> Iterator[None]:
        """Tell each second how the worker stands that ``source`` asks: in one of several processes, where nobody can
        ask when somebody looks.
        """
        ended = threading.Event()

        def tell() -> None:
            while True:
                self.stands(source())
                if ended.wait(_TELL_SECONDS):
                    return

        thread = threading.Thread(target=tell, name="towpath-metrics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


class _Figures:
    """Collector of what is read when somebody looks: the backlog, and what was built."""

    def __init__(self, source: Source, operator: Callable[[], Operator]) -> None:
        self._source = source
        self._backlogs = Backlogs(operator, self._topics, time.monotonic)

    def _topics(self) -> dict[str, str]:
        """Of each subscription that is served now."""
        return {standing.subscription: standing.topic for standing in self._source()}

    def collect(self) -> Iterator[Metric]:
        """Without figures of the backlog where there are none that are new enough; then ``up`` is 0."""
        build = GaugeMetricFamily(
            "towpath_build_info", "Always 1; the labels say what runs.", labels=("version", "python")
        )
        build.add_metric((version("towpath"), platform.python_version()), 1)
        yield build
        rows, topics = self._backlogs.current(), self._topics()
        labels = (*_OF_SUBSCRIPTION, "state")
        count = GaugeMetricFamily(
            "towpath_backlog_deliveries",
            "Deliveries that could start now, one for each free key where keys bind, and that are with any worker.",
            labels=labels,
        )
        capped = GaugeMetricFamily(
            "towpath_backlog_capped", "1 where the count goes no further, so that there may be more.", labels=labels
        )
        for row in rows or ():
            of_subscription = (row.subscription, topics.get(row.subscription, ""))
            for state, amount, is_capped in (
                ("claimable", row.claimable, row.claimable_capped),
                ("in_flight", row.in_flight, row.in_flight_capped),
            ):
                count.add_metric((*of_subscription, state), amount)
                capped.add_metric((*of_subscription, state), is_capped)
        up = GaugeMetricFamily("towpath_backlog_up", "1 while the transport answers with the backlog, else 0.")
        up.add_metric((), rows is not None)
        yield from (count, capped, up)


class Metrics:
    """What the endpoint answers: ``Answers`` over a registry and where the worker's standing comes from."""

    def __init__(self, registry: CollectorRegistry, recorder: Recorder | None = None) -> None:
        _leave_out_created()
        self.recorder = recorder
        self._registry = registry
        self._source: Source = tuple

    def begin(self, source: Source, operator: Callable[[], Operator]) -> None:
        """From now on tell of the worker that ``source`` asks, and of the backlog of what it serves.

        The ``operator`` is asked for with each look at that, on a thread of its own.
        """
        self._registry.register(_Figures(source, operator))
        self._source = source

    def metrics(self, accept: str) -> tuple[str, bytes]:
        """See ``Answers``."""
        if self.recorder is not None:
            self.recorder.stands(self._source())
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self._registry)

    def health(self) -> Health:
        """See ``Answers``."""
        return health(self._source())


# --- One process -------------------------------------------------------------------------------------------------


@contextmanager
def metrics_served(where: Address) -> Iterator[tuple[Metrics, Address]]:
    """Serve the metrics of a worker in this process, with what its handlers count in prometheus-client's own registry.

    Raises ``CannotServe``. Until ``Metrics.begin`` the worker counts as starting.
    """
    registry = CollectorRegistry()
    registry.register(REGISTRY)
    metrics = Metrics(registry, Recorder(registry))
    with serving(where, metrics) as got:
        yield metrics, got


# --- Several processes -------------------------------------------------------------------------------------------


class SharedMetrics:
    """The metrics of several worker processes, which write them to files that this one reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._metrics = Metrics(self._registry)

    @property
    def answers(self) -> Metrics:
        """What the endpoint serves."""
        return self._metrics

    @property
    def environment(self) -> dict[str, str]:
        """The variables that each worker process is started with."""
        return {FOLDER_VARIABLE: str(self._folder), _MULTIPROCESS_VARIABLE: str(self._folder)}

    def begin(self, operator: Callable[[], Operator]) -> None:
        """From now on tell of the processes and of the backlog of what they serve; see ``Metrics.begin``."""
        self._metrics.begin(self.standings, operator)

    def collect(self) -> Iterable[Metric]:
        """What all processes have written, added up. A file that one has just begun is left out."""
        return _merge([str(file) for file in self._folder.glob("*.db") if _size(file)])

    def ended(self, process: int) -> None:
        """A worker process has ended: what it counted stays, how it stood does not."""
        _forget(process, str(self._folder))

    def standings(self) -> list[Standing]:
        """How the processes stand, one for each state that a subscription is in; what is in flight is not told."""
        return [
            Standing(
                subscription=sample.labels["subscription"],
                topic=sample.labels["topic"],
                state=state,
                in_flight=0,
            )
            for metric in self.collect()
            if metric.name == _STATE
            for sample in metric.samples
            for state in get_args(State)
            if sample.value > 0 and sample.labels["state"] == state
        ]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # of a process that has just ended
        return 0


@contextmanager
def shared_metrics(where: Address) -> Iterator[tuple[SharedMetrics, Address]]:
    """Serve the metrics of worker processes that are started with ``SharedMetrics.environment``, all added up.

    Raises ``CannotServe``. Their files go at the end.
    """
    with tempfile.TemporaryDirectory(prefix="towpath-metrics-", ignore_cleanup_errors=True) as folder:
        shared = SharedMetrics(Path(folder))
        with serving(where, shared.answers) as got:
            yield shared, got
