"""Towpath's database transport, through its public API: a worker with its threads, leases, settles in batches."""

import logging
import threading
from datetime import timedelta

from towpath import NewMessage, connect
from towpath.resolve import resolve
from towpath.topology import parse_topology
from towpath.worker import Worker, WorkerOptions

TOPIC, SUBSCRIPTION = "bench.messages", "bench.handle"
CONCURRENCY = 8  # threads: the default
_told = []


def handle(message, _context):
    _told[0](message.payload)


def prepare(url):
    document = {
        "name": "bench",
        "topics": {TOPIC: {"transport": "database"}},
        "subscriptions": {SUBSCRIPTION: {"topic": TOPIC, "handler": f"{__name__}:handle"}},
    }
    with _connect(url) as transport:
        transport.apply(resolve(parse_topology(document), "bench"))


def _connect(url):
    if url.startswith("postgresql"):
        from contextlib import closing

        from local_transport.connections import Database
        from local_transport.schema import upgrade

        with closing(Database(url)) as database:
            upgrade(database)
    return connect(url)


def publish(url, calls, timing):
    with _connect(url) as transport, timing:
        for texts in calls:  # one after another: paced calls are made as they are taken
            results = transport.publish(TOPIC, [NewMessage(payload=text) for text in texts])
            assert all(result.status == "accepted" for result in results)


def work(url, handled, stop):
    _told[:] = [handled]
    logging.disable(logging.WARNING)  # the lines of a worker are a user's choice; the others write none
    with _connect(url) as transport:
        worker = Worker(transport, [SUBSCRIPTION], WorkerOptions(concurrency=CONCURRENCY, drain=timedelta(seconds=10)))
        threading.Thread(target=lambda: (stop.wait(), worker.stop()), daemon=True).start()
        worker.run()
