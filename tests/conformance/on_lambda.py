"""The harness of real functions, deployed from a bundled zip: SNS, SQS and Lambda on LocalStack or on AWS."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.harness import (
    DRAIN_PATIENCE,
    PATIENCE,
    SHORT_LIVED,
    Observation,
    Running,
    chosen,
    eventually,
    manifest_of,
    opened_on,
    sending,
    with_tables,
)
from tests.conformance.observers import Observer, observing
from tests.conformance.pollers import Pollers
from tests.servers.ledger_time import age_keys
from tests.servers.localstack import Aws
from tests.servers.provision import Deployment, provisioned
from tests.servers.real_aws import RealAws
from towpath import NewMessage, PublishResult
from towpath.manifest import Manifest
from towpath.ports import Capability, DeadLetterEntry, Operator, Transport


@dataclass(kw_only=True)
class LambdaRunning:
    """Handlers run in Lambda functions, which nobody has to start: working is waiting for them.

    But for ``pollers`` of the suite's own: they begin with the first wait, when all that was published is there.
    """

    transport: Transport
    sqs: Any
    observer: Observer
    queue_urls: list[str]
    max_attempts: Mapping[str, int]  # by subscription
    put: Callable[[str, str], None]
    age_keys: Callable[[float], None]
    quiet_seconds: float
    pollers: Pollers | None = None
    seen: list[Observation] = field(default_factory=list)
    published: int = 0

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.transport.capabilities

    @property
    def operator(self) -> Operator:
        return self.transport.operator()

    def publish(self, topic: str, *messages: NewMessage) -> list[PublishResult]:
        results = [
            r for i in range(0, len(messages), 100) for r in self.transport.publish(topic, messages[i : i + 100])
        ]
        assert [r.error for r in results if r.error] == []
        self.published += len(results)
        return results

    def work(self, handled: int = 0) -> None:
        """Wait until no message is visible, and none is with a function, for a while.

        A message that is neither is one that hides for its retry: its last report says so.
        """
        self._begin()
        deadline = time.monotonic() + PATIENCE
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < self.quiet_seconds or (
            len(self.seen) < handled and time.monotonic() < deadline
        ):
            if self._collect() or self._count("ApproximateNumberOfMessages") or self._with_a_function():
                quiet_since = time.monotonic()
            time.sleep(0.1)

    def _begin(self) -> None:
        if self.pollers is not None and not self.pollers.running:
            eventually(lambda: self._count("ApproximateNumberOfMessages") >= self.published)
            self.pollers.start()

    def _with_a_function(self) -> bool:
        last = {o["delivery_id"]: o for o in chosen(self.seen, None)}
        return self._count("ApproximateNumberOfMessagesNotVisible") > sum(map(self._hides, last.values()))

    def _hides(self, last: Observation) -> bool:
        """Whether this report is of an attempt that another one follows. A function that reported the last attempt
        still has the dead letter to copy.
        """
        tries_again = last["action"] in ("retry", "save", "transient", "error", "release")
        return tries_again and last["attempt"] < self.max_attempts[last["subscription"]]

    def attended(self) -> AbstractContextManager[None]:
        """They are already."""
        return nullcontext()

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def lose_a_worker(self, subscription: str) -> None:
        """The function ends its process by itself. Nothing tells so but that the message hides, and goes on hiding."""
        eventually(lambda: self._count("ApproximateNumberOfMessagesNotVisible"))

    def release_some(self, topic: str, subscription: str) -> list[str]:
        """Deliveries wait behind others in a batch until there is no time left to start them."""
        self.publish(topic, *(NewMessage(payload={"script": ["sleep:3.2", "complete"]}) for _ in range(4)))
        self.work()
        first: dict[str, int] = {}
        for observation in self.observations():
            first.setdefault(observation["message_id"], observation["attempt"])
        return [message_id for message_id, attempt in first.items() if attempt > 1]

    def drain(self, processes: int, threads: int, deliveries: int) -> int:
        """The mapping decides how many functions run: LocalStack's runs one at a time."""
        self._begin()
        deadline = time.monotonic() + DRAIN_PATIENCE
        while len(self.observations()) < deliveries:
            assert time.monotonic() < deadline, f"{len(self.seen)} of {deliveries} deliveries were handled"
            time.sleep(0.1)
        self.work()
        return 1 if self.pollers is None else self.pollers.count

    def observations(self, subscription: str | None = None) -> list[Observation]:
        while self._collect():
            pass
        return chosen(self.seen, subscription)

    def dead_letters(self, subscription: str) -> list[DeadLetterEntry]:
        return list(self.transport.operator().dead_letters(subscription, 100))

    def _collect(self) -> bool:
        new = self.observer.collected()
        self.seen += new
        return bool(new)

    def _count(self, what: str) -> int:
        read = self.sqs.get_queue_attributes
        return sum(int(read(QueueUrl=u, AttributeNames=[what])["Attributes"][what]) for u in self.queue_urls)


