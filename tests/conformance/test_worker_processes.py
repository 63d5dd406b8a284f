"""C35 to C37: worker processes that are drained, killed, or work for long, in real time with leases of 5 s.

All of it happens beside each other, once on each transport: ``lived`` is what came of it.
"""

import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import opened
from tests.conformance.harness import PATIENCE, Observation, WorkerRunning
from tests.conformance.needs import FUNCTIONS, ONE_PROCESS, TRANSPORTS, parameters
from towpath import NewMessage

LEASE_SECONDS = 5
LONG_SECONDS = 5 * LEASE_SECONDS + 1
BACKOFF_SECONDS = 1
DRAIN_SECONDS = 3
GRACE_SECONDS = 5  # what a handler gets to notice its abort: WorkerOptions.abort_grace
SPARE_SECONDS = 15  # for what a busy machine adds to the end of a process
CLAIM_SECONDS = 2  # from a claim to the start of its handler, on a busy machine

NAMES = ("drained", "killed", "long", "stalled")
RULES = {
    "lease_seconds": LEASE_SECONDS,
    "max_attempts": 10,
    "backoff": {"base_seconds": BACKOFF_SECONDS, "max_seconds": 2 * BACKOFF_SECONDS},
}
TOPOLOGY = {
    "topics": {name: {} for name in NAMES},
    "subscriptions": {name: RULES | {"topic": name} for name in NAMES}
    | {"stalled": RULES | {"topic": "stalled", "heartbeat": "manual"}},
}


@dataclass(kw_only=True)
class Lived:
    """What came of it. ``ids`` are messages by what their handlers do, ``pids`` the processes by what they served."""

    capabilities: frozenset[str]
    ids: dict[str, list[str]] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)  # the first attempt of each message, that was announced
    seen: dict[str, list[Observation]] = field(default_factory=dict)  # by message
    dead: list[Any] = field(default_factory=list)
    left: dict[str, tuple[int, int, int | None]] = field(default_factory=dict)  # pending, leased, completed
    drain_began: float = 0.0
    drain_seconds: float = 0.0

    def after_a_release(self) -> int:
        """The number of the next attempt."""
        return 1 if "release_refunds_attempt" in self.capabilities else 2

    def lost_seconds(self) -> int:
        """How long after a claim that is never renewed its delivery comes again."""
        return LEASE_SECONDS + (BACKOFF_SECONDS if "expired_lease_backs_off" in self.capabilities else 0)


@pytest.fixture(
    scope="module",
    params=parameters(dict.fromkeys(FUNCTIONS, "has no worker that could be stopped") | ONE_PROCESS),
)
def lived(request, tmp_path_factory) -> Lived:
    """Everything that the cases look at, done once."""
    folder = tmp_path_factory.mktemp("lived")
    with (
        pytest.MonkeyPatch.context() as environment,
        opened(request.param, request, folder, environment) as harness,
        harness.transport(TOPOLOGY) as running,
    ):
        scene = Scene(running, folder, Lived(capabilities=TRANSPORTS[request.param]))
        with scene.ending():
            scene.play()
        return scene.lived


