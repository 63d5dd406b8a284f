"""Order and parallel sending: what may be on its way at once, and what a failure holds up."""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st

from aws_transport.batches import DeduplicationClaim, Entry
from aws_transport.bindings import TopicBinding
from aws_transport.lanes import Lanes
from aws_transport.publisher import SnsPublisher
from aws_transport.sending import Flow, Sent
from towpath.envelope import Prepared, Sources, prepare
from towpath.message import NewMessage, PublishResult
from towpath.resolve import resolve
from towpath.topology import parse_topology

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Request = Sequence[Mapping[str, Any]]
Answer = Callable[[Request], dict[str, Any]]


def taken(entries: Request) -> dict[str, Any]:
    return {"Successful": [{"Id": entry["Id"], "MessageId": "m"} for entry in entries], "Failed": []}


def throttled(entries: Request) -> dict[str, Any]:
    response: Any = {"Error": {"Code": "Throttling", "Message": "slowly"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    raise ClientError(response, "PublishBatch")


class FakeSns:
    """Answers as told, and watches which groups are on their way at once."""

    def __init__(self, answer: Answer = taken) -> None:
        self.answer = answer
        self.calls: list[Request] = []
        self.arrived: dict[str, list[str]] = defaultdict(list)
        self.most_at_once = 0
        self._flying: Counter[str] = Counter()
        self._calls_at_once = 0
        self._lock = threading.Lock()

    def publish_batch(self, **request: Any) -> dict[str, Any]:
        entries = request["PublishBatchRequestEntries"]
        groups = [entry["MessageGroupId"] for entry in entries if "MessageGroupId" in entry]
        with self._lock:
            self.calls.append(entries)
            self._calls_at_once += 1
            self.most_at_once = max(self.most_at_once, self._calls_at_once)
            self._flying.update(groups)
            assert not groups or max(self._flying.values()) == 1, "two messages of one key are on their way"
        try:
            answer = self.answer(entries)
        finally:
            with self._lock:
                self._calls_at_once -= 1
                self._flying.subtract(groups)
        accepted = {entry["Id"] for entry in answer["Successful"]}
        for entry in entries:
            if entry["Id"] in accepted:
                self.arrived[entry.get("MessageGroupId", "")].append(entry["Id"])
        return answer


def publisher(sns: FakeSns) -> SnsPublisher:
    manifest = resolve(parse_topology({"name": "test", "topics": {"steps": {"fifo": True}, "plain": {}}}), "unit")
    numbers = iter(range(1, 10_000))
    return SnsPublisher(
        topics=manifest.topics,
        bindings={name: TopicBinding(arn=f"arn:{name}", fifo=name == "steps") for name in manifest.topics},
        client=sns,
        sources=Sources(clock=lambda: NOW, random_bytes=lambda size: next(numbers).to_bytes(size, "big")),
    )


def keyed(keys: str) -> list[NewMessage]:
    return [NewMessage(payload=n, partition_key=key) for n, key in enumerate(keys)]


def codes(results: Sequence[PublishResult]) -> list[str]:
    return [result.error.code if result.error is not None else result.status for result in results]


# --- FIFO ------------------------------------------------------------------------------------------------------


def test_a_batch_holds_one_message_of_a_key_and_each_key_keeps_its_order() -> None:
    sns = FakeSns()
    assert codes(publisher(sns).publish("steps", keyed("aabacbbcca" * 5))) == ["accepted"] * 50
    for call in sns.calls:
        assert len({entry["MessageGroupId"] for entry in call}) == len(call)
    for key in "abc":
        assert sns.arrived[key] == [str(n) for n, one in enumerate("aabacbbcca" * 5) if one == key]


def test_keys_that_share_a_group_once_sqs_has_them_are_one_lane() -> None:
    sns = FakeSns()
    publisher(sns).publish("steps", [NewMessage(payload=n, partition_key="Z\u00fcrich") for n in range(3)])
    assert [len(call) for call in sns.calls] == [1, 1, 1]


def test_many_keys_go_side_by_side() -> None:
    meeting = threading.Barrier(4, timeout=10)

    def together(entries: Request) -> dict[str, Any]:
        meeting.wait()
        return taken(entries)

    messages = [NewMessage(payload=n, partition_key=f"k{n}") for n in range(40)]
    assert codes(publisher(FakeSns(together)).publish("steps", messages)) == ["accepted"] * 40


def test_after_an_entry_that_failed_its_keys_later_ones_are_not_sent() -> None:
    def second_of_a_fails(entries: Request) -> dict[str, Any]:
        failed = [e for e in entries if e["MessageGroupId"] == "a" and '"payload":2' in e["Message"]]
        fault = {"Code": "InternalError", "Message": "oops", "SenderFault": False}
        good = [entry for entry in entries if entry not in failed]
        return taken(good) | {"Failed": [fault | {"Id": entry["Id"]} for entry in failed]}

    sns = FakeSns(second_of_a_fails)
    results = publisher(sns).publish("steps", keyed("abababa"))
    assert codes(results) == [
        "accepted",
        "accepted",
        "TransportUnavailable",
        "accepted",
        "TransportUnavailable",
        "accepted",
        "TransportUnavailable",
    ]
    assert [results[n].error.retryable for n in (2, 4, 6)] == [True] * 3
    assert "an earlier message of its key was rejected (TransportUnavailable)" in results[4].error.message
    assert (sns.arrived["a"], sns.arrived["b"]) == (["0"], ["1", "3", "5"])
    sent_again = {entry["Id"] for call in sns.calls for entry in call}
    assert sent_again == {"0", "1", "2", "3", "5"}
    assert results[4].id is not None


def test_a_message_that_breaks_the_contract_rejects_only_itself_in_its_key_too() -> None:
    sns = FakeSns()
    messages = keyed("aaa")
    messages[1] = NewMessage(payload=float("nan"), partition_key="a")
    assert codes(publisher(sns).publish("steps", messages)) == ["accepted", "InvalidPayload", "accepted"]
    assert sns.arrived["a"] == ["0", "2"]


# --- Not too much at once --------------------------------------------------------------------------------------


def test_no_more_than_eight_batches_are_on_their_way() -> None:
    sns = FakeSns()
    publisher(sns).publish("plain", [NewMessage(payload=n) for n in range(500)])
    assert (len(sns.calls), sns.most_at_once <= 8) == (50, True)


def test_a_service_that_takes_nothing_is_not_called_for_all_that_is_left() -> None:
    for fail in (throttled, lambda entries: _raise(EndpointConnectionError(endpoint_url="https://sns"))):
        sns = FakeSns(fail)
        results = publisher(sns).publish("plain", [NewMessage(payload=n) for n in range(1_000)])
        assert codes(results) == ["TransportUnavailable"] * 1_000
        assert len(sns.calls) <= 3 + 7  # the third failure stops it, with seven more on their way at most
        assert "did not take the calls before it" in results[-1].error.message
        assert all(result.id is not None for result in results)


def _raise(error: Exception) -> dict[str, Any]:
    raise error


def test_failures_that_are_not_in_a_row_slow_down_and_stop_nothing() -> None:
    numbers = iter(range(1_000))
    sns = FakeSns(lambda entries: throttled(entries) if next(numbers) % 3 == 1 else taken(entries))
    results = publisher(sns).publish("plain", [NewMessage(payload=n) for n in range(10)] * 1)
    assert codes(results) == ["accepted"] * 10
    flow = Flow(most=8, allowed=8)
    allowed = []
    for unavailable in (True, True, False, True, False, False):
        flow.told(Sent(results={}, unavailable=unavailable))
        allowed.append(flow.allowed)
    assert (allowed, flow.stopped) == ([4, 2, 3, 1, 2, 3], False)


def test_three_failures_in_a_row_stop_the_flow() -> None:
    flow = Flow()
    for _ in range(3):
        assert not flow.stopped
        flow.told(Sent(results={}, unavailable=True))
    assert (flow.allowed, flow.stopped) == (1, True)


def test_an_answer_that_takes_one_entry_of_a_batch_is_no_failure_of_the_service() -> None:
    def one_of_ten(entries: Request) -> dict[str, Any]:
        fault = {"Code": "ThrottledException", "Message": "slowly", "SenderFault": True}
        return taken(entries[:1]) | {"Failed": [fault | {"Id": entry["Id"]} for entry in entries[1:]]}

    sns = FakeSns(one_of_ten)
    publisher(sns).publish("plain", [NewMessage(payload=n) for n in range(100)])
    assert len(sns.calls) == 10


# --- Lanes by themselves ---------------------------------------------------------------------------------------


def entries(plan: Sequence[tuple[int | None, int | None]]) -> list[Entry]:
    def prepared() -> Prepared:
        made = prepare("plain", NewMessage(payload=1), 262_144, Sources(clock=lambda: NOW, random_bytes=bytes))
        assert isinstance(made, Prepared)
        return made

    one = prepared()
    return [
        Entry(
            position=position,
            prepared=one,
            group=None if group is None else f"g{group}",
            claim=None if key is None else DeduplicationClaim(key=f"k{key}", ttl_seconds=60, window="fixed"),
        )
        for position, (group, key) in enumerate(plan)
    ]


Plan = st.lists(st.tuples(st.none() | st.integers(0, 3), st.none() | st.integers(0, 3)), max_size=40)


@given(plan=Plan, data=st.data())
def test_every_entry_leaves_once_alone_in_its_lanes_and_in_their_order(plan: Any, data: st.DataObject) -> None:
    made = entries(plan)
    lanes = Lanes(made)
    flying: list[Entry] = []
    left: list[Entry] = []
    refused_groups: set[str] = set()
    withdrawn: list[Entry] = []
    while True:
        for entry in lanes.batch():
            assert not {name for one in flying for name in one.lanes} & set(entry.lanes)
            earlier = [one for one in made if one.position < entry.position and set(one.lanes) & set(entry.lanes)]
            assert all(one in left or one in withdrawn for one in earlier)
            assert entry.group not in refused_groups
            flying.append(entry)
        if not flying:
            break
        entry = flying.pop(data.draw(st.integers(0, len(flying) - 1)))
        left.append(entry)
        if data.draw(st.booleans()):
            lanes.taken(entry)
        else:
            behind = lanes.refused(entry)
            assert all(one.group == entry.group and one.position > entry.position for one in behind)
            if entry.group is not None:
                refused_groups.add(entry.group)
            withdrawn += behind
    assert sorted(one.position for one in left + withdrawn) == list(range(len(made)))
    assert lanes.rest() == []


@pytest.mark.parametrize("sent", [0, 1])
def test_what_was_not_sent_is_the_rest(sent: int) -> None:
    lanes = Lanes(entries([(0, None), (0, None), (1, None)]))
    batch = lanes.batch() if sent else []
    assert [one.position for one in batch] == [0, 2][: 2 * sent]
    assert [one.position for one in lanes.rest()] == ([1] if sent else [0, 1, 2])
    assert not lanes.is_ready()
