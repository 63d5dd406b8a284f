"""Everything that exists on AWS otherwise than the manifest says: a pure function of manifest, bindings and facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aws_transport.bindings import Bindings
from aws_transport.checking.deployed import Place
from aws_transport.checking.facts import Facts
from aws_transport.checking.findings import Finding, ordered
from aws_transport.checking.keys import key_findings
from aws_transport.checking.looks import ANEW, Told
from aws_transport.checking.statements import rendered
from aws_transport.checking.subscriptions import SubscriptionCheck
from aws_transport.checking.topics import topic_findings
from towpath.manifest import Manifest


def findings(manifest: Manifest, bindings: Bindings, facts: Facts, place: Place) -> tuple[Finding, ...]:
    """Everything that is otherwise, the worst first; empty when what exists is what ``manifest`` says."""
    return ordered([*_unbound(manifest, bindings), *_found(manifest, bindings, facts, place)])


def _unbound(manifest: Manifest, bindings: Bindings) -> Iterator[Finding]:
    """Names that the bindings lack, or have for nothing."""
    pairs: tuple[tuple[str, Mapping[str, Any], Mapping[str, Any], str], ...] = (
        ("topic", manifest.topics, bindings.topics, "publishers are rejected with TopicUnbound"),
        ("subscription", manifest.subscriptions, bindings.subscriptions, "nobody can consume it or look after it"),
    )
    for kind, named, bound, means in pairs:
        for name in (name for name, record in named.items() if record.aws is not None and name not in bound):
            told = Told(subject=f"{kind} {name}", code="bindings", of="the bindings")
            yield told.finding(
                "unbound", f"the bindings lack it: {means}", "they have it", f"deploy the manifest; {ANEW}"
            )
        for name in (name for name in bound if name not in named or named[name].aws is None):
            told = Told(subject=f"{kind} {name}", code="bindings", of="the bindings")
            yield told.finding(
                "unknown", "the bindings have it", "the manifest has it on AWS", ANEW, severity="warning"
            )


def _found(manifest: Manifest, bindings: Bindings, facts: Facts, place: Place) -> Iterator[Finding]:
    shared = manifest.aws
    if shared is None:
        return
    for name, topic in manifest.topics.items():
        if topic.aws is not None and name in facts.topics:
            policy = rendered(shared.topic_policy, place.names(topic_arn=bindings.topics[name].arn))
            yield from topic_findings(name, topic.aws, bindings.topics[name], facts.topics[name], policy)
    for name, subscription in manifest.subscriptions.items():
        if subscription.aws is not None and name in facts.subscriptions:
            bound = bindings.topics.get(subscription.topic)
            of = manifest.topics[subscription.topic].aws
            named = of.topic_name if of is not None else ""
            yield from SubscriptionCheck(
                name=name,
                wanted=subscription.aws,
                binding=bindings.subscriptions[name],
                facts=facts.subscriptions[name],
                shared=shared,
                place=place,
                topic_arn=bound.arn if bound is not None else place.arn("sns", named),
            ).findings()
    yield from key_findings(facts)
