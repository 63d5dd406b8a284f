"""What changes for a running system from one manifest to the next, in words, and what of it destroys something.

Nothing changes silently: a value that no rule speaks of is told as what it was and what it becomes.
Which changes replace a resource is AWS's rule: the resource pages of the AWS CloudFormation user guide name the
properties whose update requires replacement (names and FIFO flags of topics and queues, keys of a table).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

from towpath.manifest.document import Manifest

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change. ``path`` leads to the value, ``sentence`` says what it means for what runs.

    ``destructive`` says that messages, dead letters or a resource that others know are lost with it.
    """

    path: Path
    sentence: str
    destructive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """What a change of one value means. ``text`` may hold ``{old}`` and ``{new}``."""

    text: str
    destroys: Callable[[Any, Any], bool] = lambda _old, _new: False


def _always(_old: Any, _new: Any) -> bool:
    return True


def _lowered(old: Any, new: Any) -> bool:
    return bool(new < old)


def _taken_away(old: Any, new: Any) -> bool:
    return bool(old) and not new


_REPLACED: Final = "is {new} instead of {old}: it is replaced, and what the old one holds is deleted"
_QUEUES: Final = ("queue", "dead_letter_queue", "delivery_failure_queue")

_RULES: Final[Mapping[Path, _Rule]] = {
    ("name",): _Rule(text="is {new} instead of {old}: every resource on AWS is replaced", destroys=_always),
    ("environment",): _Rule(text="is {new} instead of {old}: this compares two deployments", destroys=_always),
    ("topics", "*", "transport"): _Rule(
        text="moves from {old} to {new}: messages under way stay behind, and publishers connect elsewhere",
        destroys=_always,
    ),
    ("topics", "*", "status"): _Rule(text="is {new}, it was {old}; a disabled topic rejects what is published"),
    ("topics", "*", "max_payload_bytes"): _Rule(text="is {new} bytes instead of {old}, for messages from now on"),
    ("topics", "*", "retention_days"): _Rule(
        text="is {new} days instead of {old}; messages that are older than it are deleted", destroys=_lowered
    ),
    ("topics", "*", "deduplication", "enabled"): _Rule(
        text="is {new} instead of {old}; without it the keys of the past are forgotten", destroys=_taken_away
    ),
    ("topics", "*", "aws", "topic_name"): _Rule(text=_REPLACED, destroys=_always),
    ("topics", "*", "aws", "fifo"): _Rule(text=_REPLACED, destroys=_always),
    ("subscriptions", "*", "topic"): _Rule(
        text="takes messages of {new} from now on; those of {old} that wait already are still handled"
    ),
    ("subscriptions", "*", "transport"): _Rule(
        text="moves from {old} to {new}: deliveries that wait and dead letters stay behind", destroys=_always
    ),
    ("subscriptions", "*", "handler"): _Rule(text="is {new} instead of {old}, also for what waits already"),
    ("subscriptions", "*", "host"): _Rule(text="is {new} instead of {old}: what ran the handler runs it no longer"),
    ("subscriptions", "*", "partition_mode"): _Rule(
        text="is {new} instead of {old}: on AWS the queue may be replaced, and a database refuses it while deliveries "
        "are open",
        destroys=_always,
    ),
    ("subscriptions", "*", "filter_policy"): _Rule(
        text="is {new} instead of {old}, for messages published from now on; what waits already is still handled"
    ),
    ("subscriptions", "*", "status"): _Rule(
        text="is {new}, it was {old}; paused keeps what comes and hands none out, disabled gets nothing"
    ),
    ("subscriptions", "*", "max_attempts"): _Rule(
        text="is {new} instead of {old}; a delivery that had as many becomes a dead letter when it fails next"
    ),
    ("subscriptions", "*", "lease_seconds"): _Rule(text="is {new} s instead of {old}, for claims from now on"),
    ("subscriptions", "*", "accept_foreign"): _Rule(
        text="is {new} instead of {old}; without it bodies that are no envelope become dead letters"
    ),
    ("subscriptions", "*", "dead_letter_retention_days"): _Rule(
        text="is {new} days instead of {old}; dead letters that are older than it are deleted", destroys=_lowered
    ),
    ("subscriptions", "*", "aws", "function", "name"): _Rule(text="is {new} instead of {old}: it is replaced"),
    ("subscriptions", "*", "aws", "function", "architecture"): _Rule(
        text="is {new} instead of {old}: the zip must be bundled for it"
    ),
    ("subscriptions", "*", "aws", "function", "runtime"): _Rule(
        text="is {new} instead of {old}: the zip must be bundled for it"
    ),
    ("subscriptions", "*", "aws", "stack_group"): _Rule(
        text="is {new} instead of {old}: one stack deletes its resources, another makes them", destroys=_always
    ),
    **{
        ("subscriptions", "*", "aws", queue, "message_retention_seconds"): _Rule(
            text="is {new} s instead of {old}; messages that are older than it are deleted", destroys=_lowered
        )
        for queue in _QUEUES
    },
    **{
        ("subscriptions", "*", "aws", queue, key): _Rule(text=_REPLACED, destroys=_always)
        for queue in _QUEUES
        for key in ("name", "fifo")
    },
    **{
        ("topics", "*", "aws", "deduplication_table", key): _Rule(text=_REPLACED, destroys=_always)
        for key in ("name", "partition_key", "partition_key_type")
    },
}
_OTHER: Final = _Rule(text="is {new} instead of {old}")

