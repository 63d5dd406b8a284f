"""Metrics and signals of worker processes: of several behind one endpoint, and of one that is process 1."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import left_out
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.cli.endpoint import Address
from towpath.cli.metrics import shared_metrics

ROOT = Path(__file__).parents[2]
PATIENCE = 60
HANDLER = """
import time

def handle(message, context):
    if message.payload == "wait":
        while not context.aborted:
            time.sleep(0.01)
        context.check()
"""


@pytest.fixture
def folder(tmp_path, sqlite_with_tables) -> Path:
    (tmp_path / "app.py").write_text(textwrap.dedent(HANDLER))
    shutil.copy(sqlite_with_tables, tmp_path / "towpath.db")
    return tmp_path


@pytest.fixture
def transport(folder) -> Iterator:
    with connect(f"sqlite:///{folder}/towpath.db") as opened:
        opened.apply(on_database({"documents": {}}, {"convert": {"topic": "documents"}}))
        yield opened


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "towpath", "work", "convert", "--concurrency", "1", *arguments]


def environment(**more: str) -> dict[str, str]:
    known = {**os.environ, "PYTHONPATH": str(ROOT), "TOWPATH_TRANSPORT": "sqlite:///towpath.db", "NO_COLOR": "1"}
    return known | more


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def served_at(worker: subprocess.Popen) -> str:
    return next(found[0] for line in worker.stderr if (found := re.search(r"http://\S+/metrics", line)))


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def figures(address: Address | str) -> dict[tuple[str, ...], float]:
    _, text = fetch(f"http://{address}/metrics")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_one_endpoint_tells_the_sum_of_worker_processes_and_forgets_how_a_dead_one_stood(transport, folder):
    running = ("towpath_worker_state", "running", "convert", "documents")
    completed = ("towpath_deliveries_total", "completed", "convert", "documents")
    with ExitStack() as stack:
        shared, address = stack.enter_context(shared_metrics(Address(host="127.0.0.1", port=0)))
        assert fetch(f"http://{address}/healthz") == (503, '{"status": "starting", "subscriptions": {}}\n')
        shared.begin(transport.operator)
        processes = []
        for _ in range(2):
            process = subprocess.Popen(
                command(), cwd=folder, env=environment(**shared.environment), stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        wait_until(lambda: figures(address).get(running) == 2)
        assert fetch(f"http://{address}/healthz")[0] == 200
        transport.publish("documents", [NewMessage(payload=number) for number in range(40)])
        wait_until(lambda: figures(address).get(completed) == 40)
        found = figures(address)
        assert found["towpath_handler_duration_seconds_count", "convert", "documents"] == 40
        assert found["towpath_age_at_start_seconds_count", "convert", "documents"] == 40
        assert found["towpath_backlog_up",] == 1
        assert "towpath_build_info" in {name for name, *_ in found}

        processes[0].kill()
        processes[0].wait()
        shared.ended(processes[0].pid)
        found = figures(address)
        assert (found[running], found[completed]) == (1, 40)
        processes[1].send_signal(signal.SIGTERM)
        assert processes[1].wait(PATIENCE) == 0
        shared.ended(processes[1].pid)
        assert figures(address)[completed] == 40
        assert json.loads(fetch(f"http://{address}/healthz")[1])["status"] == "starting"  # nobody is there


def test_a_worker_that_drains_says_so_to_probes_and_is_gone_when_it_has_ended(transport, folder):
    arguments = command("--drain", "600", "--metrics", "127.0.0.1:0")
    worker = subprocess.Popen(arguments, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        transport.publish("documents", [NewMessage(payload="wait")])
        url = served_at(worker)
        health = url.replace("/metrics", "/healthz")
        wait_until(lambda: 'towpath_deliveries_in_flight{subscription="convert",topic="documents"} 1' in fetch(url)[1])
        assert fetch(health)[0] == 200
        worker.send_signal(signal.SIGTERM)
        wait_until(lambda: fetch(health)[0] == 503)
        assert json.loads(fetch(health)[1]) == {"status": "draining", "subscriptions": {"convert": ["draining"]}}
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
        with pytest.raises(urllib.error.URLError):
            fetch(health)
    finally:
        worker.kill()
        worker.wait()
        worker.stderr.close()


@pytest.mark.parametrize("more", [(), ("--processes", "2")], ids=["one", "several"])
def test_a_worker_that_is_process_1_of_its_container_drains_at_sigterm(transport, folder, more):
    """The kernel gives such a process no signal that it has not asked for."""
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        left_out("a process namespace", "unshare is not here, or not allowed")
    arguments = [*apart, *command("--drain", "0", "--metrics", "127.0.0.1:0", *more)]
    outside = subprocess.Popen(
        arguments, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert served_at(outside)
        children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children").read_text().split()
        (worker,) = map(int, children)
        status = Path(f"/proc/{worker}/status").read_text()
        assert next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1] == "1"
        transport.publish("documents", [NewMessage(payload="wait")])
        wait_until(lambda: transport.operator().stats()[0].leased == 1)
        os.kill(worker, signal.SIGTERM)
        output, _ = outside.communicate(timeout=PATIENCE)
        assert (outside.returncode, output) == (0, "1 received: 1 given back\n")
    finally:
        outside.kill()
        outside.communicate()


def test_work_with_several_processes_serves_the_sum_on_one_port_and_drains_as_one(transport, folder):
    arguments = command("--processes", "2", "--metrics", "127.0.0.1:0")
    worker = subprocess.Popen(arguments, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        url = served_at(worker)
        address = url.removeprefix("http://").removesuffix("/metrics")
        running = ("towpath_worker_state", "running", "convert", "documents")
        wait_until(lambda: figures(address).get(running) == 2)
        transport.publish("documents", [NewMessage(payload=number) for number in range(40)])
        completed = ("towpath_deliveries_total", "completed", "convert", "documents")
        wait_until(lambda: figures(address).get(completed) == 40)
        found = figures(address)
        assert found["towpath_backlog_up",] == 1
        assert found["towpath_backlog_deliveries", "claimable", "convert", "documents"] >= 0
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
    finally:
        worker.kill()
        worker.wait()
        worker.stderr.close()
