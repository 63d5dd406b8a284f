"""``towpath dev`` as a process: with real keys at a pseudo-terminal, and as lines without one."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.json_shapes import shaped
from towpath import NewMessage, connect

ROOT = Path(__file__).parents[2]
PATIENCE = 120
HANDLER = """
from towpath import FatalError

def ship(message, context):
    order = message.payload
    print(f"an order of {order['customer']}\\n", end="")  # in one piece: others print too
    return None
"""
BROKEN = HANDLER.replace("return None", "return missing_name")
TOPOLOGY = """
name = "shop"
[topics."orders.placed"]
[subscriptions."orders.ship"]
topic = "orders.placed"
handler = "orders:ship"
max_attempts = 1
"""
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")
ALTERNATE_SCREEN, NORMAL_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "topology.toml").write_text(TOPOLOGY)
    (tmp_path / "orders.py").write_text(HANDLER)
    return tmp_path


def environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    return inherited | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "PYTHONDONTWRITEBYTECODE": "1"}


def publish(folder: Path, customer: str) -> None:
    transport = connect(f"sqlite:///{folder / 'dev.db'}")
    try:
        message = NewMessage(payload={"customer": customer}, partition_key="k-1")
        (result,) = transport.publish("orders.placed", [message])
        assert result.status == "accepted"
    finally:
        transport.close()


class AtTerminal:
    """``towpath dev`` at a pseudo-terminal of 50 lines: what is on its screen, and keys for it."""

    def __init__(self, folder: Path) -> None:
        self.terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 180, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "towpath", "dev"],
            cwd=folder,
            env=environment(),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        self.theirs = theirs  # kept open, so that its settings can be read when the process is gone
        self.written = b""

    def read(self, seconds: float) -> bytes:
        """What is written meanwhile."""
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        found = os.read(self.terminal, 65536) if ready else b""
        self.written += found
        return found

    def wait_for(self, *texts: str) -> None:
        """Until all ``texts`` were written from now on: a view is written whole whenever it is drawn."""
        shown, until = b"", time.monotonic() + PATIENCE
        while not all(text in (seen := ESCAPES.sub(b"", shown).decode(errors="replace")) for text in texts):
            assert time.monotonic() < until, f"{texts} not in:\n{seen[-6000:]}"
            shown = (shown + self.read(0.5))[-50_000:]

    def press(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def end(self) -> int:
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < until, "it does not end"
            self.read(0.1)
        while self.read(0.1):
            pass
        return self.process.returncode


@pytest.fixture
def at_terminal(shop: Path) -> Iterator[AtTerminal]:
    started = AtTerminal(shop)
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait()
    os.close(started.terminal)
    os.close(started.theirs)


def assert_restored(at_terminal: AtTerminal) -> None:
    assert termios.tcgetattr(at_terminal.theirs) == at_terminal.before
    assert at_terminal.written.count(ALTERNATE_SCREEN) == at_terminal.written.count(NORMAL_SCREEN) == 1
    assert at_terminal.written.rindex(b"\x1b[?25h") > at_terminal.written.rindex(b"\x1b[?25l")  # the cursor shows


def test_a_handler_is_broken_mended_and_its_dead_letter_replayed_all_at_the_terminal(
    shop: Path, at_terminal: AtTerminal
) -> None:
    at_terminal.wait_for("workers run", "orders.ship", "sqlite:///dev.db", "p pause or resume")
    publish(shop, "Ada")
    at_terminal.wait_for("completed", "k-1", "an order of Ada")

    (shop / "orders.py").write_text(BROKEN)
    at_terminal.wait_for("changed: orders.py", "workers run")
    publish(shop, "Bob")
    at_terminal.wait_for("dead", "MaxAttemptsExceeded (NameError:", "Traceback", "return missing_name")
    at_terminal.press("e")
    at_terminal.wait_for("q quit")

    (shop / "orders.py").write_text("this is no Python\n")
    at_terminal.wait_for("no workers: waiting for a change", "SyntaxError: invalid syntax")
    (shop / "orders.py").write_text(HANDLER)
    at_terminal.wait_for("workers run")
    at_terminal.press("r")
    at_terminal.wait_for("replayed 1 dead letter")
    at_terminal.wait_for("an order of Bob")

    at_terminal.press("p")
    at_terminal.wait_for("paused orders.ship", "paused: nothing is claimed")
    publish(shop, "Cyd")
    at_terminal.press("p")
    at_terminal.wait_for("an order of Cyd")
    at_terminal.press("q")
    assert at_terminal.end() == 0
    assert_restored(at_terminal)
    assert b"customer" not in at_terminal.written  # no payload


def test_what_ends_it_leaves_the_terminal_as_it_was(at_terminal: AtTerminal) -> None:
    at_terminal.wait_for("workers run")
    at_terminal.process.send_signal(signal.SIGTERM)
    assert at_terminal.end() == 0
    assert_restored(at_terminal)


# --- Without a terminal ------------------------------------------------------------------------------------------


class Piped:
    """``towpath dev --json`` in a pipe: its lines as they come."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "towpath", "dev", *arguments],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.came = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        for line in self.process.stdout or ():
            with self.came:
                self.lines.append(line)
                self.came.notify_all()

    def wait_for(self, wanted: Callable[[str], bool]) -> str:
        """The next line that is wanted; those before it are gone."""

        def found() -> bool:
            return any(wanted(line) for line in self.lines)

        with self.came:
            assert self.came.wait_for(found, timeout=PATIENCE), self.lines
            while not wanted(line := self.lines.pop(0)):
                pass
            return line

    def wait_for_kind(self, kind: str) -> dict[str, Any]:
        told: dict[str, Any] = shaped("dev", self.wait_for(lambda line: json.loads(line)["kind"] == kind))
        return told

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


