"""The harness of the in-process event source mapping: queues in memory, the Lambda runtime, time moved by hand."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aws_transport.settlement import SqsAttribute
from aws_transport.transport import CAPABILITIES
from lambda_runtime.local import LocalClock, LocalFunction, LocalMapping, MappingSettings, Sent
from tests.conformance.harness import SHORT_LIVED, Observation, Running, manifest_of
from towpath import NewMessage, PublishResult
from towpath.attributes import attribute_text, attribute_type
from towpath.envelope import Prepared, Sources, prepare
from towpath.filters import FilterPolicy
from towpath.manifest import Manifest
from towpath.message import PublishError
from towpath.ports import Capability, DeadLetterEntry, Operator
from towpath.testing import lambda_settings

POLLERS = 3  # invocations at a time of one function


@dataclass(kw_only=True)
class LocalTopics:
    """Publishes as SNS does: to each subscription whose filter matches, with raw delivery."""

    manifest: Manifest
    functions: Mapping[str, LocalFunction]
    clock: LocalClock

    def publish(self, topic: str, messages: list[NewMessage]) -> list[PublishResult]:
        return [self._published(topic, new) for new in messages]

    def _published(self, topic: str, new: NewMessage) -> PublishResult:
        sources = Sources(clock=self.clock.now, random_bytes=os.urandom)
        prepared = prepare(topic, new, self.manifest.topics[topic].max_payload_bytes, sources)
        if isinstance(prepared, PublishError):
            return PublishResult(id=None, status="rejected", error=prepared)
        for name, subscription in self.manifest.subscriptions.items():
            policy = subscription.filter_policy
            attributes = prepared.message.attributes
            if subscription.topic == topic and (policy is None or FilterPolicy.parse(policy).matches(attributes)):
                self._deliver(self.functions[name], prepared)
        return PublishResult(id=prepared.message.id, status="accepted")

    def _deliver(self, function: LocalFunction, prepared: Prepared) -> None:
        message = prepared.message
        attributes = {
            key: SqsAttribute(data_type=attribute_type(value), value=attribute_text(value))
            for key, value in message.attributes.items()
        }
        group = (message.partition_key or message.id) if function.queue.fifo else None
        ids = {"group_id": group, "deduplication_id": message.id if group else None}
        function.queue.send(Sent(body=prepared.body, attributes=attributes, **ids))


@dataclass(kw_only=True)
class LocalRunning:
    """Functions in this process, which run when they are told to."""

    manifest: Manifest
    functions: Mapping[str, LocalFunction]
    report: Path
    environment: pytest.MonkeyPatch
    transport: LocalTopics
    capabilities: frozenset[Capability] = CAPABILITIES
    shifted: float = field(default=0.0)

    @property
    def operator(self) -> Operator:
        raise NotImplementedError("there is no operator of queues in memory")

    def publish(self, topic: str, *messages: NewMessage) -> list[PublishResult]:
        results = self.transport.publish(topic, list(messages))
        assert [r.error for r in results if r.error] == []
        return results

    def put(self, subscription: str, body: str) -> None:
        self.functions[subscription].send_body(body)

    def work(self, handled: int = 0) -> None:
        for function in self.functions.values():
            function.run(pollers=POLLERS)

    def advance(self, seconds: float) -> None:
        self.shifted += seconds
        self.environment.setenv("CONFORMANCE_SHIFT", str(self.shifted))
        self.transport.clock.advance(seconds)

    def lose_a_worker(self, subscription: str) -> None:
        """A function whose process died has received messages and answered nothing. Ours must not die: it gets none."""
        assert self.functions[subscription].queue.receive(10)

    def release_some(self, topic: str, subscription: str) -> list[str]:
        """Messages come to a function that has no time left to start them."""
        results = self.publish(topic, *(NewMessage(payload={"script": ["complete"]}) for _ in range(2)))
        function = self.functions[subscription]
        settings = MappingSettings(timeout_seconds=0.1)
        late = LocalMapping(function.queue, function.handle, settings, self.transport.clock).poll()
        assert late is not None
        assert len(late.failed) == 2
        return [str(result.id) for result in results]

    def drain(self, processes: int, threads: int, deliveries: int) -> int:
        """All in this process, by as many invocations at a time as there would be processes."""
        for function in self.functions.values():
            function.run(pollers=processes)
        return 1

    def observations(self, subscription: str | None = None) -> list[Observation]:
        lines = self.report.read_text().splitlines() if self.report.exists() else []
        found = [json.loads(line) for line in lines]
        wanted = [o for o in found if subscription in (None, o["subscription"])]
        return sorted(wanted, key=lambda observation: observation["started"])

    def dead_letters(self, subscription: str) -> list[DeadLetterEntry]:
        return list(self.functions[subscription].dead_letters)


@dataclass(kw_only=True)
class LocalMappingHarness:
    """The Lambda runtime behind event source mappings of this process. Time is moved by hand."""

    folder: Path
    environment: pytest.MonkeyPatch
    name: str = "local-mapping"
    lost_lease_seconds: float = 6 * SHORT_LIVED["timeout_seconds"] + 2

    @contextmanager
    def transport(self, topology: Mapping[str, Any]) -> Iterator[Running]:
        report = self.folder / f"observations-{datetime.now(UTC):%H%M%S%f}.jsonl"
        self.environment.setenv("CONFORMANCE_OBSERVER", f"file://{report}")
        self.environment.delenv("CONFORMANCE_SHIFT", raising=False)
        manifest, clock = manifest_of(topology, host="lambda"), LocalClock()
        functions = {
            name: LocalFunction(str(subscription.handler), lambda_settings(manifest, name), clock=clock)
            for name, subscription in manifest.subscriptions.items()
        }
        yield LocalRunning(
            manifest=manifest,
            functions=functions,
            report=report,
            environment=self.environment,
            transport=LocalTopics(manifest=manifest, functions=functions, clock=clock),
        )
