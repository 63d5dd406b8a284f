"""Worker processes in trouble: each kind shows one clear line and the exit code that docs/how-to/run-workers.md says.

kill -9 of a worker is C36 of the conformance suite, and in test_cli_work.py where it is one of several processes, as
are two signals.
"""

import json
import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from aws_transport.bindings import Bindings, SubscriptionBinding, TopicBinding
from local_transport.connections import Database
from local_transport.schema import upgrade
from tests.conformance.harness import FUNCTION, manifest_of, written
from tests.conftest import left_out
from tests.servers.postgres import Cluster, PostgresUnavailable, free_port, own_cluster
from tests.servers.working import observations, worker
from towpath import NewMessage, connect

PATIENCE = 120
TOPOLOGY = {"topics": {"orders": {}}, "subscriptions": {"bill": {"topic": "orders"}}}
PASSWORD = "right"


def apply(url: str) -> None:
    with closing(Database(url)) as database:
        upgrade(database)
    with connect(url) as transport:
        transport.apply(manifest_of(TOPOLOGY, on_database=True))


def publish(url: str, count: int = 1) -> None:
    with connect(url) as transport:
        results = transport.publish("orders", [NewMessage(payload={"script": ["complete"]})] * count)
    assert [result.status for result in results] == ["accepted"] * count


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


def work(url: str, *options: str, **streams: object) -> subprocess.CompletedProcess:
    """A worker that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "towpath", "work", "*", "--transport", url, *options],
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams),
        cwd=FUNCTION,
        env=os.environ | {"CONFORMANCE_OBSERVER": "file:///dev/null", "NO_COLOR": "1"},
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def one_sentence(done: subprocess.CompletedProcess) -> str:
    """The failure that a command ended with, and nothing else."""
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout, line.partition(" ")[0]) == (1, "", "error:"), done.stderr
    return line


def troubles(log: Path) -> list[str]:
    """What a worker has logged besides deliveries, without its times."""
    lines = [line for line in log.read_text().splitlines() if re.search(r"(ERROR|WARNING)", line)]
    return [re.sub(r"^\S+ (ERROR|WARNING) +", "", line) for line in lines]


# --- Full disks ------------------------------------------------------------------------------------------------


def limit_files(pid: int, most: int) -> None:
    """What a process may write to a file: beyond it, the disk is full for it."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, hard))


def test_a_worker_whose_database_has_a_full_disk_goes_on_when_there_is_room(sqlite_tables_url, tmp_path):
    apply(sqlite_tables_url)
    publish(sqlite_tables_url)
    with worker(sqlite_tables_url, tmp_path) as process:
        eventually(lambda: len(observations(tmp_path)) == 1)
        eventually(lambda: "delivery completed" in process.log.read_text())
        limit_files(process.pid, process.log.stat().st_size + 20_000)
        publish(sqlite_tables_url, count=300)
        process.await_line("trying again in")
        limit_files(process.pid, resource.RLIM_INFINITY)
        process.await_line("answered again")
        eventually(lambda: len(observations(tmp_path)) >= 301)
        process.send(15)
        assert process.end() == 0
    told = troubles(process.log)
    assert any(
        re.search(r"cannot .*, trying again in 0\.5 s: sqlite:\S+: .*(full|disk I/O error)", line) for line in told
    )
    assert told[-1].startswith("answered again, after ")


@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_a_full_log_disk_stops_no_delivery(sqlite_tables_url, tmp_path, options):
    apply(sqlite_tables_url)
    publish(sqlite_tables_url, count=3)
    with Path("/dev/full").open("w") as full:
        done = work(sqlite_tables_url, "--max", "3", *options, stderr=full)
    assert (done.returncode, done.stdout) == (0, "3 received: 3 completed\n")


# --- PostgreSQL ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    """A server that asks ``ann`` for a password."""
    try:
        opened = own_cluster()
        cluster = opened.__enter__()
    except PostgresUnavailable as error:
        left_out("PostgreSQL", str(error))
    try:
        apply(cluster.url)
        with psycopg.connect(cluster.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE ann SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
            (rules,) = connection.execute("SHOW hba_file").fetchone()
            Path(rules).write_text("host all ann 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n")
            connection.execute("SELECT pg_reload_conf()")
        yield cluster
    finally:
        opened.__exit__(None, None, None)


def as_ann(cluster: Cluster, password: str = PASSWORD) -> str:
    return sa.make_url(cluster.url).set(username="ann", password=password).render_as_string(hide_password=False)


@pytest.mark.parametrize("options", [(), ("--once",), ("--processes", "2")])
def test_a_wrong_password_ends_a_worker_at_once_with_one_sentence(guarded, options):
    told = one_sentence(work(as_ann(guarded, "wrong"), *options))
    assert 'password authentication failed for user "ann"' in told
    assert "wrong" not in told


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://ann@127.0.0.1:{port}/postgres", "no password supplied"),
        ("postgresql://nobody@127.0.0.1:{port}/postgres", 'role "nobody" does not exist'),
        ("postgresql://towpath@127.0.0.1:{port}/missing", 'database "missing" does not exist'),
    ],
)
def test_who_is_not_let_in_is_told_why(guarded, url, says):
    assert says in one_sentence(work(url.format(port=sa.make_url(guarded.url).port)))


