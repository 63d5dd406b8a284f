"""The states in which pages have their sessions run: what a comment ``<!-- run: NAME -->`` above them names.

A runbook is about something that went wrong, so here it is made to go wrong, and the page's commands meet it. All are
about the shop of ``tests/pages/shop``, in whose folder their sessions begin.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from tests.pages.blocks import PROJECT
from tests.pages.shells import clone
from tests.servers.provision import provisioned
from towpath import NewMessage, connect
from towpath.resolve import resolve
from towpath.topology import load_topology, parse_topology

SHOP = Path(__file__).with_name("shop")
KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """What the tests share: servers, each started when it is first asked for (``fixture`` is pytest's), and the program
    ``towpath`` that their sessions call.
    """

    fixture: Callable[[str], Any]
    towpath: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Where a session begins, and its variables."""

    folder: Path
    variables: Mapping[str, str]


Situation = Callable[[Path, Servers], AbstractContextManager[Prepared]]


@contextmanager
def plain(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """A clone, and nothing else."""
    clone(folder)
    yield Prepared(folder=folder, variables={})


# --- On a database -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """The shop on a database."""

    folder: Path
    url: str
    towpath: Path

    def publish(self, topic: str, *payloads: Any, key: str | None = None) -> None:
        """Publish each payload."""
        with connect(self.url) as transport:
            new = [NewMessage(payload=payload, partition_key=key) for payload in payloads]
            assert {result.status for result in transport.publish(topic, new)} == {"accepted"}

    def work(self, subscription: str, *options: str) -> int:
        """Run a worker to its end; answers its exit code."""
        return work(self.towpath, self.prepared, subscription, *options)

    def execute(self, statement: str, **values: object) -> None:
        """Change the tables behind everybody's back, for instance to let time pass."""
        with engine(self.url).begin() as connection:
            connection.execute(sa.text(statement), values)

    def age(self, hours: float) -> None:
        """Let time pass for all deliveries."""
        for column in ("due_at", "lease_expires_at", "ends_at", "dead_since"):
            self.execute(f"UPDATE towpath_delivery SET {column} = {_earlier(self.url, column, hours)}")

    @property
    def prepared(self) -> Prepared:
        return Prepared(folder=self.folder, variables={"TOWPATH_TRANSPORT": self.url})


def engine(url: str, **options: Any) -> sa.Engine:
    """An engine for Towpath's URL, which keeps no connection."""
    parsed = make_url(url)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    return sa.create_engine(parsed, poolclass=sa.NullPool, **options)


def _earlier(url: str, column: str, hours: float) -> str:
    if url.startswith("sqlite"):
        return f"{column} - {round(hours * 3_600_000)}"
    return f"{column} - make_interval(hours => {hours})"


def work(towpath: Path, prepared: Prepared, subscription: str, *options: str) -> int:
    """Run a worker to its end; answers its exit code."""
    command = [towpath, "work", subscription, "--concurrency", "1", *options]
    environment = os.environ | prepared.variables
    return subprocess.run(command, cwd=prepared.folder, env=environment, capture_output=True, check=False).returncode


@contextmanager
def on_sqlite(folder: Path, servers: Servers) -> Iterator[Shop]:
    """The shop on a SQLite file, applied."""
    with on_database(folder, servers, "sqlite:///shop.db") as shop:
        yield shop


@contextmanager
def on_database(folder: Path, servers: Servers, url: str) -> Iterator[Shop]:
    """The shop on the database at ``url``, applied; this process is in its folder meanwhile, as its session will be."""
    shutil.copytree(SHOP, folder / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    manifest = resolve(load_topology(folder / "shop/topology.toml"), "dev")
    (folder / "shop/manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder / "shop")
    try:
        with connect(url) as transport:
            transport.apply(manifest)
        yield Shop(folder=folder / "shop", url=url, towpath=servers.towpath)
    finally:
        os.chdir(before)


@contextmanager
def shop(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """The shop, in which nothing has happened yet."""
    with on_sqlite(folder, servers) as made:
        yield made.prepared


@contextmanager
def blocked_key(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """The first order of a customer is a dead letter, and two more wait behind it."""
    with on_sqlite(folder, servers) as made:
        made.publish("orders.placed", {"number": "one"}, {"number": 2}, {"number": 3}, key="customer-7")
        made.publish("orders.placed", {"number": 4}, key="customer-8")
        made.work("orders.ship", "--once")
        yield made.prepared


@contextmanager
def killed_worker(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """A worker was killed with a delivery in hand an hour ago, and nobody has taken its place."""
    with on_sqlite(folder, servers) as made:
        made.publish("labels.wanted", {"text": "too long"})
        assert made.work("labels.print", "--once") == KILLED
        made.age(hours=1)
        yield made.prepared


@contextmanager
def hanging_handler(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """A worker is at a delivery whose handler waits for something that never comes."""
    with on_sqlite(folder, servers) as made:
        made.publish("stock.changed", {"shelf": 3})
        with working(made, "stock.count"):
            yield made.prepared


@contextmanager
def dead_letters(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """The bank did not answer for three orders, and a fourth can never be read; all that was eight days ago."""
    with on_sqlite(folder, servers) as made:
        made.publish("orders.paid", *({"number": number} for number in (1, 2, 3)), {"number": "four"})
        made.work("orders.invoice", "--once")
        made.age(hours=8 * 24)
        yield made.prepared


@contextmanager
def poison_message(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """A message has ended the process of each worker that was given it, twice, which is all its attempts."""
    with on_sqlite(folder, servers) as made:
        made.publish("labels.wanted", {"text": "too long"})
        for _ in range(2):
            assert made.work("labels.print", "--once") == KILLED
            made.age(hours=1)
        yield made.prepared


@contextmanager
def working(shop: Shop, subscription: str) -> Iterator[None]:
    """A worker that has a delivery in hand; it is killed at the end."""
    command = [shop.towpath, "work", subscription, "--concurrency", "1", "--drain", "0"]
    environment = os.environ | shop.prepared.variables
    with (shop.folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=shop.folder, env=environment, stdout=log, stderr=log)
    try:
        with connect(shop.url) as transport:
            operator = transport.operator()
            while not sum(row.leased for row in operator.stats()):
                assert process.poll() is None, (shop.folder / "worker.log").read_text()
                time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


# --- Databases that are not well ---------------------------------------------------------------------------------


@contextmanager
def bloated_sqlite(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """A file that was much larger once."""
    with on_sqlite(folder, servers) as made:
        made.execute("CREATE TABLE once AS SELECT zeroblob(80000000) AS text")
        made.execute("DROP TABLE once")
        yield made.prepared


@contextmanager
def bloated_postgresql(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """Thirty thousand row versions that died while somebody's transaction was open, which it is still."""
    with on_database(folder, servers, servers.fixture("postgres_tables_url")) as made:
        made.publish("orders.paid", *({"number": number} for number in range(1000)))
        report = engine(made.url, isolation_level="REPEATABLE READ", connect_args={"application_name": "report"})
        with report.connect() as connection:
            connection.execute(sa.text("SELECT count(*) FROM towpath_delivery"))
            for _ in range(30):
                made.execute("UPDATE towpath_delivery SET due_at = due_at")
            made.execute("ANALYZE towpath_delivery")
            try:
                yield made.prepared
            finally:
                connection.invalidate()  # the session has ended it


@contextmanager
def unsafe_postgresql(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """Settings that are not good for a work queue."""
    with on_database(folder, servers, servers.fixture("postgres_tables_url")) as made:
        database = make_url(made.url).database
        made.execute(f"ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'")
        made.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
        made.execute("ALTER TABLE towpath_delivery SET (autovacuum_enabled = false)")
        yield Prepared(folder=made.folder, variables=made.prepared.variables | {"DATABASE": str(database)})


@contextmanager
def unsafe_sqlite(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """A file that is not in WAL mode, and a lane that was lost."""
    with on_sqlite(folder, servers) as made:
        made.publish("orders.placed", {"number": 1}, key="customer-7")
        made.execute("DELETE FROM towpath_lane")
        made.execute("DELETE FROM towpath_touched_lane")
        with engine(made.url).connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = DELETE")
        yield made.prepared


@contextmanager
def empty_postgresql(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """A clone, and a database without Towpath's tables."""
    clone(folder)
    yield Prepared(folder=folder, variables={"TOWPATH_TRANSPORT": servers.fixture("postgres_url")})


# --- On AWS ------------------------------------------------------------------------------------------------------


@contextmanager
def on_aws(folder: Path, servers: Servers, *subscriptions: str) -> Iterator[tuple[Prepared, Any]]:
    """These subscriptions of the shop on LocalStack, and the AWS that it is."""
    aws = servers.fixture("aws")
    shutil.copytree(SHOP, folder / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    whole = load_topology(folder / "shop/aws.toml").model_dump(mode="json", by_alias=True, exclude_unset=True)
    chosen = {name: whole["subscriptions"][name] for name in subscriptions}
    topics = {one["topic"]: whole["topics"][one["topic"]] for one in chosen.values()}
    manifest = resolve(parse_topology({"name": "shop", "topics": topics, "subscriptions": chosen}), "dev")
    (folder / "shop/manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    with provisioned(aws, manifest) as deployment:
        (folder / "shop/bindings.json").write_text(deployment.bindings.to_json(), encoding="utf-8")
        variables = {
            **aws.variables,
            "TOWPATH_TRANSPORT": f"aws://{aws.region}",
            "TOWPATH_MANIFEST": str(folder / "shop/manifest.json"),
            "TOWPATH_BINDINGS": str(folder / "shop/bindings.json"),
        }
        yield Prepared(folder=folder / "shop", variables=variables), deployment


@contextmanager
def dead_letters_on_aws(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """The bank did not answer for two orders; a third was refused by the queue, as a wrong policy would have it."""
    with on_aws(folder, servers, "orders.invoice") as (prepared, deployment):
        publish(servers.towpath, prepared, "orders.paid", {"number": 1}, {"number": 2})
        assert work(servers.towpath, prepared, "orders.invoice", "--max", "4") == 0
        refused = deployment.bindings.subscriptions["orders.invoice"].delivery_failure_queue_url
        deployment.clients.client("sqs").send_message(QueueUrl=refused, MessageBody='{"number": 3}')
        yield prepared


@contextmanager
def killed_worker_on_aws(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """A worker was killed with a delivery in hand, just now."""
    with on_aws(folder, servers, "labels.print") as (prepared, _):
        publish(servers.towpath, prepared, "labels.wanted", {"text": "too long"})
        assert work(servers.towpath, prepared, "labels.print", "--max", "1") == KILLED
        yield prepared


@contextmanager
def localstack(folder: Path, servers: Servers) -> Iterator[Prepared]:
    """A clone with the CDK's command line, and a LocalStack; what is deployed there is removed at the end."""
    aws = servers.fixture("aws")
    if not aws.shares_files or not (PROJECT / "node_modules/.bin/cdk").exists():
        pytest.skip("needs a LocalStack of this machine, and 'make cdk'")
    clone(folder)
    variables = {"TOWPATH_AWS_ENDPOINT": aws.endpoint, "CDK_VALIDATION": "false"}
    try:
        yield Prepared(folder=folder, variables=variables)
    finally:
        remove_stacks(aws.client("cloudformation"))


def remove_stacks(cloudformation: Any) -> None:
    """Delete what the CDK has deployed, the stacks of subscriptions first."""
    stacks = [one["StackName"] for one in cloudformation.describe_stacks()["Stacks"]]
    for name in sorted(name for name in stacks if name.startswith("towpath-shop-")):
        cloudformation.delete_stack(StackName=name)
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=name, WaiterConfig={"Delay": 1})


def publish(towpath: Path, prepared: Prepared, topic: str, *payloads: Any) -> None:
    """Publish each payload through a command, with the variables that a session has."""
    lines = "".join(f"{json.dumps(payload)}\n" for payload in payloads)
    command = [towpath, "publish", topic, "-"]
    subprocess.run(
        command, env=os.environ | prepared.variables, input=lines, text=True, check=True, capture_output=True
    )


SITUATIONS: dict[str, Situation] = {
    "plain": plain,
    "shop": shop,
    "blocked-key": blocked_key,
    "killed-worker": killed_worker,
    "hanging-handler": hanging_handler,
    "dead-letters": dead_letters,
    "poison-message": poison_message,
    "bloated-sqlite": bloated_sqlite,
    "bloated-postgresql": bloated_postgresql,
    "unsafe-postgresql": unsafe_postgresql,
    "unsafe-sqlite": unsafe_sqlite,
    "empty-postgresql": empty_postgresql,
    "dead-letters-on-aws": dead_letters_on_aws,
    "killed-worker-on-aws": killed_worker_on_aws,
    "localstack": localstack,
}
