"""Bulk work as a process that is interrupted, killed, or meets a full disk, and then goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from local_transport import DatabaseTransport
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.settlement import DeadLettering, Failure

LINES = 350
WHY = ("--reason", "it goes on")
SECONDS = 60


@pytest.fixture
def shop(database_url: str) -> Iterator[DatabaseTransport]:
    """A topic with one subscription."""
    with connect(database_url) as opened:
        opened.apply(on_database({"orders": {}}, {"bill": {"topic": "orders"}}))
        yield opened


class Towpath:
    """Starts the command line in a folder, on a database."""

    def __init__(self, folder: Path, url: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
        self._environment = kept | {"TOWPATH_TRANSPORT": url, "COLUMNS": "200", "NO_COLOR": "1", "TOWPATH_ACTOR": "ada"}
        self.folder = folder

    @contextmanager
    def start(self, *arguments: str, most_kilobytes: int | None = None) -> Iterator[subprocess.Popen]:
        """A process, ended at the end; files that it writes can have ``most_kilobytes``."""
        limit = "unlimited" if most_kilobytes is None else str(most_kilobytes)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            ["bash", "-c", f'ulimit -f {limit}; exec "$@"', "bash", sys.executable, "-m", "towpath", *arguments],
            **pipes,
            cwd=self.folder,
            env=self._environment,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def run(self, *arguments: str, stdin: str = "", most_kilobytes: int | None = None) -> tuple[int, str, str]:
        """Exit code and output."""
        with self.start(*arguments, most_kilobytes=most_kilobytes) as process:
            out, err = process.communicate(stdin, timeout=SECONDS)
        return process.returncode, out, err


@pytest.fixture
def towpath(tmp_path: Path, database_url: str) -> Towpath:
    return Towpath(tmp_path, database_url)


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def payloads(shop: DatabaseTransport) -> list[int]:
    """What waits, in the order of publishing."""
    found = []
    consumer = shop.consumer("bill")
    while held := consumer.receive(500, timedelta(0)):
        found += [json.loads(delivery.body)["payload"] for delivery in held]
    return sorted(found)


# --- Publishing --------------------------------------------------------------------------------------------------

TEXT = "".join(f"{number}\n" for number in range(LINES))
PUBLISH = ("publish", "orders", "-", "--resume", "position.json")


def published_up_to(towpath: Towpath) -> int:
    file = towpath.folder / "position.json"
    return json.loads(file.read_text())["lines"] if file.exists() else 0


def test_an_interrupted_publish_says_how_to_go_on_and_goes_on_without_a_second_copy(towpath, shop):
    with towpath.start(*PUBLISH) as process:
        process.stdin.write(TEXT[: TEXT.index("250\n")])
        process.stdin.flush()
        until(lambda: published_up_to(towpath) == 200)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (130, "200 accepted, 0 duplicate, 0 rejected\n")
    assert err.startswith("warning: interrupted: all is answered before line 201; go on with: ")
    assert err.count("\n") == 1
    assert towpath.run(*PUBLISH, stdin=TEXT) == (0, "150 accepted, 0 duplicate, 0 rejected\n", "")
    assert towpath.run(*PUBLISH, stdin=TEXT) == (0, "0 accepted, 0 duplicate, 0 rejected\n", "")
    assert payloads(shop) == list(range(LINES))


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_command_that_an_interrupted_publish_tells_goes_on(towpath, shop):
    (towpath.folder / "orders.jsonl").write_text(TEXT)
    os.mkfifo(towpath.folder / "slow.jsonl")
    slow = towpath.folder / "slow.jsonl"
    with towpath.start("publish", "orders", "--file", "slow.jsonl") as process, slow.open("w") as writing:
        writing.write(TEXT[: TEXT.index("150\n")])
        writing.flush()
        until(lambda: shop.operator().stats()[0].pending == 100)
        process.send_signal(signal.SIGTERM)  # during the call it waits for its answer
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 143
    (told,) = re.findall(r"go on with: towpath (.*)$", err.strip())
    assert told == "publish orders --file slow.jsonl --from-line 101"
    code, out, _ = towpath.run(*told.replace("slow", "orders").split())
    assert (code, out) == (0, "250 accepted, 0 duplicate, 0 rejected\n")
    assert payloads(shop) == list(range(LINES))


def test_a_killed_publish_goes_on_and_what_was_on_its_way_is_a_duplicate(towpath, shop):
    file = towpath.folder / "position.json"
    with towpath.start(*PUBLISH) as process:
        process.stdin.write(TEXT[: TEXT.index("100\n")])
        process.stdin.flush()
        until(lambda: published_up_to(towpath) == 100)
        before = file.read_bytes()
        process.stdin.write(TEXT[TEXT.index("100\n") : TEXT.index("200\n")])
        process.stdin.flush()
        until(lambda: published_up_to(towpath) == 200)
        process.kill()
    file.write_bytes(before)  # as if it had been killed between the commit and the note of it
    assert towpath.run(*PUBLISH, stdin=TEXT) == (0, "150 accepted, 100 duplicate, 0 rejected\n", "")
    assert payloads(shop) == list(range(LINES))


# --- Dead letters ------------------------------------------------------------------------------------------------


def set_aside(shop: DatabaseTransport, count: int, text: str = "") -> list[str]:
    """So many dead letters; their ids."""
    shop.publish("orders", [NewMessage(payload=f"{number}{text}") for number in range(count)])
    held = shop.consumer("bill").receive(count, timedelta(0))
    failure = Failure(type="ValueError", message="no")
    shop.consumer("bill").dead_letter([DeadLettering(delivery=one, reason="no use", failure=failure) for one in held])
    return sorted(one.delivery_id for one in shop.operator().dead_letters(None, count))


def audited(shop: DatabaseTransport) -> list[str]:
    """The deliveries that the audit trail names, in all its entries."""
    return [one for entry in shop.operator().audit(1_000) for one in entry.details["deliveries"]]


@pytest.mark.parametrize(("command", "number"), [("replay --all", signal.SIGINT), ("purge bill", signal.SIGKILL)])
def test_bulk_work_that_is_cut_off_is_simply_repeated(towpath, shop, command, number):
    ids = set_aside(shop, 60)
    call = ("dead-letters", *command.split(), *WHY, "--rate")
    with towpath.start(*call, "20") as process:
        until(lambda: len(audited(shop)) >= 20)
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
    done = audited(shop)
    assert 20 <= len(done) < 60
    if number == signal.SIGINT:
        assert (process.returncode, out) == (130, "")
        told = f"warning: interrupted: {len(done)} deliveries are changed; the same command goes on"
        assert err.startswith(told)
        assert err.count("\n") == 1
    assert len(shop.operator().dead_letters(None, 100)) == 60 - len(done)
    assert towpath.run(*call, "1000")[0] == 0
    assert sorted(audited(shop)) == ids
    assert len(shop.operator().dead_letters(None, 100)) == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_an_export_onto_a_full_disk_loses_nothing_and_goes_on(towpath, shop):
    ids = set_aside(shop, 600, text="x" * 500)
    export = ("dead-letters", "export", "--output", "dead.jsonl")
    code, out, err = towpath.run(*export, most_kilobytes=680)
    assert (code, out) == (1, "")
    assert "nothing is lost: 500 dead letters are exported; go on with: towpath dead-letters export" in err
    assert err.count("\n") == 1
    assert not (towpath.folder / "dead.jsonl").exists()
    assert towpath.run(*export)[0] == 2
    assert towpath.run(*export, "--resume")[:2] == (0, "600 deliveries are exported to dead.jsonl\n")
    lines = [json.loads(line) for line in (towpath.folder / "dead.jsonl").read_text().splitlines()]
    assert sorted(line["delivery_id"] for line in lines) == ids
    assert [file.name for file in towpath.folder.glob("dead.jsonl*")] == ["dead.jsonl"]
