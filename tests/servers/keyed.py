"""A process of several threads that work on keys: ``python -m tests.servers.keyed URL SUBSCRIPTION THREADS FILE``.

Each thread claims a few deliveries, waits a moment over each and completes it, until nothing has come for a while. For
each delivery it appends a line of JSON to FILE: what it was, and when on the clock that all processes share. ``asked``
is before the claim and ``received`` after it, ``settling`` before the settle and ``settled`` after it.
"""

import json
import os
import random
import sys
import threading
import time
from datetime import timedelta

from towpath import connect
from towpath.settlement import Completion, Settled

BATCH = 3
PATIENCE = timedelta(seconds=9)  # longer than a lease of a process that was killed, and its back-off
WORK_SECONDS = 0.003


def main(url: str, subscription: str, threads: int, path: str) -> None:
    report = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)  # a line in one write is whole
    transport = connect(url)
    consumer = transport.consumer(subscription)

    def work():
        while True:
            asked = time.monotonic()
            deliveries = consumer.receive(BATCH, PATIENCE)
            received = time.monotonic()
            if not deliveries:
                return
            for delivery in deliveries:
                time.sleep(random.random() * WORK_SECONDS)
                settling = time.monotonic()
                (answer,) = consumer.complete([Completion(delivery=delivery)])
                facts = {
                    "name": json.loads(delivery.body)["payload"],
                    "attempt": delivery.attempt,
                    "asked": asked,
                    "received": received,
                    "settling": settling,
                    "settled": time.monotonic(),
                    "completed": isinstance(answer, Settled),
                    "pid": os.getpid(),
                }
                os.write(report, json.dumps(facts).encode() + b"\n")

    started = [threading.Thread(target=work) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    transport.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
