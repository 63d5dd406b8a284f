"""What changes for a running system from one manifest to another, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from towpath.changes import aws
from towpath.changes.deployment import MANIFEST_RULES, deployment_rules
from towpath.changes.differences import Path, differences
from towpath.changes.permissions import Resources
from towpath.changes.rules import IMPACTS, Compared, Impact, Kind, Rule, anything_else
from towpath.changes.subscriptions import HANDLING
from towpath.changes.topics import RULES as TOPIC_RULES
from towpath.manifest import Manifest, Subscription, Topic
from towpath.records import key_path

__all__ = ["IMPACTS", "Change", "Impact", "Kind", "changes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change, in words. ``kind`` and ``name`` say of what; the name is empty for the manifest as a whole and for
    what there is in common on AWS. ``paths`` are all places in the manifests that differ by it.
    """

    impact: Impact
    kind: Kind
    name: str
    sentence: str
    paths: tuple[str, ...]


def changes(old: Manifest, new: Manifest) -> tuple[Change, ...]:
    """Everything that changes from ``old`` to ``new``, the worst first. Each place that differs is in exactly one
    change, so nothing changes silently; there is none only where the manifests are equal.
    """
    found = [*_come_and_gone(old, new), *_changed(_compared(old, new))]
    return tuple(sorted(found, key=lambda change: (IMPACTS.index(change.impact), change.kind, change.name)))


# --- What comes and goes -----------------------------------------------------------------------------------------


def _come_and_gone(old: Manifest, new: Manifest) -> Iterator[Change]:
    for name, topic in old.topics.items():
        if name not in new.topics:
            yield _change("destructive", "topic", name, _topic_gone(topic))
    for name in new.topics.keys() - old.topics.keys():
        yield _change("safe", "topic", name, f"is new, on {new.topics[name].transport}")
    come = {name: s for name, s in new.subscriptions.items() if name not in old.subscriptions}
    for name, subscription in old.subscriptions.items():
        if name not in new.subscriptions:
            yield _change("destructive", "subscription", name, _subscription_gone(subscription, come))
    for name, subscription in come.items():
        sentence = f"is new: it gets what is published to {subscription.topic} from then on"
        yield _change("safe", "subscription", name, sentence)


def _change(impact: Impact, kind: Kind, name: str, sentence: str) -> Change:
    return Change(impact=impact, kind=kind, name=name, sentence=sentence, paths=(key_path((f"{kind}s", name)),))


def _topic_gone(topic: Topic) -> str:
    means = "its SNS topic is deleted" if topic.transport == "aws" else "the database no longer takes messages for it"
    return f"is removed: {means}, and publishers are rejected"


def _subscription_gone(subscription: Subscription, come: Mapping[str, Subscription]) -> str:
    if subscription.aws is not None:
        means = f"its queue {subscription.aws.queue.name} is deleted, with its dead letters and all messages in them"
    else:
        means = "a database lets it go only when it has no deliveries"
    like = [name for name, other in come.items() if _is_like(subscription, other)]
    renamed = f"; {like[0]} looks like it under a new name, and starts empty: let this one finish first" if like else ""
    return f"is removed: {means}{renamed}"


def _is_like(one: Subscription, other: Subscription) -> bool:
    return replace(one, aws=None) == replace(other, aws=None)


# --- What is in both manifests -----------------------------------------------------------------------------------


def _compared(old: Manifest, new: Manifest) -> Iterator[Compared]:
    resources = Resources.of(old, new)
    shell = Compared(
        kind="manifest",
        name="",
        start=(),
        old=old,
        new=new,
        found={d.path: d for d in differences(_shell(old, new), _shell(new, old))},
        rules=MANIFEST_RULES,
        within={},
    )
    yield shell
    if old.aws is not None and new.aws is not None:
        within = {"manifest": shell}
        yield _compare("aws", "", (old.aws, new.aws), deployment_rules(resources), within)
    topics = {
        name: _compare("topic", name, (topic, new.topics[name]), TOPIC_RULES, {"manifest": shell})
        for name, topic in old.topics.items()
        if name in new.topics
    }
    yield from topics.values()
    rules = (*HANDLING, *aws.rules(resources))
    for name, subscription in old.subscriptions.items():
        if name in new.subscriptions:
            records = subscription, new.subscriptions[name]
            stays = subscription.topic == records[1].topic and subscription.topic in topics
            own = {"topic": topics[subscription.topic]} if stays else {}
            yield _compare("subscription", name, records, rules, {"manifest": shell, **own})


def _shell(one: Manifest, other: Manifest) -> Manifest:
    """The manifest without what is compared by itself."""
    both = one.aws is not None and other.aws is not None
    return replace(one, topics={}, subscriptions={}, aws=None if both else one.aws)


def _compare(
    kind: Kind, name: str, records: tuple[Any, Any], rules: tuple[Rule, ...], within: Mapping[str, Compared]
) -> Compared:
    old, new = records
    return Compared(
        kind=kind,
        name=name,
        start=("aws",) if kind == "aws" else (f"{kind}s", name),
        old=old,
        new=new,
        found={difference.path: difference for difference in differences(old, new)},
        rules=rules,
        within=within,
    )


def _changed(compared: Iterator[Compared]) -> Iterator[Change]:
    groups: dict[tuple[str, str, int, Path], _Group] = {}
    for record in compared:
        for path in record.found:
            told_of, cause = record.cause_of(path)
            rule = told_of.rule_for(cause)
            each = cause if rule.tell is anything_else else ()  # of these, every one has a sentence of its own
            key = (told_of.kind, told_of.name, told_of.rules.index(rule), each)
            group = groups.setdefault(key, _Group(record=told_of, rule=rule, causes={}, paths=[]))
            group.causes[cause] = None
            group.paths.append(key_path((*record.start, *path)))
    yield from (group.told() for group in groups.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """What is told in one sentence: the differences ``causes`` of one record, and all ``paths`` that they explain."""

    record: Compared
    rule: Rule
    causes: dict[Path, None]
    paths: list[str]

    def told(self) -> Change:
        told = self.rule.tell(self.record.old, self.record.new, [self.record.found[path] for path in self.causes])
        return Change(
            impact=told.impact,
            kind=self.record.kind,
            name=self.record.name,
            sentence=told.sentence,
            paths=tuple(self.paths),
        )
