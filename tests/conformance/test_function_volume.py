"""A thousand messages through real functions, some of which fail: SNS, SQS, event source mapping, the bundled zip."""

import random
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import pytest

from towpath import NewMessage

MESSAGES, KEYS = 1_000, 50
TRANSIENT, FATAL = 30, 10
SCRIPTS = {"good": ["complete"], "transient": ["transient:1", "complete"], "fatal": ["fatal"]}
HANDLED = MESSAGES + TRANSIENT
# Time enough for a batch on the busiest machine: one that is cut short would come again, as it must.
PATIENT = {"timeout_seconds": 60}
REASON = "scripted fatal failure"

pytestmark = [
    pytest.mark.parametrize("harness", ["aws-lambda"], indirect=True),
    pytest.mark.timeout(600),  # less than a minute on an idle machine
]


@dataclass(frozen=True)
class Planned:
    """One message, and what its handler is to make of it."""

    name: str
    kind: str
    key: str | None

    def message(self):
        return NewMessage(payload={"script": SCRIPTS[self.kind], "name": self.name}, partition_key=self.key)


def mixed():
    """3 % transient and 1 % fatal ones, anywhere."""
    kinds = ["transient"] * TRANSIENT + ["fatal"] * FATAL + ["good"] * (MESSAGES - TRANSIENT - FATAL)
    random.Random(3).shuffle(kinds)
    return [Planned(f"m-{number}", kind, None) for number, kind in enumerate(kinds)]


def mixed_by_key():
    """The same, 20 to a key and the keys in turn. No key has two that fail.

    What waits behind a failed one in its batch goes back unstarted, and its next attempt is its second: one that was
    to fail in its first would not.
    """
    draw = random.Random(3)
    failing = ["transient"] * TRANSIENT + ["fatal"] * FATAL + ["good"] * (KEYS - TRANSIENT - FATAL)
    draw.shuffle(failing)
    places = {key: draw.randrange(MESSAGES // KEYS) for key in range(KEYS)}
    return [
        Planned(f"{key}-{place}", failing[key] if place == places[key] else "good", f"key-{key}")
        for place in range(MESSAGES // KEYS)
        for key in range(KEYS)
    ]


def run(harness, planned, **subscription):
    """Publish all, let functions work, and check the counts. Answers what was seen, in the order of its starts."""
    topology = {"topics": {"orders": {}}, "subscriptions": {"ship": {"topic": "orders"} | subscription}}
    with harness.transport(topology) as running:
        results = running.publish("orders", *(plan.message() for plan in planned))
        kind_of = {result.id: plan.kind for result, plan in zip(results, planned, strict=True)}
        assert len(kind_of) == MESSAGES
        running.work(HANDLED)
        seen = running.observations()
        assert_each_ended_as_planned(seen, kind_of)
        assert_dead(running.dead_letters("ship"), {sent for sent, kind in kind_of.items() if kind == "fatal"})
        (stats,) = running.operator.stats()
        assert (stats.pending, stats.leased, stats.dead) == (0, 0, FATAL), "nothing is left over"
        return seen


def assert_each_ended_as_planned(seen, kind_of):
    attempts = defaultdict(list)
    for observation in seen:
        attempts[observation["message_id"]].append((observation["attempt"], observation["action"]))
    assert attempts.keys() == kind_of.keys(), "none is lost, and none is made up"
    for message_id, runs in attempts.items():
        kind = kind_of[message_id]
        assert [SCRIPTS[kind][i].partition(":")[0] for i in range(len(runs))] == [action for _, action in runs], kind
    assert len(seen) == HANDLED


def assert_dead(letters, fatal):
    assert {letter.message_id for letter in letters} == fatal
    assert len(letters) == FATAL
    assert {(letter.reason, letter.subscription) for letter in letters} == {(REASON, "ship")}


def test_a_thousand_messages_end_as_their_handlers_say(harness):
    seen = run(harness, mixed(), **{"lambda": PATIENT})
    attempts = defaultdict(list)
    for observation in seen:
        attempts[observation["message_id"]].append(observation["attempt"])
    assert sorted(attempts.values()) == sorted([[1]] * (MESSAGES - TRANSIENT) + [[1, 2]] * TRANSIENT)


def test_a_thousand_messages_of_fifty_keys_are_handled_one_of_a_key_at_a_time_and_in_their_order(harness):
    planned = mixed_by_key()
    seen = run(harness, planned, partition_mode="exclusive", **{"lambda": PATIENT | {"batch_size": 10}})
    by_key = defaultdict(list)
    for observation in seen:
        by_key[observation["partition_key"]].append(observation)
    assert len(by_key) == KEYS
    for key, own in by_key.items():
        for earlier, later in pairwise(own):
            assert later["started"] >= earlier["ended"], f"two of {key} at a time"
        first_handled = list(dict.fromkeys(observation["payload"]["name"] for observation in own))
        assert first_handled == [plan.name for plan in planned if plan.key == key]
