"""A process of several threads that claim: ``python -m tests.servers.claiming URL SUBSCRIPTION THREADS HOW``.

It prints a line of JSON for each claimed delivery. HOW is ``complete`` (until nothing is due) or ``hold`` (claim once,
then stay until it is killed).
"""

import json
import sys
import threading
import time
from dataclasses import asdict
from datetime import timedelta

from towpath import connect
from towpath.settlement import Completion

BATCH = 7


def main(url: str, subscription: str, threads: int, how: str) -> None:
    transport = connect(url)
    consumer = transport.consumer(subscription)
    lock = threading.Lock()

    def report(deliveries, results):
        with lock:
            for delivery, result in zip(deliveries, results, strict=True):
                facts = {"id": delivery.id, "attempt": delivery.attempt, "token": delivery.lease_token}
                print(json.dumps(facts | {"settled": result}), flush=True)

    def work():
        while deliveries := consumer.receive(BATCH, timedelta(0)):
            if how == "hold":
                report(deliveries, [None] * len(deliveries))
                time.sleep(600)
            answers = consumer.complete([Completion(delivery=delivery) for delivery in deliveries])
            report(deliveries, [asdict(answer).get("state", repr(answer)) for answer in answers])

    started = [threading.Thread(target=work) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    transport.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
