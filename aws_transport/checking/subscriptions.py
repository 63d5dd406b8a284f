"""One subscription on AWS against the manifest: its bindings, queues, deliveries, function and mapping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aws_transport.bindings import SubscriptionBinding
from aws_transport.checking.deliveries import delivery_findings
from aws_transport.checking.deployed import Place
from aws_transport.checking.facts import Attributes, Look, Seen, SubscriptionFacts
from aws_transport.checking.findings import Finding
from aws_transport.checking.functions import function_findings, reserved_findings, timeout_findings
from aws_transport.checking.looks import ANEW, Told, unseen
from aws_transport.checking.mappings import mapping_findings
from aws_transport.checking.queues import (
    allow_findings,
    attribute_findings,
    no_redrive_findings,
    queue_policy_findings,
    redrive_findings,
)
from aws_transport.checking.statements import rendered
from towpath.manifest import AwsSubscription, Deployment, Queue, ResourceStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionCheck:
    """One subscription as it should be and as it was seen."""

    name: str
    wanted: AwsSubscription
    binding: SubscriptionBinding
    facts: SubscriptionFacts
    shared: Deployment
    place: Place
    topic_arn: str

    @property
    def subject(self) -> str:
        """How findings call it."""
        return f"subscription {self.name}"

    def findings(self) -> Iterator[Finding]:
        """All of it, whatever fails: each check speaks for itself."""
        yield from self._bindings()
        yield from self._queues()
        failed = self._arn(self.wanted.delivery_failure_queue)
        yield from delivery_findings(self.subject, self.wanted.sns_subscription, self.facts.delivery, failed)
        yield from self._function()

    def _bindings(self) -> Iterator[Finding]:
        told = Told(subject=self.subject, code="bindings", of="the bindings")
        urls = (
            ("queue_url", self.binding.queue_url, self.wanted.queue),
            ("dead_letter_queue_url", self.binding.dead_letter_queue_url, self.wanted.dead_letter_queue),
            ("delivery_failure_queue_url", self.binding.delivery_failure_queue_url, self.wanted.delivery_failure_queue),
        )
        for key, url, queue in urls:
            if url.rstrip("/").rpartition("/")[2] != queue.name:
                yield told.finding("bound-elsewhere", f"the bindings have {key} {url}", f"the queue {queue.name}", ANEW)
        if self.binding.queue_arn != self._arn(self.wanted.queue):
            told_arn = f"the bindings have queue_arn {self.binding.queue_arn}"
            yield told.finding("bound-elsewhere", told_arn, self._arn(self.wanted.queue), ANEW)
        alias = self._alias_arn()
        if self.binding.function_arn != alias:
            said = self.binding.function_arn or "none"
            yield told.finding("bound-elsewhere", f"the bindings have function_arn {said}", alias or "none", ANEW)

    def _queues(self) -> Iterator[Finding]:
        yield from self._queue()
        yield from self._dead_letter_queue()
        yield from self._delivery_failure_queue()

    def _queue(self) -> Iterator[Finding]:
        wanted, look = self.wanted.queue, self.facts.queue
        told = Told(subject=self.subject, code="queue", of=f"the queue {wanted.name}")
        gone = "what SNS would deliver is lost, but for what it keeps in the queue of failed deliveries"
        yield from self._any_queue(told, wanted, look, gone, self.shared.queue_policy)
        if isinstance(look, Seen):
            yield from redrive_findings(told, wanted, look.value, self._arn(self.wanted.dead_letter_queue))
            if self.facts.function is not None:
                visibility = look.value.get("VisibilityTimeout")
                yield from timeout_findings(self.subject, visibility, self.facts.function.configuration)

    def _dead_letter_queue(self) -> Iterator[Finding]:
        wanted, look = self.wanted.dead_letter_queue, self.facts.dead_letter_queue
        told = Told(subject=self.subject, code="dead-letter-queue", of=f"the dead-letter queue {wanted.name}")
        gone, policy = "what cannot be handled has nowhere to go", self.shared.dead_letter_queue_policy
        yield from self._any_queue(told, wanted, look, gone, policy)
        if isinstance(look, Seen):
            yield from no_redrive_findings(told, look.value)
            yield from allow_findings(told, wanted, look.value, self._arn(self.wanted.queue))

    def _delivery_failure_queue(self) -> Iterator[Finding]:
        wanted, look = self.wanted.delivery_failure_queue, self.facts.delivery_failure_queue
        told = Told(subject=self.subject, code="delivery-failure-queue", of=f"the delivery-failure queue {wanted.name}")
        yield from self._any_queue(told, wanted, look, "what SNS cannot deliver is lost", self.shared.queue_policy)
        if isinstance(look, Seen):
            yield from no_redrive_findings(told, look.value)

    def _any_queue(
        self, told: Told, wanted: Queue, look: Look[Attributes], gone: str, policy: tuple[ResourceStatement, ...]
    ) -> Iterator[Finding]:
        missing = unseen(look, told, gone)
        if missing is not None:
            yield missing
        if isinstance(look, Seen):
            yield from attribute_findings(told, wanted, look.value)
            names = self.place.names(topic_arn=self.topic_arn, queue_arn=self._arn(wanted))
            yield from queue_policy_findings(told, look.value, rendered(policy, names))

    def _function(self) -> Iterator[Finding]:
        wanted, facts = self.wanted, self.facts
        mapping = wanted.event_source_mapping
        yield from mapping_findings(self.subject, mapping, self._alias_arn(), facts.mappings)
        if wanted.function is None or facts.function is None:
            return
        urls = {"queue": self.binding.queue_url, "dead_letter_queue": self.binding.dead_letter_queue_url}
        yield from function_findings(self.subject, wanted.function, facts.function, urls)
        if mapping is not None:
            yield from reserved_findings(self.subject, wanted.function.name, facts.function.reserved, mapping)

    def _alias_arn(self) -> str | None:
        function = self.wanted.function
        return None if function is None else self.place.arn("lambda", f"function:{function.name}:{function.alias}")

    def _arn(self, queue: Queue) -> str:
        return self.place.arn("sqs", queue.name)
