"""C41 on AWS: its endpoint goes away in the middle of work, in each of the ways in which networks and AWS do that."""

import threading
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, pairwise

import pytest

from tests.conformance.harness import PATIENCE, eventually
from tests.conformance.needs import leaving_out
from tests.servers.aws_relay import aws_relay
from tests.servers.real_aws import RealAws
from tests.servers.working import observations, workers
from towpath import NewMessage, connect

LEASE_SECONDS = 5
SPARE_SECONDS = 2  # from a claim to the start of its handler, on a busy machine
OUTAGE_SECONDS = 1
RULES = {"lease_seconds": LEASE_SECONDS, "max_attempts": 100, "backoff": {"base_seconds": 0.5, "max_seconds": 1}}
POLLED = {
    "topics": {"orders": {}, "steps": {"fifo": True}},
    "subscriptions": {
        "ship": RULES | {"topic": "orders"},
        "take": RULES | {"topic": "steps", "partition_mode": "exclusive"},
    },
}
MAPPED = {"topics": {"orders": {}}, "subscriptions": {"ship": RULES | {"topic": "orders"}}}
OUTAGES = ("refusing", "cutting", "losing answers", "throttling", "hanging")
PROMISE = "an outage in publish, claim or settle is told truly; nothing is lost or done out of turn"
NOT_HERE = dict.fromkeys(("local-mapping", "moto"), "is in the suite's process, where nothing is cut off")


class Publisher:
    """Publishes one message after another while a block runs, each again under its id until it is taken.

    ``taken`` are the scripts of those that were, by their ids.
    """

    def __init__(self, transport, scripts):
        self._transport = transport
        self._scripts = scripts  # with their topics
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failures = Counter()
        self.taken = {}

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._enough.set()
        self._thread.join(PATIENCE)

    def _run(self):
        for topic, script in cycle(self._scripts):
            if self._enough.is_set():
                return
            self.taken[self._published(topic, NewMessage(payload={"script": script}, partition_key="k"))] = script
            time.sleep(0.05)

    def _published(self, topic, message):
        while True:
            (result,) = self._transport.publish(topic, [message])
            if result.error is None:
                return result.id
            self.failures[result.error.code] += 1
            message = replace(message, id=result.id)


@contextmanager
def outage(relay, weather, *operations, only=None):
    """From the start of the block, and after its end until it has befallen one of each of these operations of AWS. It
    is for all operations, or for ``only`` one.
    """
    relay.turn(weather, only)
    yield
    time.sleep(OUTAGE_SECONDS)
    if weather != "refusing":  # of what was refused nobody knows
        eventually(lambda: all(relay.befallen[weather, operation] for operation in operations))
    relay.turn("fair")


@pytest.fixture
def relay(harness):
    """What stands before AWS, for whom a case has meet its weather."""
    if isinstance(harness.aws, RealAws):
        pytest.skip(f"{harness.name} cannot cut off the real one")
    with aws_relay(harness.aws.endpoint) as made:
        yield made


@leaving_out(NOT_HERE, among=("aws-worker", *NOT_HERE))
@pytest.mark.case("C41", PROMISE)
def test_an_outage_of_aws_loses_nothing_and_everything_goes_on_after_it(harness, relay, tmp_path, monkeypatch):
    """What SNS took and could not say so is two deliveries on a standard queue, and one on a FIFO queue."""
    marks = tmp_path / "started"
    marks.mkdir()
    monkeypatch.setenv("CONFORMANCE_STARTED", str(marks))
    aws, short = replace(harness.aws, endpoint=relay.url), ["sleep:0.02"]
    with replace(harness, aws=aws).transport(POLLED) as running:
        with (
            workers(running.url, tmp_path, 2, "--concurrency", "4", *running.command_options),
            Publisher(running.transport, [("orders", short), ("steps", short)]) as publisher,
        ):
            held = set()
            for weather in OUTAGES:
                done = tmp_path / weather  # one is in a handler's hands, and settled in the outage
                (result,) = running.publish("orders", NewMessage(payload={"script": [f"until:{done}"]}))
                held.add(result.id)
                eventually(lambda known=result.id: list(marks.glob(f"ship-*-{known}")))
                with outage(relay, weather, "PublishBatch", "ReceiveMessage", "DeleteMessageBatch"):
                    done.touch()
            publisher.__exit__()
            eventually(lambda: {o["message_id"] for o in observations(tmp_path)} >= publisher.taken.keys() | held)
            eventually(lambda: [(r.pending, r.leased) for r in running.operator.stats()] == [(0, 0)] * 2)
        assert [row.dead for row in running.operator.stats()] == [0, 0]
    assert set(publisher.failures) <= {"TransportUnavailable"}
    seen = observations(tmp_path)
    assert {o["message_id"] for o in seen} == publisher.taken.keys() | held, "none is lost, none comes from nowhere"
    assert_none_ran_under_a_live_lease(seen)
    assert_one_at_a_time([o for o in seen if o["subscription"] == "take"])


