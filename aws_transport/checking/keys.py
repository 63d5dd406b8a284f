"""The KMS keys that topics and queues name: usable, and the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator

from aws_transport.checking.facts import Attributes, Facts, Look, Seen
from aws_transport.checking.findings import Finding
from aws_transport.checking.looks import Told, unseen


def used_keys(facts: Facts) -> dict[str, str]:
    """Each KMS key that something names, with the first thing that names it."""
    named: dict[str, str] = {}
    for subject, look in _encrypted(facts):
        key = look.value.get("KmsMasterKeyId") if isinstance(look, Seen) else None
        if key:
            named.setdefault(key, subject)
    return named


def _encrypted(facts: Facts) -> Iterator[tuple[str, Look[Attributes]]]:
    for name, topic in facts.topics.items():
        yield f"topic {name}", topic.attributes
    for name, one in facts.subscriptions.items():
        for queue in (one.queue, one.dead_letter_queue, one.delivery_failure_queue):
            yield f"subscription {name}", queue


def key_findings(facts: Facts) -> Iterator[Finding]:
    """What keeps a key from being used, and more than one key, since a deployment has one."""
    named = used_keys(facts)
    for key, subject in named.items():
        if key not in facts.keys:
            continue
        told = Told(subject=subject, code="key", of=f"the KMS key {key}")
        look = facts.keys[key]
        missing = unseen(look, told, "nothing encrypted with it can be read or sent")
        if missing is not None:
            yield missing
        if isinstance(look, Seen) and look.value.get("KeyState") != "Enabled":
            yield told.finding(
                "state", f"{told.of} is {look.value.get('KeyState')}", "Enabled", "enable it, or cancel its deletion"
            )
    if len(named) > 1:
        first, *others = named
        for key in others:
            told = Told(subject=named[key], code="key", of="it")
            yield told.finding(
                "several", f"it has the key {key}", f"{first}, as {named[first]} has", severity="warning"
            )
