"""How soon an idle worker starts what is published, and what it costs while nothing is.

    python -m benchmarks.wakeups [--json figures.json] [--messages 300] [--idle 20] [--databases postgresql sqlite]

Prints a table. A worker of 8 threads runs in a process of its own, a publisher in another. Durability is on. The idle
worker serves 20 subscriptions; its statements are those that SQLAlchemy sends and, on PostgreSQL, pg_stat_statements.
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa
from rich.console import Console
from rich.table import Table
from sqlalchemy import event

from local_transport.connections import Database
from local_transport.schema import upgrade
from tests.servers.postgres import fresh_database, private_cluster
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.worker import Worker, WorkerOptions

ROOT = Path(__file__).parent.parent
TOPIC = "bench"
MANY = 20
GAP_SECONDS = 0.06
SETTLE_SECONDS = 8.0  # after the start: looks have become rare by then
_waits = []


def handle(message, _context):
    _waits.append(1000 * (time.time() - message.payload))


# --- The processes -----------------------------------------------------------------------------------------------


@contextmanager
def working(transport, subscriptions):
    worker = Worker(transport, subscriptions, WorkerOptions())
    thread = threading.Thread(target=worker.run)
    thread.start()
    yield
    worker.stop()
    thread.join()


def work(url):
    """Serve until standard input ends, then print how long each message took to its start."""
    logging.disable(logging.WARNING)
    with connect(url) as transport, working(transport, ["s0"]):
        print("ready", flush=True)
        sys.stdin.read()
    print(json.dumps(_waits))


def publish(url, messages):
    """Publish one at a time, never in step with somebody's polling."""
    with connect(url) as transport:
        for number in range(messages):
            time.sleep(GAP_SECONDS * (0.5 + (number * 7919 % 100) / 100))
            transport.publish(TOPIC, [NewMessage(payload=time.time())])


def idle(url, seconds):
    """Serve 20 subscriptions while nothing comes; print statements a second and the share of a core."""
    counted = []
    with connect(url) as transport:
        event.listen(transport._database.engine, "before_cursor_execute", lambda *_: counted.append(1))
        with working(transport, [f"s{number}" for number in range(MANY)]):
            time.sleep(SETTLE_SECONDS)
            print("settled", flush=True)
            before, cpu = len(counted), time.process_time()
            time.sleep(seconds)
            found = {"statements": (len(counted) - before) / seconds, "core": (time.process_time() - cpu) / seconds}
            print(json.dumps(found), flush=True)


# --- The measurement ---------------------------------------------------------------------------------------------


def prepared(url, subscriptions):
    with closing(Database(url)) as database:
        upgrade(database)
    written = {f"s{n}": {"topic": TOPIC, "handler": f"{__name__}:handle"} for n in range(subscriptions)}
    with connect(url) as transport:
        transport.apply(on_database({TOPIC: {}}, written))


def started(*arguments):
    command = [sys.executable, "-m", "benchmarks.wakeups", "--process", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def latency(url, messages):
    prepared(url, 1)
    worker = started("work", url)
    assert worker.stdout.readline() == "ready\n"
    time.sleep(2)
    assert started("publish", url, messages).wait() == 0
    time.sleep(1)
    waits = sorted(json.loads(worker.communicate("")[0]))
    assert len(waits) == messages, f"{len(waits)} of {messages} were handled"
    return {"p50": statistics.median(waits), "p99": waits[int(len(waits) * 0.99)], "worst": waits[-1]}


def idle_cost(url, seconds, server_count):
    prepared(url, MANY)
    worker = started("idle", url, seconds)
    assert worker.stdout.readline() == "settled\n"
    before = server_count()
    found = json.loads(worker.stdout.readline())
    after = server_count()
    worker.communicate("")
    return found if before is None else found | {"server": (after - before) / seconds}


def statements_of_server(server):
    """How many statements others than this one have sent, by pg_stat_statements, BEGIN and COMMIT included."""
    engine = sa.create_engine(server.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    query = sa.text("SELECT sum(calls) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'")
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        found = int(connection.execute(query).scalar_one())
    engine.dispose()
    return found


def on_postgresql(options):
    loaded = ("-cshared_preload_libraries=pg_stat_statements",)
    with private_cluster(loaded) as server:
        with fresh_database(server) as url:
            waits = latency(url, options.messages)
        with fresh_database(server) as url:
            return waits | idle_cost(url, options.idle, lambda: statements_of_server(server))


def on_sqlite(options):
    with tempfile.TemporaryDirectory() as folder:
        waits = latency(f"sqlite:///{folder}/latency.db", options.messages)
        return waits | idle_cost(f"sqlite:///{folder}/idle.db", options.idle, lambda: None)


MEASURES = {"postgresql": on_postgresql, "sqlite": on_sqlite}


def table(found):
    drawn = Table("", "start p50 / p99 / worst, ms", "idle: statements a second", "seen by server", "% of a core")
    for name, figures in found.items():
        drawn.add_row(
            name,
            f"{figures['p50']:.1f} / {figures['p99']:.1f} / {figures['worst']:.1f}",
            f"{figures['statements']:.2f}",
            f"{figures['server']:.2f}" if "server" in figures else "",
            f"{100 * figures['core']:.2f}",
        )
    return drawn


def main():
    if sys.argv[1:2] == ["--process"]:
        how, url, *number = sys.argv[2:]
        {"work": work, "publish": publish, "idle": idle}[how](url, *map(int, number))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--idle", type=int, default=20)
    parser.add_argument("--databases", nargs="*", default=list(MEASURES), choices=list(MEASURES))
    options = parser.parse_args()
    found = {name: MEASURES[name](options) for name in options.databases}
    Console().print(table(found))
    if options.json:
        options.json.write_text(json.dumps({"cores": os.cpu_count(), **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
