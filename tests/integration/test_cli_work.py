"""``towpath work`` as a process: what it handles, prints and answers, and how it obeys signals."""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from towpath import NewMessage, connect
from towpath.ports import Transport
from towpath.resolve import resolve
from towpath.topology import parse_topology

TOWPATH = str(Path(sys.executable).with_name("towpath"))
PATIENCE = 60
TOPOLOGY = {
    "name": "shop",
    "topics": {"orders.new": {"transport": "database"}},
    "subscriptions": {
        "orders.bill": {"topic": "orders.new", "handler": "shop_handlers:process"},
        "orders.broken": {"topic": "orders.new", "handler": "shop_handlers:nothing_here", "filter": {"never": ["x"]}},
    },
}
HANDLERS = """
import time
from towpath import DeadLetter, Retry

def process(message, context):
    if message.payload == "wait":
        context.log.info("started")
        while not context.aborted:
            time.sleep(0.01)
        context.check()
    if message.payload == "ignore":
        context.log.info("started")
        time.sleep(600)
    if message.payload == "exit":
        raise SystemExit(7)
    if message.payload == "later":
        return Retry("not yet", after=600)
    context.log.info("handled %s", message.payload)
    return DeadLetter("not for us") if message.payload == "bad" else None
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Transport]:
    (tmp_path / "shop_handlers.py").write_text(textwrap.dedent(HANDLERS), encoding="utf-8")
    transport = connect(f"sqlite:///{tmp_path / 'shop.db'}")
    transport.apply(resolve(parse_topology(TOPOLOGY), "test"))
    yield transport
    transport.close()


def put(shop: Transport, *payloads: object) -> None:
    results = shop.publish("orders.new", [NewMessage(payload=payload) for payload in payloads])
    assert all(result.status == "accepted" for result in results)


def states(shop: Transport) -> dict[str, int]:
    (row,) = [row for row in shop.operator().stats() if row.subscription == "orders.bill"]
    return {"pending": row.pending, "leased": row.leased, "dead": row.dead, "completed": row.completed}


def environment() -> dict[str, str]:
    return {**os.environ, "TOWPATH_TRANSPORT": "sqlite:///shop.db", "COLUMNS": "200", "NO_COLOR": "1"}


@pytest.fixture
def work(shop: Transport, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess]:
    def run(*arguments: str) -> subprocess.CompletedProcess:
        command = [TOWPATH, "work", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    return run


class Started:
    """A worker process; its log lines are read as they come."""

    def __init__(self, folder: Path, *arguments: str):
        self.process = subprocess.Popen(
            [TOWPATH, "work", *arguments],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.put(line)

    def wait_for(self, text: str) -> None:
        while text not in self.lines.get(timeout=PATIENCE):
            pass

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        output = self.process.stdout.read()
        return self.process.wait(PATIENCE), output


@pytest.fixture
def start(shop: Transport, tmp_path: Path) -> Iterator[Callable[..., Started]]:
    begun: list[Started] = []

    def begin(*arguments: str) -> Started:
        begun.append(Started(tmp_path, *arguments))
        return begun[-1]

    yield begin
    for worker in begun:
        worker.process.kill()
        worker.process.wait(PATIENCE)
        worker.process.stdout.close()
        worker.process.stderr.close()


# --- Handling --------------------------------------------------------------------------------------------------


def test_once_handles_what_is_due_and_tells_what_it_did(shop, work):
    put(shop, 1, "bad", 2)
    done = work("orders.bill", "--once")
    assert (done.returncode, done.stdout) == (0, "3 received: 2 completed, 1 dead\n")
    assert "ERROR   delivery dead reason=not for us" in done.stderr
    assert "handled 1" in done.stderr
    assert states(shop) == {"pending": 0, "leased": 0, "dead": 1, "completed": 2}


def test_what_goes_back_for_another_attempt_was_retried(shop, work):
    put(shop, "later")
    assert work("orders.bill", "--once").stdout == "1 received: 1 retried\n"


def test_a_worker_says_what_it_serves_and_how_to_end_it(shop, work):
    told = "serving orders.bill on sqlite:///shop.db (8 threads); Ctrl-C drains"
    assert work("orders.bill", "--once").stderr.splitlines() == [told]
    assert "(1 thread); " in work("orders.bill", "--once", "--concurrency", "1").stderr


def test_a_star_that_the_shell_expanded_is_told_to_be_quoted(shop, work):
    done = work("shop.db", "shop_handlers.py")
    assert done.returncode == 1
    assert done.stderr == (
        "error: there is no subscription 'shop.db'; "
        "it is a file of this folder: quote the star, as in towpath work '*'\n"
    )


def test_as_json_every_line_is_an_object(shop, work):
    put(shop, 1)
    done = work("orders.bill", "--once", "--json")
    assert json.loads(done.stdout) == {"received": 1, "completed": 1}
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["message"], line["attempt"]) for line in lines] == [("handled 1", 1), ("delivery completed", 1)]


def test_max_leaves_the_rest(shop, work):
    put(shop, 1, 2, 3)
    assert work("orders.bill", "--max", "2").stdout == "2 received: 2 completed\n"
    assert states(shop)["pending"] == 1


# --- What is refused -------------------------------------------------------------------------------------------


def test_a_handler_that_does_not_resolve_is_told_in_one_sentence_and_nothing_is_claimed(shop, work):
    put(shop, 1)
    for names in (["orders.broken"], ["orders.bill", "orders.broken"], ["*"]):
        done = work(*names, "--once")
        assert done.returncode == 1
        assert done.stderr == ("error: handler 'shop_handlers:nothing_here': 'shop_handlers' has no 'nothing_here'\n")
    assert states(shop)["pending"] == 1


def test_that_the_topology_has_switched_a_subscription_off_is_told(shop, work):
    paused = TOPOLOGY["subscriptions"]["orders.bill"] | {"status": "paused"}
    subscriptions = TOPOLOGY["subscriptions"] | {"orders.bill": paused}
    shop.apply(resolve(parse_topology(TOPOLOGY | {"subscriptions": subscriptions}), "test"))
    put(shop, 1)
    done = work("orders.bill", "--once")
    assert (done.returncode, done.stdout) == (0, "0 received\n")
    assert "orders.bill is paused: nothing is claimed from it" in done.stderr


def test_an_unknown_subscription_is_told_with_the_known_ones(work):
    done = work("orders.bil")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: there is no subscription 'orders.bil'; this database has orders.bill, orders.broken; "
        "did you mean 'orders.bill'?\n"
    )


@pytest.mark.parametrize(
    "option",
    [
        "--concurrency=0",
        "--concurrency=1001",
        "--max=0",
        "--drain=-1",
        "--drain=inf",
        "--idle-exit=-1",
        "--idle-exit=nan",
    ],
)
def test_an_option_out_of_range_is_wrong_use(work, option):
    done = work("orders.bill", option)
    assert done.returncode == 2
    assert option.partition("=")[0] in done.stderr


def test_a_handler_that_exits_has_failed_an_attempt_and_the_worker_goes_on(shop, work):
    put(shop, "exit")
    done = work("orders.bill", "--concurrency", "1", "--max", "1")
    assert done.returncode == 0
    assert "1 received: 1 retried" in done.stdout
    assert states(shop)["pending"] == 1


# --- Signals ---------------------------------------------------------------------------------------------------


def assert_released(shop: Transport, worker: Started) -> None:
    """A receive that was waiting when the signal came may have claimed the delivery once more, and given it back."""
    code, output = worker.end()
    assert code == 0
    assert re.fullmatch(r"(\d) received: \1 given back\n", output)
    assert states(shop) == {"pending": 1, "leased": 0, "dead": 0, "completed": 0}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_the_worker_ends_in_order(shop, start, number):
    put(shop, "wait")
    worker = start("orders.bill", "--drain", "0.1")
    worker.wait_for("started")
    worker.signal(number)
    worker.wait_for("draining: up to 0.1 s; press Ctrl-C again to abort")
    assert_released(shop, worker)


def test_a_second_signal_aborts_at_once(shop, start):
    put(shop, "wait")
    worker = start("orders.bill", "--drain", "3600")
    worker.wait_for("started")
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGINT)
    assert_released(shop, worker)


def test_a_handler_that_ignores_everything_does_not_keep_the_process(shop, start):
    put(shop, "ignore")
    worker = start("orders.bill", "--drain", "0")
    worker.wait_for("started")
    worker.signal(signal.SIGTERM)
    assert_released(shop, worker)
    (again,) = shop.consumer("orders.bill").receive(1, timedelta(0))
    assert again.attempt == 1  # a release gives the attempt back
