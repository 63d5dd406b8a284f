"""A transport for tests of the worker that lives in memory, and ways to run a worker on it."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from towpath.errors import SubscriptionNotFound
from towpath.settlement import Completion, Delivery, Release, Retrial, Settled, SubscriptionPolicy
from towpath.worker import Counts, Worker, WorkerOptions

PATIENCE = 20.0
NAME = "documents.convert"
ONCE = WorkerOptions(concurrency=4, once=True)


def delivery(number: int, body: str = "{}", subscription: str = NAME) -> Delivery:
    """Like those of the database: the first claim of each has the token 1."""
    return Delivery(
        id=f"d-{number}",
        subscription=subscription,
        topic="documents.process",
        attempt=1,
        message_id=f"m-{number}",
        body=body,
        lease_token="1",
        received_at=datetime(2026, 1, 31, tzinfo=UTC),
    )


class FakeConsumer:
    """Hands out what was put in, and remembers how each was settled. ``faults`` are raised by the next receives."""

    def __init__(self):
        self.ready: deque[Delivery] = deque()
        self.faults: list[BaseException] = []
        self.receives: list[tuple[int, timedelta]] = []
        self.calls: list[tuple[str, list[str]]] = []
        self.extend_answer = Settled(state="leased")
        self.answers: dict[str, object] = {}
        self.on_receive: Callable[[], None] = lambda: None
        self.on_settle: Callable[[], None] = lambda: None
        self.closed = False
        self.stopped = False
        self.ends_receives = False
        self._changed = threading.Condition()

    def put(self, *deliveries: Delivery) -> None:
        with self._changed:
            self.ready.extend(deliveries)
            self._changed.notify_all()

    def clear(self) -> None:
        with self._changed:  # a receive takes what it has counted
            self.ready.clear()

    def receive(self, limit, wait):
        assert not self.closed
        self.receives.append((limit, wait))
        self.on_receive()
        if self.faults:
            raise self.faults.pop(0)
        most = wait.total_seconds() if self.ends_receives else 0.02  # a wait may end early: no test waits for a stop
        with self._changed:
            self._changed.wait_for(lambda: self.ready or self.stopped, min(wait.total_seconds(), most))
            return [self.ready.popleft() for _ in range(min(limit, len(self.ready)))]

    def extend(self, extensions):
        return [self.extend_answer] * len(extensions)

    def _settle(self, kind, decisions, state):
        assert not self.closed
        self.on_settle()
        self.calls.append((kind, [decision.delivery.id for decision in decisions]))
        answers = [self.answers.get(decision.delivery.id, Settled(state=state)) for decision in decisions]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def complete(self, completions: list[Completion]):
        return self._settle("complete", completions, "completed")

    def retry(self, retrials: list[Retrial]):
        answers = self._settle("retry", retrials, "pending")
        again = [replace(r.delivery, attempt=r.delivery.attempt + 1) for r in retrials if r.delay == timedelta(0)]
        self.put(*again)
        return answers

    def dead_letter(self, letters):
        return self._settle("dead_letter", letters, "dead")

    def discard(self, discards):
        return self._settle("discard", discards, "discarded")

    def release(self, releases: list[Release]):
        return self._settle("release", releases, "pending")

    def acknowledge_cancel(self, acknowledgements):
        return self._settle("acknowledge", acknowledgements, "discarded")

    def stop_receiving(self):
        with self._changed:
            self.stopped = True
            self._changed.notify_all()

    def close(self):
        self.closed = True

    @property
    def settled(self) -> list[tuple[str, str]]:
        return sorted((kind, one) for kind, ids in self.calls for one in ids)


class FakeTransport:
    """Serves the subscriptions of the given handlers."""

    capabilities = frozenset({"exact_backlog"})

    def __init__(self, policies: dict[str, SubscriptionPolicy]):
        self._policies = policies
        self.consumers: dict[str, FakeConsumer] = {}
        for name in policies:
            self.renew_consumer(name)
        self.consumers_asked_for: list[str] = []
        self.fault_of_consumers: Exception | None = None

    def renew_consumer_of(self, policy: SubscriptionPolicy) -> None:
        """A new one, as the old one is closed."""
        self.consumers[policy.subscription] = FakeConsumer()
        self.consumers[policy.subscription].policy = policy

    def renew_consumer(self, name: str) -> None:
        self.consumers[name] = FakeConsumer()
        self.consumers[name].policy = self._policies[name]

    def policies(self):
        return self._policies

    def consumer(self, subscription):
        if subscription not in self.consumers:
            raise SubscriptionNotFound(subscription, "only others are there")
        if self.fault_of_consumers is not None:
            raise self.fault_of_consumers
        self.consumers_asked_for.append(subscription)
        return self.consumers[subscription]

    def publish(self, topic, messages, *, connection=None):
        return []


class SweptTransport(FakeTransport):
    """A transport with housekeeping to do."""

    def __init__(self, policies):
        super().__init__(policies)
        self.swept = threading.Event()
        self.fault: Exception | None = None
        self.on_sweep: Callable[[], None] = lambda: None

    def sweep(self):
        self.on_sweep()
        self.swept.set()
        if self.fault is not None:
            raise self.fault
        return 0


def run(transport: FakeTransport, options: WorkerOptions = ONCE) -> Counts:
    return Worker(transport, list(transport.policies()), options).run()


@contextmanager
def running(
    transport: FakeTransport, options: WorkerOptions, *, names: list[str] | None = None
) -> Iterator[tuple[Worker, "Future[Counts]"]]:
    """A worker in a thread of its own. It is aborted at the end, whatever happened."""
    worker = Worker(transport, names or list(transport.policies()), options)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(worker.run)
        try:
            yield worker, future
        finally:
            worker.abort()


def eventually(condition: Callable[[], object]) -> bool:
    """Whether ``condition`` comes true in time."""
    looked = threading.Event()
    return any(condition() or looked.wait(0.01) for _ in range(int(100 * PATIENCE)))
