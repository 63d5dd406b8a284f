"""Which changes of a deployment may not pass unseen: one set of rules, whichever tool is about to make the change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from towpath.changes.aws import (
    ANSWERS,
    ENCRYPTION,
    LOG_RETENTION,
    POLLING,
    RAW_DELIVERY,
    RECEIVES,
    RETENTION,
    SIZE,
    VISIBILITY,
)
from towpath.changes.differences import Difference
from towpath.changes.phrases import filtered, lossy, other, safe, switch
from towpath.changes.rules import Impact, Teller, Told, shown
from towpath.gate.edits import Edit, Kind
from towpath.gate.policies import has_unknown, listed, shift

_GONE: Final[Mapping[Kind, str]] = {
    "topic": "what is published to it is rejected, and its SNS subscriptions go with it",
    "subscription": "what is published from then on no longer reaches its queue",
    "queue": "all messages in it are lost",
    "policy": "those whom it lets in are kept out, or those whom it keeps out are let in",
    "redrive policy": "what crashes its consumer comes again until it is too old",
    "mapping": "nobody polls its queue, whose messages wait",
    "function": "nobody handles its messages",
    "alias": "the event source mapping has nothing to invoke",
    "key": "what is encrypted with it can never be read again",
    "key alias": "whoever names the key by it finds none",
    "table": "the keys in it are forgotten, and repeats are taken for new messages",
    "role": "its function can do nothing any more",
    "log group": "what was logged is lost",
    "alarm": "nobody is told any more",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """One thing that a plan would do and nobody has allowed: to what, how bad it is, and what it means."""

    address: str
    kind: Kind
    impact: Impact
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Judges one attribute of these kinds when it changes; what it tells is blocked unless it is safe."""

    kinds: tuple[Kind, ...]
    attribute: str
    tell: Callable[[Any, Any], Told]


def blocked(edits: Iterable[Edit]) -> tuple[Blocked, ...]:
    """Everything that a plan would delete, replace, let go of, or make worse, in the order of its addresses."""
    edits = tuple(edits)
    elsewhere = {name for edit in edits for name in _come_or_gone(edit)}
    found = [one for edit in edits for one in _judged(edit, elsewhere)]
    return tuple(sorted(found, key=lambda one: (one.impact, one.address, one.sentence)))


def _come_or_gone(edit: Edit) -> tuple[str, ...]:
    """The names that this edit makes or unmakes. What is made anew under its name stays, for policies."""
    renamed = edit.action == "replace" and len(edit.names) > 1
    return edit.names if edit.action in ("create", "delete", "forget") or renamed else ()


def _judged(edit: Edit, elsewhere: Collection[str]) -> Iterator[Blocked]:
    gone = _GONE[edit.kind]
    match edit.action:
        case "create":
            return
        case "delete":
            yield _blocked(edit, "destructive", f"is deleted: {gone}")
        case "replace":
            yield _blocked(edit, "destructive", f"is deleted and made anew: {gone}")
        case "forget":
            told = "is forgotten: it stays on AWS, nothing manages it any more, and the next plan knows nothing of it"
            yield _blocked(edit, "destructive", told)
        case "unclear":
            yield _blocked(edit, "destructive", f"may be deleted and made anew, as the run decides: {gone}")
        case "update":
            yield from _worse(edit, elsewhere)


def _worse(edit: Edit, elsewhere: Collection[str]) -> Iterator[Blocked]:
    for guard in (*_GUARDS, *_policy_guards(elsewhere)):
        if edit.kind not in guard.kinds or guard.attribute not in {*edit.before, *edit.after}:
            continue
        old, new = edit.before.get(guard.attribute), edit.after.get(guard.attribute)
        if has_unknown(new) or has_unknown(old):
            told = lossy(f"its {guard.attribute} is known only while it runs, so that nobody can say what it will be")
        elif old == new:
            continue
        else:
            told = guard.tell(old, new)
        if told.impact != "safe":
            yield _blocked(edit, told.impact, told.sentence)


def _blocked(edit: Edit, impact: Impact, sentence: str) -> Blocked:
    return Blocked(address=edit.address, kind=edit.kind, impact=impact, sentence=sentence)


# --- What is guarded ---------------------------------------------------------------------------------------------


def _of(teller: Teller) -> Callable[[Any, Any], Told]:
    """A teller of ``towpath.changes`` for one value."""
    return lambda old, new: teller(None, None, [Difference(path=("value",), old=old, new=new)])


def _filter(old: Any, new: Any) -> Told:
    """What is disabled gets nothing, so that any filter after it lets more through."""
    if isinstance(old, Mapping) and old.keys() == {"towpath-disabled"}:
        return safe("gets messages again")
    return filtered(old, new)