def test_a_password_that_is_changed_ends_a_worker_that_runs(guarded, tmp_path):
    with worker(as_ann(guarded), tmp_path) as process:
        process.await_line("serving")
        with psycopg.connect(guarded.url, autocommit=True) as connection:
            connection.execute("ALTER ROLE ann PASSWORD 'new'")
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ann'")
            assert process.end() == 1
            connection.execute(f"ALTER ROLE ann PASSWORD '{PASSWORD}'")
    *_, last = process.log.read_text().splitlines()
    assert last.startswith("error: ")
    assert "password authentication failed" in last


def test_a_database_that_is_restarted_is_one_line_each_way_and_the_worker_goes_on(guarded, tmp_path):
    publish(guarded.url)
    with worker(guarded.url, tmp_path) as process:
        eventually(lambda: len(observations(tmp_path)) == 1)
        eventually(lambda: "delivery completed" in process.log.read_text())
        guarded.stop()
        process.await_line("trying again in 0.5 s")
        guarded.start()
        process.await_line("answered again")
        publish(guarded.url)
        eventually(lambda: len(observations(tmp_path)) == 2)
        process.send(15)
        assert process.end() == 0
    told = troubles(process.log)
    waits = [line for line in told if line.startswith("cannot receive, trying again in")]
    assert [line.startswith("answered again, after ") for line in told] == [False] * len(waits) + [True], told
    assert len(waits) == len({line.partition(" s: ")[0] for line in waits})  # one for each longer pause


def test_a_database_that_cannot_be_reached_is_waited_for_but_not_by_a_worker_that_works_once(tmp_path):
    url = f"postgresql://towpath:secret@127.0.0.1:{free_port()}/postgres"
    for options in (("--once",), ("--idle-exit", "0"), ("--max-duration", "0", "--processes", "2")):
        told = one_sentence(work(url, *options))
        assert "connection refused" in told.lower()
        assert "secret" not in told
    with worker(url, tmp_path) as process:
        process.await_line("cannot open the transport, trying again in 1.0 s: ")
        process.send(15)
        assert process.end() == 0
    told = [line.partition(" s: ")[0] for line in process.log.read_text().splitlines()]
    assert [line.rpartition(" ")[2] for line in told[:2]] == ["0.5", "1.0"]


# --- AWS -------------------------------------------------------------------------------------------------------


class Refuses(BaseHTTPRequestHandler):
    """What SQS says to credentials that it does not know (recorded from AWS)."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        fault = {
            "__type": "com.amazon.coral.service#UnrecognizedClientException",
            "message": "The security token included in the request is invalid.",
        }
        body = json.dumps(fault).encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """To nobody."""


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def on_aws(tmp_path, monkeypatch) -> Callable[[str], list[str]]:
    """The options of a worker on AWS, at an endpoint, with credentials that nobody knows."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "TOWPATH_AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDUNKNOWN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "unknown")

    def options(endpoint: str) -> list[str]:
        monkeypatch.setenv("TOWPATH_AWS_ENDPOINT", endpoint)
        url, arn = f"{endpoint}/000000000000", "arn:aws:sqs:eu-west-1:000000000000"
        queue = SubscriptionBinding(
            queue_url=f"{url}/bill",
            queue_arn=f"{arn}:bill",
            dead_letter_queue_url=f"{url}/dead",
            delivery_failure_queue_url=f"{url}/failed",
        )
        topic = TopicBinding(arn="arn:aws:sns:eu-west-1:000000000000:orders", fifo=False)
        bindings = Bindings(topics={"orders": topic}, subscriptions={"bill": queue})
        return written(tmp_path, manifest_of(TOPOLOGY, host="worker"), bindings)

    return options


@pytest.mark.parametrize("options", [(), ("--once",)])
def test_wrong_credentials_of_aws_end_a_worker_at_once_with_one_sentence(on_aws, options):
    with served(Refuses) as endpoint:
        done = work("aws://eu-west-1", *on_aws(endpoint), *options)
    first, *_, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert first.startswith("serving bill on aws://eu-west-1")
    assert last.startswith("error: AWS refused to receive from ")
    assert "The security token included in the request is invalid." in last


def test_an_endpoint_of_aws_that_cannot_be_reached_is_waited_for_but_not_by_a_worker_that_works_once(on_aws, tmp_path):
    options = on_aws(f"http://127.0.0.1:{free_port()}")
    done = work("aws://eu-west-1", *options, "--once")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: AWS could not receive from " in done.stderr
    with worker("aws://eu-west-1", tmp_path, *options) as process:
        process.await_line("cannot receive, trying again in 0.5 s: AWS could not receive from ")
        process.send(15)
        assert process.end() == 0
