"""C44 to C46: what a worker's options and a changed topology promise while it works."""

import json
import time

import pytest

from tests.conformance.harness import PATIENCE, eventually, manifest_of
from tests.conformance.needs import FUNCTIONS, ONE_PROCESS, leaving_out, outside_functions
from towpath import NewMessage
from towpath.worker import Worker, WorkerOptions

NO_WORKER = dict.fromkeys(FUNCTIONS, "has no worker")
ONE = {"topics": {"orders": {}}, "subscriptions": {"bill": {"topic": "orders"}}}
TWO = {
    "topics": {"orders": {}, "letters": {}},
    "subscriptions": {"bill": {"topic": "orders"}, "read": {"topic": "letters"}},
}
CAP = 2
MOST = 7
MANY = 50  # attempts


@leaving_out(NO_WORKER | ONE_PROCESS)
@pytest.mark.case("C44", "several processes claim no more than --max between them, and as many")
def test_claims_of_several_processes_reach_max_and_do_not_exceed_it(harness):
    with harness.transport(ONE) as running:
        running.publish("orders", *[NewMessage(payload={"script": ["complete"]}) for _ in range(3 * MOST)])
        process = running._start_worker("bill", "--max", str(MOST), "--processes", "2", "--concurrency", "4")
        assert process.wait(timeout=PATIENCE) == 0
        assert len(running.observations()) == MOST
        if "exact_backlog" in running.capabilities:
            (row,) = running.operator.stats()
            assert (row.pending, row.leased) == (2 * MOST, 0)


@outside_functions("has no worker")
@pytest.mark.case("C45", "no more deliveries run at a time than --max-in-flight says, over all subscriptions")
def test_the_cap_holds_over_all_subscriptions_and_each_gets_its_turn(harness):
    with harness.transport(TWO) as running:
        for topic in ("orders", "letters"):
            running.publish(topic, *[NewMessage(payload={"script": ["sleep:0.05"]}) for _ in range(8)])
        eventually(lambda: len(running.observations()) == 16 or work_once(running))
        times = [(o["started"], 1) for o in running.observations()] + [(o["ended"], -1) for o in running.observations()]
        assert most_at_a_time(times) <= CAP
        assert {o["subscription"] for o in running.observations()} == {"bill", "read"}


def work_once(running):
    """Once more where SQS said that there is nothing while there was something."""
    Worker(running.transport, running.subscriptions, WorkerOptions(max_in_flight=CAP, once=True)).run()


def most_at_a_time(times):
    running, most = 0, 0
    for _, change in sorted(times):  # at the same moment an end comes first
        running += change
        most = max(most, running)
    return most


@outside_functions("has no worker")
@pytest.mark.case("C46", "rules that are applied while a worker runs hold within seconds, without a restart")
def test_a_worker_follows_rules_that_are_applied_while_it_runs(harness):
    patient = {"topics": {"orders": {}}, "subscriptions": {"bill": {"topic": "orders", "max_attempts": MANY}}}
    with harness.transport(patient) as running, running.attended():
        running.publish("orders", NewMessage(payload={"script": ["complete"]}))
        eventually(running.observations)
        apply_with_one_attempt(harness, running, patient)
        deadline = time.monotonic() + PATIENCE
        while not running.dead_letters("bill"):
            assert time.monotonic() < deadline, "no delivery is dead after its one attempt"
            running.publish("orders", NewMessage(payload={"script": ["error"]}))
            time.sleep(0.5)
        assert max(letter.attempts for letter in running.dead_letters("bill")) < MANY


def apply_with_one_attempt(harness, running, topology):
    """On a database by ``apply``, on AWS by the file that a deployment writes."""
    if "exact_backlog" in running.capabilities:
        changed = {"subscriptions": {"bill": topology["subscriptions"]["bill"] | {"max_attempts": 1}}}
        running.transport.apply(manifest_of(topology | changed, on_database=True))
        return
    file = harness.folder / "manifest.json"
    written = json.loads(file.read_text())
    written["subscriptions"]["bill"]["max_attempts"] = 1
    file.write_text(json.dumps(written))