def _reserved(old: Any, new: Any) -> Told:
    before, after = ("none" if value in (None, -1) else value for value in (old, new))
    told = f"its reserved concurrency is {after} instead of {before}"
    return safe(told) if after == "none" else lossy(f"{told}: what is over it is throttled and loses attempts")


def _actions(old: Any, new: Any) -> Told:
    gone = [one for one in old or () if one not in (new or ())]
    return lossy(f"no longer tells {', '.join(map(shown, gone))}") if gone else safe("tells others too")


def _retained(old: Any, new: Any) -> Told:
    if old in ("Retain", "RetainExceptOnCreate"):
        return lossy(f"its deletion policy is {new} instead of {old}: when it leaves the template it is deleted")
    return safe(f"its deletion policy is {new}")


_BOUNDARY: Final = other("its permissions boundary is", "lossy", "it may do more or less than before")
_OFF: Final = lossy("is switched off: what is encrypted with it cannot be read until it is on again")

_GUARDS: Final = (
    Guard(kinds=("queue",), attribute="retention", tell=_of(RETENTION)),
    Guard(kinds=("queue",), attribute="visibility timeout", tell=_of(VISIBILITY)),
    Guard(kinds=("queue",), attribute="size limit", tell=_of(SIZE)),
    Guard(kinds=("queue", "redrive policy"), attribute="redrive count", tell=_of(RECEIVES)),
    Guard(
        kinds=("queue", "redrive policy", "subscription"),
        attribute="redrive target",
        tell=_of(other("what cannot be handled or delivered goes to", "lossy", "look after both")),
    ),
    Guard(
        kinds=("queue", "topic", "table"),
        attribute="key",
        tell=_of(other("its KMS key is", "lossy", "whoever may not use the new one can neither send nor read")),
    ),
    Guard(kinds=("queue",), attribute="encryption", tell=_of(ENCRYPTION)),
    Guard(kinds=("subscription",), attribute="filter policy", tell=_filter),
    Guard(
        kinds=("subscription",),
        attribute="filter scope",
        tell=_of(other("its filter looks at", "lossy", "it selects other messages")),
    ),
    Guard(kinds=("subscription",), attribute="raw delivery", tell=_of(RAW_DELIVERY)),
    Guard(kinds=("mapping",), attribute="enabled", tell=_of(POLLING)),
    Guard(kinds=("mapping",), attribute="response types", tell=_of(ANSWERS)),
    Guard(
        kinds=("mapping",),
        attribute="function",
        tell=_of(other("it invokes", "lossy", "another function handles its messages")),
    ),
    Guard(
        kinds=("mapping",),
        attribute="filter criteria",
        tell=_of(other("its own filter is", "lossy", "Lambda deletes what does not pass it")),
    ),
    Guard(kinds=("function",), attribute="reserved concurrency", tell=_reserved),
    Guard(kinds=("log group",), attribute="retention", tell=_of(LOG_RETENTION)),
    Guard(
        kinds=("alarm",),
        attribute="actions enabled",
        tell=_of(switch(on=safe("tells what it finds"), off=lossy("tells nobody what it finds"))),
    ),
    Guard(kinds=("alarm",), attribute="alarm actions", tell=_actions),
    Guard(kinds=("key",), attribute="enabled", tell=_of(switch(on=safe("is switched on"), off=_OFF))),
    Guard(
        kinds=("key",),
        attribute="rotation",
        tell=_of(switch(on=safe("gets new key material"), off=lossy("gets no new key material any more"))),
    ),
    Guard(
        kinds=("topic", "queue", "function", "table", "key", "log group"), attribute="deletion policy", tell=_retained
    ),
)


def _policy_guards(elsewhere: Collection[str]) -> tuple[Guard, ...]:
    """Of policies, in a plan in which the resources ``elsewhere`` come or go: what is about these is no surprise."""

    def tell(old: Any, new: Any) -> Told:
        moved = shift(old, new, elsewhere)
        parts = [
            *([f"allows more: {listed(moved.more)}"] if moved.more else []),
            *([f"allows less: {listed(moved.less)}"] if moved.less else []),
        ]
        return lossy("; ".join(parts)) if parts else safe("says the same")

    every: tuple[Kind, ...] = ("topic", "queue", "policy", "role", "key")
    return (
        Guard(kinds=every, attribute="policy", tell=tell),
        Guard(kinds=("role",), attribute="trust", tell=tell),
        Guard(kinds=("role",), attribute="permissions boundary", tell=_of(_BOUNDARY)),
        Guard(kinds=("queue",), attribute="redrive permission", tell=_redrive_permission),
        Guard(kinds=("role",), attribute="managed policies", tell=_managed),
    )


def _redrive_permission(old: Any, new: Any) -> Told:
    return lossy(f"may take dead letters from {shown(new)} instead of {shown(old)}")


def _managed(old: Any, new: Any) -> Told:
    return lossy(f"has the managed policies {shown(new)} instead of {shown(old)}")
