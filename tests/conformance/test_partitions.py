"""The promises of partition keys: C11 to C17, C33 and C34."""

import random
import threading
import time
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from tests.conformance.harness import awaited_dead_letters
from tests.conformance.needs import ONE_PROCESS, leaving_out, needing
from tests.conformance.on_lambda import side_by_side
from towpath import NewMessage
from towpath.operating import Pace, Selection, Warrant

WARRANT = Warrant(actor="suite", reason="the case says so")
TEN = {"lambda": {"batch_size": 10, "concurrency": 8, "timeout_seconds": 60}}  # as many keys as there are in a batch

on_ordered = needing("ordered")


def keyed(mode, **more):
    topic = {"transport": "database"} if mode == "ordered" else {}  # no other transport keeps an order
    return {"topics": {"orders": topic}, "subscriptions": {"ship": {"topic": "orders", "partition_mode": mode} | more}}


def message(key, name, *script):
    return NewMessage(payload={"script": list(script) or ["complete"], "name": name}, partition_key=key)


def names(running):
    return [observation["payload"]["name"] for observation in running.observations()]


def by_key(running):
    found = defaultdict(list)
    for observation in running.observations():
        found[observation["payload"]["name"].partition("-")[0]].append(observation)
    return found


def assert_none_overlap(observations):
    for earlier, later in pairwise(observations):
        assert later["started"] >= earlier["ended"], f"{later['payload']} began while {earlier['payload']} ran"


# --- Exclusive ---------------------------------------------------------------------------------------------------


@pytest.mark.case("C11", "exclusive: one per key in flight")
def test_an_exclusive_key_has_one_delivery_in_flight(harness):
    with harness.transport(keyed("exclusive")) as running:
        running.publish("orders", *(message(key, f"{key}-{i}", "sleep:0.1") for i in range(4) for key in "ab"))
        running.work(8)
        found = by_key(running)
        assert {key: len(seen) for key, seen in found.items()} == {"a": 4, "b": 4}
        for seen in found.values():
            assert_none_overlap(seen)


@pytest.mark.case("C12", "exclusive: other keys run beside it")
def test_other_keys_run_beside_an_exclusive_key(harness):
    """LocalStack's mapping calls a function for one key at a time, so pollers of the suite's own do."""
    with side_by_side(harness, 1).transport(keyed("exclusive", **TEN)) as running:
        running.publish("orders", *(message(key, key, "sleep:1.5") for key in "abc"))
        running.work(3)
        seen = running.observations()
        assert max(o["started"] for o in seen) < min(o["ended"] for o in seen)


@pytest.mark.case("C13", "exclusive: a dead letter does not block")
def test_a_dead_letter_does_not_block_an_exclusive_key(harness):
    with harness.transport(keyed("exclusive")) as running:
        running.publish("orders", message("a", "a-1", "fatal"), message("a", "a-2"))
        running.work(2)
        assert names(running) == ["a-1", "a-2"]
        assert len(awaited_dead_letters(running, "ship", 1)) == 1


# --- Ordered -----------------------------------------------------------------------------------------------------


@on_ordered
@pytest.mark.case("C14", "ordered: only the head of a key is handed out")
def test_only_the_head_of_an_ordered_key_is_handed_out(harness):
    with harness.transport(keyed("ordered")) as running:
        running.publish("orders", *(message(key, f"{key}-{i}", "sleep:0.1") for i in range(4) for key in "ab"))
        running.work(8)
        for key, seen in by_key(running).items():
            assert [o["payload"]["name"] for o in seen] == [f"{key}-{i}" for i in range(4)]
            assert_none_overlap(seen)


@on_ordered
@pytest.mark.case("C15", "ordered: a head in back-off holds its key")
def test_a_head_in_back_off_holds_its_ordered_key(harness):
    with harness.transport(keyed("ordered")) as running:
        running.publish("orders", message("a", "a-1", "retry:5", "complete"), message("a", "a-2"), message("b", "b-1"))
        running.work(2)
        running.work()
        assert sorted(names(running)) == ["a-1", "b-1"]
        running.advance(6)
        running.work(4)
        assert [name for name in names(running) if name[0] == "a"] == ["a-1", "a-1", "a-2"]


