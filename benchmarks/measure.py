"""One measurement of one system in a process of its own; prints one JSON object. ``database.py`` calls it.

python -m benchmarks.measure SYSTEM URL prepare
python -m benchmarks.measure SYSTEM URL publish CALLS SIZE
python -m benchmarks.measure SYSTEM URL pace CALLS SECONDS_BETWEEN
python -m benchmarks.measure SYSTEM URL work IDLE_SECONDS
"""

import importlib
import json
import sys
import threading
import time
from contextlib import contextmanager

PADDING = "x" * 80


class Seen:
    """What a worker handled: how many, when the first and the last, and how long each that was timed was on its way."""

    def __init__(self):
        self.count, self.first, self.last, self.waits = 0, 0.0, 0.0, []

    def __call__(self, text):
        now = time.time()
        if not self.count:
            self.first = now
        self.count += 1
        self.last = now
        sent = json.loads(text).get("sent")
        if sent is not None:
            self.waits.append(now - sent)


def publish(system, url, calls, size):
    texts = [[json.dumps({"n": n, "pad": PADDING}) for n in range(size)] for _ in range(calls)]
    taken = []

    @contextmanager
    def timing():
        started = time.perf_counter()
        yield
        taken.append(time.perf_counter() - started)

    system.publish(url, texts, timing())
    return {"count": calls * size, "seconds": taken[0]}


def pace(system, url, calls, seconds):
    """Publish one at a time, each with the moment of its call, from one open connection."""

    def texts():
        for n in range(calls):
            time.sleep(seconds * (0.5 + (n * 7919 % 100) / 100))  # never in step with somebody's polling
            yield [json.dumps({"n": n, "sent": time.time()})]

    @contextmanager
    def untimed():
        yield

    system.publish(url, texts(), untimed())
    return {"count": calls}


def work(system, url, idle_seconds):
    """Serve until nothing came for ``idle_seconds``."""
    seen, stop = Seen(), threading.Event()

    def watch():
        print("ready", file=sys.stderr, flush=True)
        began = time.time()
        while time.time() - max(seen.last, began) < idle_seconds + (0 if seen.count else 10):
            time.sleep(0.05)
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    system.work(url, seen, stop)
    return {"count": seen.count, "first": seen.first, "last": seen.last, "waits": seen.waits}


def main():
    name, url, what, *numbers = sys.argv[1:]
    system = importlib.import_module(f"benchmarks.systems.{name}")
    if what == "prepare":
        answer = system.prepare(url) or {}
    elif what == "publish":
        answer = publish(system, url, int(numbers[0]), int(numbers[1]))
    elif what == "pace":
        answer = pace(system, url, int(numbers[0]), float(numbers[1]))
    else:
        answer = work(system, url, float(numbers[0]))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
