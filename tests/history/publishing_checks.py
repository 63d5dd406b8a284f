"""What must hold of publishing: nothing accepted is lost, nothing else is there, places are taken in commit order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.history.events import Call
from tests.history.view import View, Violation

ABSENT_FATES = ("suppressed", "rolled back", "refused")


def lost(view: View) -> Iterator[Violation]:
    """Each delivery of an accepted message has ended, is dead, or is open still."""
    history = view.history
    for message, fate in view.fates.items():
        if fate != "accepted":
            continue
        if message not in history.ordinals:
            yield Violation(rule="lost", subject=f"message {message}", text="it was accepted and is not there")
            continue
        for name, rule in history.rules.items():
            delivery = f"{history.ordinals[message]}-{rule.id}"
            if delivery not in history.open and delivery not in view.endings_of:
                text = f"message {message} was accepted, and {name} neither has it nor ended it"
                yield Violation(rule="lost", subject=f"delivery {delivery}", text=text)


def stuck(view: View) -> Iterator[Violation]:
    """After the quiet end of the run nothing waits but dead letters."""
    for delivery, state in view.history.open.items():
        if state != "dead":
            text = f"it is still {state} after workers had nothing more to do"
            yield Violation(rule="stuck", subject=f"delivery {delivery}", text=text)


def doubled(view: View) -> Iterator[Violation]:
    """What was refused, suppressed or rolled back is not there, nor is anything that nobody published."""
    present = dict.fromkeys(view.history.ordinals, "it is in the table")
    present |= {claim.message: f"delivery {claim.delivery} was handed out" for claim in view.history.claims}
    for message, where in present.items():
        fate = view.fates.get(message)
        if fate is None:
            yield Violation(rule="doubled", subject=f"message {message}", text=f"nobody published it, yet {where}")
        elif fate in ABSENT_FATES:
            yield Violation(rule="doubled", subject=f"message {message}", text=f"it was {fate}, yet {where}")


def torn(view: View) -> Iterator[Violation]:
    """Of a call without an answer either all messages are there or none, but for what a key may suppress."""
    for call in view.history.calls:
        if call.transaction is not None or call.answers:
            continue
        alone = [sent.id for sent in call.messages if sent.deduplication_key is None]
        if any(view.fates[message] != "unknown" for message in alone):
            continue  # published again, or refused
        there = sum(message in view.history.ordinals for message in alone)
        if there not in (0, len(alone)):
            text = f"{there} of its {len(alone)} messages are there, and nobody was told"
            yield Violation(rule="torn", subject=f"call of message {alone[0]}", text=text)


def repeated(view: View) -> Iterator[Violation]:
    """Of a deduplication key at most one message is there, and a duplicate names one that is."""
    there: dict[str, set[str]] = defaultdict(set)
    for call in view.history.calls:
        for sent, answer in view.answers(call):
            if sent.deduplication_key is not None and sent.id in view.history.ordinals:
                there[sent.deduplication_key].add(sent.id)
            named = None if answer is None or answer.status != "duplicate" else answer.winner
            if named is not None and view.is_committed(call) and named not in view.history.ordinals:
                text = f"it was called a duplicate of {named}, which is not there"
                yield Violation(rule="repeated", subject=f"message {sent.id}", text=text)
    for key, messages in there.items():
        if len(messages) > 1:
            text = f"messages {', '.join(sorted(messages))} are all there"
            yield Violation(rule="repeated", subject=f"deduplication key {key}", text=text)


def misplaced(view: View) -> Iterator[Violation]:
    """Messages of one key have their places in the order of their commits, and within a call in its order."""
    calls: dict[str, list[tuple[float, float, list[int]]]] = defaultdict(list)
    for call in view.history.calls:
        times = _commit_times(view, call)
        if times is None:
            continue
        for key, ordinals in _places(view, call).items():
            calls[key].append((*times, ordinals))
            if ordinals != sorted(ordinals):
                yield Violation(rule="misplaced", subject=f"key {key}", text=f"one call gave the places {ordinals}")
    for key, entries in calls.items():
        yield from _overtaken(key, entries)


def _commit_times(view: View, call: Call) -> tuple[float, float] | None:
    """Between which moments the call was committed, if it was."""
    if not view.is_committed(call):
        return None
    if call.transaction is None:
        times = call.asked_at, call.answered_at
    else:
        commit = view.history.commits[call.transaction]
        times = commit.asked_at, commit.answered_at
    return None if times[1] is None else (times[0], times[1])


def _places(view: View, call: Call) -> dict[str, list[int]]:
    """The ordinals that the call gave to messages of each key."""
    found: dict[str, list[int]] = defaultdict(list)
    for sent, answer in view.answers(call):
        is_new = answer is not None and answer.status == "accepted" and sent.id in view.history.ordinals
        if is_new and sent.key is not None:
            found[sent.key].append(view.history.ordinals[sent.id])
    return found


def _overtaken(key: str, entries: list[tuple[float, float, list[int]]]) -> Iterator[Violation]:
    """Calls whose commit began after another's was over, and that got an earlier place."""
    ended = sorted(entries, key=lambda entry: entry[1])
    highest, passed = -1, 0
    for asked, _, ordinals in sorted(entries, key=lambda entry: entry[0]):
        while passed < len(ended) and ended[passed][1] < asked:
            highest = max(highest, *ended[passed][2])
            passed += 1
        if min(ordinals) < highest:
            text = f"place {min(ordinals)} was given after place {highest} had been committed"
            yield Violation(rule="misplaced", subject=f"key {key}", text=text)