def assert_none_ran_under_a_live_lease(seen):
    starts = defaultdict(list)
    for observation in seen:
        starts[observation["delivery_id"]].append(observation["started"])
    for times in starts.values():
        assert all(b - a >= LEASE_SECONDS - SPARE_SECONDS for a, b in pairwise(sorted(times))), "one beside itself"


def assert_one_at_a_time(seen):
    """All of one key, on a queue that drops what was sent twice: one delivery each, and none begins beside another."""
    deliveries = defaultdict(set)
    for observation in seen:
        deliveries[observation["message_id"]].add(observation["delivery_id"])
    assert {len(ids) for ids in deliveries.values()} == {1}
    for earlier, later in pairwise(sorted(seen, key=lambda observation: observation["started"])):
        assert later["started"] >= earlier["ended"]


TRANSIENT, FATAL = ["transient:1", "complete"], ["fatal"]
# A dead letter is copied only once its message could be hidden, so that its copy meets an outage of its own.
COPY = "SendMessageBatch"
COPIES = [("cutting", (COPY,), COPY), ("losing answers", (COPY,), COPY)]


@pytest.mark.parametrize("harness", ["aws-lambda"], indirect=True)
@pytest.mark.case("C41", PROMISE)
def test_an_outage_of_what_functions_call_loses_nothing_and_everything_goes_on_after_it(harness, relay, tmp_path):
    """The mapping is AWS's own: an outage befalls who publishes, and functions that retry and set aside."""
    variables = {"AWS_ENDPOINT_URL_SQS": relay.url, "CONFORMANCE_OBSERVER_ENDPOINT": harness.aws.endpoint}
    scripts = [("orders", TRANSIENT), ("orders", FATAL)]
    aws = replace(harness.aws, shares_files=False)  # so that they report by a queue, as they do elsewhere
    with replace(harness, aws=aws, variables=variables).transport(MAPPED) as running:
        # What a function could not hide comes again after the queue's time-out, which need not be six function times.
        running.sqs.set_queue_attributes(QueueUrl=running.queue_urls[0], Attributes={"VisibilityTimeout": "12"})
        harness.environment.setenv("TOWPATH_AWS_ENDPOINT", relay.url)
        files = (tmp_path / "manifest.json", tmp_path / "bindings.json")
        ours = {}  # published without the relay, so that functions have something to do
        with connect("aws://eu-west-1", files[0], bindings=files[1]) as cut, Publisher(cut, scripts) as publisher:
            whole = [(weather, ("PublishBatch", "ChangeMessageVisibilityBatch"), None) for weather in OUTAGES]
            for weather, operations, only in [*whole, *COPIES]:
                with outage(relay, weather, *operations, only=only):
                    for _, script in scripts:
                        (result,) = running.publish("orders", NewMessage(payload={"script": script}))
                        ours[result.id] = script
                    eventually(lambda: ours.keys() <= {o["message_id"] for o in running.observations()})
        taken = publisher.taken | ours
        wanted = {message_id for message_id, script in taken.items() if script is TRANSIENT}
        eventually(lambda: wanted <= {o["message_id"] for o in running.observations() if o["action"] == "complete"})
        eventually(lambda: [(r.pending, r.leased) for r in running.operator.stats()] == [(0, 0)])
        letters = running.dead_letters("ship")
        assert {o["message_id"] for o in running.observations()} == taken.keys()
    assert set(publisher.failures) <= {"TransportUnavailable"}
    assert {letter.message_id for letter in letters} == taken.keys() - wanted, "copied once at least"
    assert {letter.reason for letter in letters} == {"scripted fatal failure"}