@on_ordered
@pytest.mark.case("C16", "ordered: a dead head blocks until replayed: place kept, attempt 1, replay flag")
def test_a_dead_head_blocks_its_ordered_key_until_it_is_replayed(harness):
    with harness.transport(keyed("ordered")) as running:
        first = message("a", "a-1", "fatal_until_replayed")
        running.publish("orders", first, message("a", "a-2"), message("b", "b-1"))
        running.work(2)
        running.publish("orders", message("a", "a-3"))
        running.advance(harness.lost_lease_seconds)
        running.work()
        assert sorted(names(running)) == ["a-1", "b-1"]
        (letter,) = running.dead_letters("ship")
        assert running.operator.replay(Selection(delivery_ids=(letter.delivery_id,)), WARRANT, Pace()) == 1
        running.work(5)
        seen = by_key(running)["a"]
        assert [o["payload"]["name"] for o in seen] == ["a-1", "a-1", "a-2", "a-3"]
        assert [(o["attempt"], o["is_replay"]) for o in seen[:2]] == [(1, False), (1, True)]


@on_ordered
@pytest.mark.case("C17", "ordered: a dead head blocks until discarded")
def test_a_dead_head_blocks_its_ordered_key_until_it_is_discarded(harness):
    with harness.transport(keyed("ordered")) as running:
        running.publish("orders", message("a", "a-1", "fatal"), message("a", "a-2"))
        running.work(1)
        running.work()
        assert names(running) == ["a-1"]
        running.operator.discard(Selection(subscription="ship", state="dead"), WARRANT, Pace())
        running.work(2)
        assert names(running) == ["a-1", "a-2"]
        assert list(running.dead_letters("ship")) == []


# --- Many at once ------------------------------------------------------------------------------------------------


def drained_by_two_processes(harness, mode):
    """2,000 deliveries of 200 keys, handled by two processes; none is lost, none comes twice under a live lease."""
    deliveries, lease_seconds = 2_000, 120
    with side_by_side(harness, 2).transport(keyed(mode, lease_seconds=lease_seconds, **TEN)) as running:
        new = [message(f"k{i % 200}", f"k{i % 200}-{i}") for i in range(deliveries)]
        published = {r.id for i in range(0, deliveries, 500) for r in running.publish("orders", *new[i : i + 500])}
        took_part = running.drain(processes=2, threads=8, deliveries=deliveries)
        seen = running.observations()
        assert {o["message_id"] for o in seen} == published, "none is lost"
        runs = Counter(o["delivery_id"] for o in seen)
        for delivery in [delivery for delivery, times in runs.items() if times > 1]:
            starts = [o["started"] for o in seen if o["delivery_id"] == delivery]
            assert all(b - a >= lease_seconds for a, b in pairwise(starts)), "one under a live lease"
        assert len({o["pid"] for o in seen}) >= took_part
        for own in by_key(running).values():
            assert_none_overlap(own)
        return by_key(running)


@leaving_out(ONE_PROCESS)
@pytest.mark.timeout(600)
@pytest.mark.case(
    "C33", "2 processes of 8 threads each claim 2,000 deliveries: none twice while a lease holds (mode exclusive)"
)
def test_two_processes_drain_exclusive_keys(harness):
    drained_by_two_processes(harness, "exclusive")


@on_ordered
@pytest.mark.timeout(600)
@pytest.mark.case(
    "C33", "2 processes of 8 threads each claim 2,000 deliveries: none twice while a lease holds (mode ordered)"
)
def test_two_processes_drain_ordered_keys(harness):
    for own in drained_by_two_processes(harness, "ordered").values():
        numbers = [int(o["payload"]["name"].partition("-")[2]) for o in own]
        assert numbers == sorted(numbers)


@on_ordered
@pytest.mark.case("C34", "8 publishers interleave 200 messages on 5 keys: each key's deliveries come in commit order")
def test_deliveries_of_a_key_come_in_the_order_of_commits(harness):
    """A publish that had ended before another one began was committed before it."""
    calls, lock = {}, threading.Lock()

    def publish(running, publisher):
        draw = random.Random(publisher)
        for number in range(25):
            key = draw.choice("abcde")
            name = f"{key}-{publisher}-{number}"
            began = time.monotonic()
            running.publish("orders", message(key, name))
            with lock:
                calls[name] = (began, time.monotonic())

    with harness.transport(keyed("ordered")) as running:
        publishers = [threading.Thread(target=publish, args=(running, number)) for number in range(8)]
        for publisher in publishers:
            publisher.start()
        for publisher in publishers:
            publisher.join()
        assert len(calls) == 200
        running.work(200)
        for own in by_key(running).values():
            came = [o["payload"]["name"] for o in own]
            latest_start = 0.0
            for name in came:
                assert calls[name][1] >= latest_start, f"{name} was committed before one that came earlier"
                latest_start = max(latest_start, calls[name][0])
        assert sorted(names(running)) == sorted(calls)