@dataclass(kw_only=True)
class LambdaHarness:
    """SNS, SQS and Lambda functions. Time passes by waiting."""

    aws: Aws | RealAws
    dynamodb: Callable[[], str]
    zip_path: Path
    folder: Path
    environment: pytest.MonkeyPatch
    variables: Mapping[str, str] = field(default_factory=dict)  # of the functions, besides those of the manifest
    pollers: int = 0  # of the suite's own in place of a mapping, for a topology of one subscription
    name: str = "aws-lambda"
    lost_lease_seconds: float = 6 * SHORT_LIVED["timeout_seconds"] + 2

    @contextmanager
    def transport(self, topology: Mapping[str, Any]) -> Iterator[Running]:
        with observing(self.aws, self.folder) as observer:
            told = {"CONFORMANCE_OBSERVER": observer.address} | self.variables
            manifest = _told(manifest_of(topology, host="lambda", name=self.aws.topology), told)
            aws = with_tables(self.aws, manifest, self.dynamodb)
            with provisioned(aws, manifest) as deployment:
                for name in manifest.subscriptions:
                    deployment.deploy_function(name, self.zip_path, mapped=not self.pollers)
                with opened_on(aws, deployment, self) as transport, self._polling(deployment) as pollers:
                    yield LambdaRunning(
                        transport=transport,
                        sqs=self.aws.client("sqs"),
                        observer=observer,
                        put=sending(aws, deployment.bindings),
                        age_keys=lambda seconds: age_keys(aws.client("dynamodb"), deployment.tables, seconds),
                        quiet_seconds=self.aws.quiet_seconds,
                        pollers=pollers,
                        max_attempts={n: s.policy(n).max_attempts for n, s in manifest.subscriptions.items()},
                        queue_urls=[binding.queue_url for binding in deployment.bindings.subscriptions.values()],
                    )

    @contextmanager
    def _polling(self, deployment: Deployment) -> Iterator[Pollers | None]:
        if not self.pollers:
            yield None
            return
        ((name, binding),) = deployment.bindings.subscriptions.items()
        mapping = deployment.manifest.subscriptions[name].aws.event_source_mapping
        pollers = Pollers(self.aws, binding, batch_size=mapping.batch_size, count=self.pollers)
        try:
            yield pollers
        finally:
            pollers.stop()


def side_by_side(harness: Any, pollers: int) -> Any:
    """The harness, whose functions are called side by side: by so many pollers, where one is all that there is."""
    return replace(harness, pollers=pollers) if isinstance(harness, LambdaHarness) else harness


def _told(manifest: Manifest, variables: Mapping[str, str]) -> Manifest:
    """The manifest with functions that have these variables too: where the suite listens, for one."""
    subscriptions = {}
    for name, subscription in manifest.subscriptions.items():
        function = subscription.aws.function
        told = replace(function, environment={**function.environment, **variables})
        subscriptions[name] = replace(subscription, aws=replace(subscription.aws, function=told))
    return replace(manifest, subscriptions=subscriptions)