# Values that are told as a whole, not key by key: a filter has a language of its own.
_WHOLE: Final = frozenset({("subscriptions", "*", "filter_policy")})


def compare(old: Manifest, new: Manifest) -> list[Change]:
    """What changes from ``old`` to ``new``, in the order of their paths; nothing when they are equal."""
    changes = _between((), asdict(old), asdict(new))
    return sorted(changes, key=lambda change: change.path)


def _between(path: Path, old: Any, new: Any) -> Iterator[Change]:
    if old == new:
        return
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)) or _general(path) in _WHOLE:
        yield _changed(path, old, new)
        return
    for key in sorted(old.keys() | new.keys()):
        inner = (*path, key)
        if key not in new:
            yield _removed(inner, old[key])
        elif key not in old:
            yield _added(inner)
        else:
            yield from _between(inner, old[key], new[key])


def _general(path: Path) -> Path:
    """The path with ``*`` for a topic's or a subscription's name."""
    return (path[0], "*", *path[2:]) if len(path) > 1 and path[0] in ("topics", "subscriptions") else path


def _changed(path: Path, old: Any, new: Any) -> Change:
    rule = _RULES.get(_general(path), _OTHER)
    sentence = rule.text.format(old=_shown(old), new=_shown(new))
    return Change(path=path, sentence=sentence, destructive=rule.destroys(old, new))


def _removed(path: Path, old: Any) -> Change:
    match path:
        case ("topics", _):
            sentence = "is removed: what is published to it is refused as TopicNotFound"
            return Change(path=path, sentence=sentence, destructive=True)
        case ("subscriptions", _):
            place = "its queue and its dead letters are deleted with what they hold"
            if old["transport"] == "database":
                place = "a database refuses that while deliveries are open, unless it is told to drop them"
            return Change(path=path, sentence=f"is removed: {place}", destructive=True)
        case _:
            return Change(path=path, sentence="is removed")


def _added(path: Path) -> Change:
    match path:
        case ("topics", _):
            return Change(path=path, sentence="is new")
        case ("subscriptions", _):
            return Change(path=path, sentence="is new, and gets what is published from now on")
        case _:
            return Change(path=path, sentence="is new")


def _shown(value: Any) -> str:
    if isinstance(value, Mapping | list | tuple):
        text = json.dumps(value, sort_keys=True, ensure_ascii=False)
        return text if len(text) <= 120 else text[:117] + "..."
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
