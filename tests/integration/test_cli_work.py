"""``towpath work`` as a process: what it handles, prints and answers, and how it obeys signals."""

import contextlib
import json
import os
import pty
import queue
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
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
import os
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
    if message.payload == "fork":
        os.fork()
    if message.payload in ("exit code 0", "exit code 1"):
        os._exit(int(message.payload[-1]))
    if message.payload == "tell pid":
        context.log.info("pid %s", os.getpid())
        while not context.aborted:
            time.sleep(0.01)
        context.check()
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

    def wait_for(self, text: str) -> str:
        while text not in (line := self.lines.get(timeout=PATIENCE)):
            pass
        return line

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
    assert done.stdout == '{"received": 1, "completed": 1}\n'
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["message"], line["attempt"]) for line in lines] == [("handled 1", 1), ("delivery completed", 1)]


def test_max_leaves_the_rest(shop, work):
    put(shop, 1, 2, 3)
    assert work("orders.bill", "--max", "2").stdout == "2 received: 2 completed\n"
    assert states(shop)["pending"] == 1


# --- What is refused -------------------------------------------------------------------------------------------


NOT_THERE = "handler 'shop_handlers:nothing_here': 'shop_handlers' has no 'nothing_here'\n"


@pytest.mark.parametrize("options", [("--once",), ("--processes", "3")])
def test_where_nothing_can_run_it_is_told_in_one_sentence_and_nothing_is_claimed(shop, work, options):
    put(shop, 1)
    done = work("orders.broken", *options)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {NOT_THERE}")
    assert states(shop)["pending"] == 1


def test_a_handler_that_does_not_resolve_keeps_no_other_subscription_from_running(shop, work):
    put(shop, 1)
    done = work("*", "--once")
    assert (done.returncode, done.stdout) == (0, "1 received: 1 completed\n")
    first, *_ = done.stderr.splitlines()
    assert f"{first.partition('ERROR')[2].strip()}\n" == f"orders.broken is not served: {NOT_THERE}"


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
        "--processes=0",
        "--max-in-flight=0",
        "--max-duration=-1",
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


def test_the_copy_that_a_handler_forked_and_returned_in_is_ended(shop, work):
    put(shop, "fork")
    done = work("orders.bill", "--once")  # which waits for all that may write
    assert (done.returncode, done.stdout) == (0, "1 received: 1 completed\n")
    assert done.stderr.count("a handler forked this process, and returned in the copy, which is ended: 1-1") == 1


# --- Several processes -----------------------------------------------------------------------------------------


def test_max_is_shared_by_all_processes_and_their_counts_are_one(shop, work):
    put(shop, *range(40))
    done = work("orders.bill", "--max", "25", "--processes", "3", "--concurrency", "4", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"received": 25, "completed": 25})
    assert states(shop) == {"pending": 15, "leased": 0, "dead": 0, "completed": 25}


def pid_of(worker: Started) -> int:
    """Of the process whose handler tells it."""
    return int(worker.wait_for("pid ").partition("pid ")[2].split()[0])


def ended(pid: int) -> bool:
    """Whether the process is gone; one that nobody waits for any more is."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def await_end(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ended(pid):
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.05)


def test_a_process_that_dies_is_replaced_and_signals_reach_all(shop, start):
    put(shop, "tell pid", "tell pid")
    worker = start("orders.bill", "--concurrency", "1", "--processes", "2", "--drain", "0")
    worker.wait_for("(1 thread, 2 processes); Ctrl-C drains")
    first, second = pid_of(worker), pid_of(worker)
    assert len({first, second, worker.process.pid}) == 3
    assert os.getsid(first) != os.getsid(worker.process.pid)  # what a terminal sends does not reach it
    os.kill(first, signal.SIGKILL)
    told = worker.wait_for(f"worker process {first} ")
    assert "was killed (SIGKILL: by somebody, or because memory ran out); another one starts in 1 s" in told
    put(shop, "tell pid")
    third = pid_of(worker)
    worker.signal(signal.SIGTERM)
    worker.wait_for("draining: up to 0 s")
    code, output = worker.end()
    assert code == 0
    assert re.fullmatch(r"\d received: \d given back\n", output)
    assert all(ended(pid) for pid in (second, third))


def test_a_process_that_a_handler_ends_is_replaced_with_whatever_exit_code_it_ends(shop, start):
    put(shop, "exit code 0", "exit code 1")
    worker = start("orders.bill", "--concurrency", "1", "--processes", "2")
    told = [worker.wait_for("another one starts").rpartition("ended with ")[2][:11] for _ in range(2)]
    assert sorted(told) == ["exit code 0", "exit code 1"]
    put(shop, "after that")
    worker.wait_for("handled after that")
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0


def test_a_second_signal_has_all_processes_abort(shop, start):
    put(shop, "wait", "wait")
    worker = start("orders.bill", "--concurrency", "1", "--processes", "2", "--drain", "3600")
    for _ in range(2):
        worker.wait_for("started")
    worker.signal(signal.SIGINT)
    worker.wait_for("draining")
    worker.signal(signal.SIGINT)
    assert worker.end() == (0, "2 received: 2 given back\n")


def test_processes_drain_when_the_one_that_started_them_is_killed(shop, start):
    put(shop, "tell pid")
    worker = start("orders.bill", "--concurrency", "1", "--processes", "2", "--drain", "0")
    pid = pid_of(worker)
    worker.signal(signal.SIGKILL)
    worker.process.wait(PATIENCE)
    await_end(pid)
    assert states(shop) == {"pending": 1, "leased": 0, "dead": 0, "completed": 0}


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_time_box_drains_whatever_is_left(shop, work, processes):
    put(shop, "wait")
    done = work("orders.bill", "--max-duration", "1", "--drain", "0", "--processes", processes)
    assert (done.returncode, done.stdout) == (0, "1 received: 1 given back\n")


# --- Progress --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", ["1", "2"])
def test_at_a_terminal_a_line_shows_how_far_it_is_below_the_log(shop, tmp_path, processes):
    put(shop, *range(30))
    reading, terminal = pty.openpty()
    process = subprocess.Popen(
        [TOWPATH, "work", "orders.bill", "--max", "30", "--processes", processes],
        cwd=tmp_path,
        env={name: value for name, value in environment().items() if name != "NO_COLOR"} | {"TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
    )
    os.close(terminal)
    shown = read_all(reading)
    output, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output) == (0, "30 received: 30 completed\n")
    assert re.search(r"\d+ handled, [\d,]+ a second, \d+ left", shown)
    assert shown.count("delivery completed") == 30


def read_all(terminal: int) -> str:
    parts = []
    with contextlib.suppress(OSError):  # nobody writes to it any more
        while part := os.read(terminal, 65_536):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()