@pytest.fixture
def piped(shop: Path) -> Iterator[Callable[..., Piped]]:
    started: list[Piped] = []

    def start(*arguments: str) -> Piped:
        started.append(Piped(shop, *arguments))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.end()


def test_a_topology_with_mistakes_is_told_whole_and_the_last_good_one_goes_on(
    shop: Path, piped: Callable[..., Piped]
) -> None:
    dev = piped("--json")
    assert dev.wait_for_kind("applied")["applied"]["added"] == ["orders.placed", "orders.ship"]
    dev.wait_for_kind("started")
    (shop / "topology.toml").write_text(TOPOLOGY + 'lease_second = 5\nhost = "nowhere"\n')
    assert dev.wait_for_kind("changed")["paths"] == ["topology.toml"]
    problem = dev.wait_for_kind("refused")["problem"]
    assert "lease_second" in problem
    assert "host" in problem

    publish(shop, "Ada")
    assert dev.wait_for_kind("output") == {"kind": "output", "text": "an order of Ada"}
    moved = dev.wait_for_kind("delivery")
    assert (moved["subscription"], moved["attempt"], moved["state"]) == ("orders.ship", 1, "completed")
    assert (moved["partition_key"], moved["reason"], moved["traceback"]) == ("k-1", "", "")

    (shop / "topology.toml").write_text(TOPOLOGY.replace("max_attempts = 1", "max_attempts = 2"))
    assert dev.wait_for_kind("applied")["applied"]["changed"] == ["orders.ship"]
    dev.wait_for_kind("started")
    dev.interrupt()
    assert dev.end() == 0


def test_it_waits_with_a_handler_that_does_not_load_and_leaves_at_once(shop: Path, piped: Callable[..., Piped]) -> None:
    (shop / "orders.py").write_text(HANDLER.replace("def ship", "def shop"))
    dev = piped()
    told = dev.wait_for(lambda line: line.startswith("error: "))
    assert told == "error: handler 'orders:ship': 'orders' has no 'ship'; waiting for a change\n"
    dev.interrupt()
    assert dev.end() == 0


def test_a_second_interrupt_aborts_a_handler_that_runs_and_its_delivery_waits_again(
    shop: Path, piped: Callable[..., Piped]
) -> None:
    (shop / "orders.py").write_text(
        "import time\n\ndef ship(message, context):\n    print('begun')\n    while True:\n"
        "        context.check()\n        time.sleep(0.01)\n"
    )
    dev = piped()
    dev.wait_for(lambda line: "workers run" in line)
    publish(shop, "Ada")
    dev.wait_for(lambda line: line == "begun\n")
    dev.interrupt()
    dev.wait_for(lambda line: line.startswith("draining"))
    dev.interrupt()
    assert "released" in dev.wait_for(lambda line: "orders.ship" in line)
    dev.end()
    transport = connect(f"sqlite:///{shop / 'dev.db'}")
    (row,) = transport.operator().stats()
    transport.close()
    assert (row.pending, row.leased) == (1, 0)


def test_workers_that_a_handler_ends_are_started_anew_whatever_their_exit_code_is(
    shop: Path, piped: Callable[..., Piped]
) -> None:
    (shop / "orders.py").write_text("import os\n\ndef ship(message, context):\n    os._exit(1)\n")
    dev = piped("--json")
    dev.wait_for_kind("started")
    publish(shop, "Ada")
    ended = dev.wait_for_kind("ended")
    assert (ended["sentence"], ended["died"]) == ("the workers ended with exit code 1", True)
    pid = dev.wait_for_kind("started")["pid"]

    dev.process.kill()  # and nobody is left to tell the workers
    dev.end()
    until = time.monotonic() + PATIENCE
    while is_running(pid):
        assert time.monotonic() < until, "the workers work on"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether the process is there; one that nobody waits for any more is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