class Scene:
    """Four workers, each with handlers of its own in the middle of something, and one that takes whatever it gets."""

    def __init__(self, running: WorkerRunning, folder: Path, lived: Lived) -> None:
        self.running, self.folder, self.lived = running, folder, lived
        self.marks = folder / "started"
        self.marks.mkdir()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def play(self) -> None:
        """Each step waits until the one before it has come true, however long that takes."""
        self.publish("drained", "finishes", f"until:{self.signal('finish')}", count=2)
        self.publish("drained", "stops", "wait")
        self.publish("drained", "ignores", "ignore")
        self.publish("killed", "killed", "wait", "complete", count=3)
        self.publish("long", "long", f"until:{self.signal('long')}")
        self.publish("stalled", "stalled", f"dead_letter_after:{self.signal('stalled')}", "complete")
        self.start("drained", "--concurrency", "4", "--drain", str(DRAIN_SECONDS))
        self.start("killed", "--concurrency", "3")
        self.start("long", "--concurrency", "1")
        self.start("stalled", "--concurrency", "1")
        self.eventually(lambda: len(list(self.marks.iterdir())) == 9)  # all handlers run
        self.publish("drained", "left", "complete", count=3)
        self.start("*")
        self.eventually(lambda: self.are_seen("left"))  # the other one works, too
        self.processes["killed"].kill()
        self.drain()
        self.eventually(lambda: self.are_seen("killed", "stalled", "ignores", "stops", "finishes"))
        time.sleep(max(0.0, self.started()[self.lived.ids["long"][0]] + LONG_SECONDS - time.time()))
        for name in ("long", "stalled"):
            self.signal(name).touch()
        self.eventually(lambda: self.are_seen("long") and len(self.seen()[self.lived.ids["stalled"][0]]) == 2)

    def drain(self) -> None:
        """Tell a worker to stop, and only then let what can finish do so."""
        self.lived.drain_began = time.time()
        began = time.monotonic()
        self.processes["drained"].terminate()
        time.sleep(0.5)
        self.signal("finish").touch()
        self.lived.codes["drained"] = self.processes["drained"].wait(PATIENCE)
        self.lived.drain_seconds = time.monotonic() - began

    def signal(self, name: str) -> Path:
        """The file that a handler waits for."""
        return self.folder / name

    def publish(self, topic: str, name: str, *script: str, count: int = 1) -> None:
        new = [NewMessage(payload={"script": list(script)}) for _ in range(count)]
        self.lived.ids[name] = [str(result.id) for result in self.running.publish(topic, *new)]

    def start(self, subscription: str, *options: str) -> None:
        """Only the four are made to wait, and tell when their handlers start."""
        told = {} if subscription == "*" else {"CONFORMANCE_STARTED": str(self.marks), "CONFORMANCE_WAIT": "1"}
        self.processes[subscription] = self.running._start_worker(subscription, *options, **told)
        self.lived.pids[subscription] = self.processes[subscription].pid

    def started(self) -> dict[str, float]:
        return {mark.name.split("-", 2)[2]: mark.stat().st_mtime for mark in self.marks.iterdir()}

    def seen(self) -> dict[str, list[Observation]]:
        by_message = defaultdict(list)
        for observation in self.running.observations():
            by_message[observation["message_id"]].append(observation)
        return by_message

    def are_seen(self, *names: str) -> bool:
        """Whether all of these came to an end in some worker, but for the ones that were stopped only."""
        seen = self.seen()
        return all(
            any(o["pid"] != self.lived.pids["drained"] or name == "finishes" for o in seen.get(one, ()))
            for name in names
            for one in self.lived.ids[name]
        )

    @staticmethod
    def eventually(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "it did not come true"
            time.sleep(0.1)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Stop what still runs, which must end well, and take down how it all stands."""
        try:
            yield
            running = {name: self.processes[name] for name in ("*", "long", "stalled")}
            for process in running.values():
                process.send_signal(signal.SIGTERM)
            self.lived.codes |= {name: process.wait(PATIENCE) for name, process in running.items()}
        finally:
            for process in self.processes.values():
                process.kill()
                process.wait()
        self.lived.started, self.lived.seen = self.started(), self.seen()
        self.lived.dead = [letter for name in NAMES for letter in self.running.dead_letters(name)]
        rows = self.running.operator.stats()
        self.lived.left = {row.subscription: (row.pending, row.leased, row.completed) for row in rows}


@pytest.mark.case("C35", "drain: Complete settles, others are released, nothing is lost, within the time said")
def test_a_drained_worker_settles_what_completes_and_gives_back_the_rest(lived):
    assert lived.codes["drained"] == 0
    said = DRAIN_SECONDS + GRACE_SECONDS  # since one handler ignores its abort
    assert said <= lived.drain_seconds <= said + SPARE_SECONDS
    own, other = lived.pids["drained"], lived.pids["*"]
    for one in lived.ids["finishes"]:
        (seen,) = lived.seen[one]
        assert (seen["pid"], seen["attempt"]) == (own, 1)
        assert seen["ended"] > lived.drain_began, "it was still running when the worker was told to stop"
    (stopped,) = lived.ids["stops"]
    again = lived.after_a_release()
    assert [(o["pid"], o["attempt"]) for o in lived.seen[stopped]] == [(own, 1), (other, again)]
    (ignoring,) = lived.ids["ignores"]
    assert [(o["pid"], o["attempt"]) for o in lived.seen[ignoring]] == [(other, again)]
    assert [len(lived.seen[one]) for one in lived.ids["left"]] == [1, 1, 1]
    assert_all_are_completed(lived, "drained", 7)


@pytest.mark.case("C36", "a worker killed mid-handler: its deliveries come again after the lease, none lost")
def test_deliveries_of_a_killed_worker_come_again_after_the_lease(lived):
    for one in lived.ids["killed"]:
        (seen,) = lived.seen[one]
        assert (seen["pid"], seen["attempt"]) == (lived.pids["*"], 2)
        assert seen["started"] - lived.started[one] >= lived.lost_seconds() - CLAIM_SECONDS
    assert_all_are_completed(lived, "killed", 3)


@pytest.mark.case("C37", "heartbeats keep a handler that runs 5 leases long")
def test_heartbeats_keep_a_handler_that_runs_for_five_leases(lived):
    (one,) = lived.ids["long"]
    (seen,) = lived.seen[one]
    assert (seen["pid"], seen["attempt"]) == (lived.pids["long"], 1)
    assert seen["ended"] - seen["started"] >= 5 * LEASE_SECONDS
    assert lived.codes["long"] == 0
    assert_all_are_completed(lived, "long", 1)


@pytest.mark.case("C37", "a handler that is stalled loses its lease and cannot settle")
def test_a_stalled_handler_loses_its_lease_and_cannot_settle(lived):
    (one,) = lived.ids["stalled"]
    stalled, other = sorted(lived.seen[one], key=lambda observation: observation["attempt"])
    assert (stalled["pid"], stalled["attempt"]) == (lived.pids["stalled"], 1)
    assert (other["pid"], other["attempt"]) == (lived.pids["*"], 2)
    assert other["started"] - stalled["started"] >= lived.lost_seconds() - CLAIM_SECONDS
    assert stalled["ended"] > other["ended"], "it came with its dead letter when the other had completed it"
    assert lived.codes["stalled"] == 0
    assert_all_are_completed(lived, "stalled", 1)


def assert_all_are_completed(lived, subscription, count):
    assert lived.dead == []
    if "exact_backlog" in lived.capabilities:
        assert lived.left[subscription] == (0, 0, count)
