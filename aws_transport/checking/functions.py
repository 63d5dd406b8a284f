"""A subscription's function on AWS against the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aws_transport.checking.facts import FunctionFacts, Look, Missing, Seen, Unseen
from aws_transport.checking.findings import Finding
from aws_transport.checking.looks import Told, could_not_look, unseen
from towpath.manifest import EventSourceMapping, Function

_LATEST: Final = "$LATEST"


def function_findings(
    subject: str, wanted: Function, facts: FunctionFacts, urls: Mapping[str, str]
) -> Iterator[Finding]:
    """Everything about the function that is otherwise; ``urls`` are its queues' URLs by their role."""
    told = Told(subject=subject, code="function", of=f"the function {wanted.name}")
    yield from _alias(told, wanted, facts)
    missing = unseen(facts.configuration, told, "nobody handles its messages")
    if missing is not None and not isinstance(facts.alias, Missing):
        yield missing
    if isinstance(facts.configuration, Seen):
        yield from _configuration(told, wanted, facts.configuration.value)
        yield from _environment(told, wanted, facts.configuration.value, urls)


def _alias(told: Told, wanted: Function, facts: FunctionFacts) -> Iterator[Finding]:
    alias = Told(subject=told.subject, code="alias", of=f"the alias {wanted.alias} of {wanted.name}")
    missing = unseen(facts.alias, alias, "the event source mapping has nothing to invoke")
    if missing is not None:
        yield missing
    if not isinstance(facts.alias, Seen):
        return
    version = facts.alias.value.get("FunctionVersion")
    weights = (facts.alias.value.get("RoutingConfig") or {}).get("AdditionalVersionWeights") or {}
    if version == _LATEST:
        yield alias.finding("unpublished", f"{alias.of} is of {_LATEST}, which changes with every upload", "a version")
    if weights:
        shares = ", ".join(f"{share:.0%} to version {number}" for number, share in weights.items())
        yield alias.finding("weights", f"{alias.of} gives {shares}", "all to one version", severity="warning")
    newest = facts.newest_version
    if isinstance(newest, Unseen):
        yield could_not_look(newest, alias)
    elif isinstance(newest, Seen) and version not in (newest.value, _LATEST):
        yield alias.finding(
            "moved",
            f"{alias.of} is of version {version}",
            f"version {newest.value}, the newest",
            "after a rollback, deploy the repaired code, which moves it on; else deploy the manifest again",
            severity="warning",
        )


def _configuration(told: Told, wanted: Function, found: Mapping[str, Any]) -> Iterator[Finding]:
    numbers = (
        told.number("timeout", "a timeout (s)", found.get("Timeout"), wanted.timeout_seconds),
        told.number("memory", "memory (MB)", found.get("MemorySize"), wanted.memory_mb),
    )
    values = (
        told.other("handler", "the handler", found.get("Handler", wanted.handler), wanted.handler),
        told.other("runtime", "the runtime", found.get("Runtime", wanted.runtime), wanted.runtime),
        told.other("architecture", "the architecture", _first(found.get("Architectures")), wanted.architecture),
        told.other("role", "the role", str(found.get("Role", "")).rpartition("/")[2], wanted.role_name),
    )
    yield from (finding for finding in (*numbers, *values) if finding is not None)
    if found.get("State", "Active") == "Failed" or found.get("LastUpdateStatus") == "Failed":
        why = found.get("StateReason") or found.get("LastUpdateStatusReason") or "Lambda does not say why"
        yield told.finding(
            "state", f"{told.of} cannot run: {why}", "active", "repair what Lambda names, and deploy again"
        )


def _first(values: Sequence[str] | None) -> str:
    return values[0] if values else "x86_64"  # what Lambda takes where nothing is said


def _environment(told: Told, wanted: Function, found: Mapping[str, Any], urls: Mapping[str, str]) -> Iterator[Finding]:
    """The variables that the runtime reads. Others may be there too."""
    environment = found.get("Environment") or {}
    if "Error" in environment:
        why = environment["Error"].get("Message", "Lambda does not say why")
        yield could_not_look(Unseen(action="kms:Decrypt", why=why, denied=True), told)
        return
    variables = environment.get("Variables") or {}
    meant = wanted.environment | {name: urls[role] for name, role in wanted.queue_url_environment.items()}
    for name, value in meant.items():
        has = variables.get(name)
        if has is None or _meaning(has) != _meaning(value):
            yield told.finding("environment", f"{told.of} has {name} {'unset' if has is None else has}", value)


def _meaning(value: str) -> Any:
    """A variable's JSON, or its text where it is none."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def reserved_findings(
    subject: str, name: str, look: Look[int | None], mapping: EventSourceMapping
) -> Iterator[Finding]:
    """Reserved concurrency below what the mapping may use: Lambda polls more than it can run, and each message that is
    throttled was received once more (AWS re:Post, "Lambda SQS scaling").
    """
    told = Told(subject=subject, code="reserved", of=f"the function {name}")
    if isinstance(look, Unseen):
        yield could_not_look(look, told)
    if not isinstance(look, Seen) or look.value is None:
        return
    if look.value == 0:
        yield told.finding("zero", f"{told.of} has a reserved concurrency of 0: it never runs", "1 or more, or none")
    elif mapping.maximum_concurrency is None or look.value < mapping.maximum_concurrency:
        yield told.finding(
            "low",
            f"{told.of} has a reserved concurrency of {look.value}: throttled messages lose attempts",
            f"none, or at least the mapping's maximum concurrency, {mapping.maximum_concurrency or 'which is not set'}",
            "set maximum_concurrency in the topology to what is reserved, or reserve more",
            severity="warning",
        )


def timeout_findings(subject: str, visibility: object, configuration: Look[Mapping[str, Any]]) -> Iterator[Finding]:
    """Lambda refuses such a mapping when it is made, and says nothing when the function changes afterwards."""
    if not isinstance(configuration, Seen):
        return
    timeout = configuration.value.get("Timeout")
    if isinstance(timeout, int) and str(visibility).isdigit() and int(str(visibility)) < timeout:
        told = Told(subject=subject, code="queue", of="its queue")
        yield told.finding(
            "visibility-below-timeout",
            f"{told.of} shows a message again after {visibility} seconds, while its function may run for {timeout}",
            f"a visibility timeout of at least {timeout} seconds",
        )
