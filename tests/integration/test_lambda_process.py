"""A function's process in real time: a handler that ignores the end of its time ends the process, and loses nothing."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, os, sys, threading, time
from lambda_runtime.emf import report_to_log
from tests.fakes.lambdas import function, record
from tests.fakes.sqs import FakeSqs

class Told(FakeSqs):
    def _answer(self, name, url, entries, key):
        told = json.dumps([name, [[e[key], e.get("VisibilityTimeout")] for e in entries]])
        os.write(2, told.encode() + b"\\n")  # in one piece, beside other threads
        return super()._answer(name, url, entries, key)

class Context:
    aws_request_id = "request"
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds
    def get_remaining_time_in_millis(self):
        return 1000 * (self.end - time.monotonic())

def process(message, context):
    if message.payload == 0:
        return
    if what == "ignores":
        time.sleep(60)
    while True:
        context.check()
        time.sleep(0.01)

what = sys.argv[1]
extras = {"report": report_to_log("documents.convert", {})}
handler = function(process, Told(), concurrency=1, timeout_seconds=20, extras=extras).handle
context = Context(6)  # the guard strikes after two seconds, the last moment comes after five
answer = handler({"Records": [record(n, n) for n in range(3)]}, context)
print(json.dumps([answer, context.get_remaining_time_in_millis()]))
"""


def run(what):
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    calls = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("[")]
    return done, calls, time.monotonic() - started


def test_a_handler_that_ignores_the_end_ends_the_process_just_before_and_what_was_done_is_deleted():
    done, calls, seconds = run("ignores")
    assert done.returncode == 70, done.stderr
    assert seconds < 30  # not the minute that the handler sleeps
    assert calls[:2] == [["delete", [["handle-0", None]]], ["hide", [["handle-2", 0]]]]
    ((name, ((handle, hidden),)),) = calls[2:]
    assert (name, handle) == ("hide", "handle-1")
    assert hidden >= 5  # its back-off
    (metrics,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (metrics["Processed"], metrics["Completed"], metrics["Released"], metrics["Failed"]) == (
        [3.0],
        [1.0],
        [1.0],
        [1.0],
    )


def test_a_handler_that_stops_when_it_is_told_is_answered_in_time():
    done, calls, _ = run("stops")
    assert done.returncode == 0, done.stderr
    answer, remaining = json.loads(done.stdout.splitlines()[-1])
    assert [item["itemIdentifier"] for item in answer["batchItemFailures"]] == ["message-1", "message-2"]
    assert remaining > 0
    assert ["delete", [["handle-0", None]]] in calls
    assert sorted(entry for name, entries in calls for entry in entries if name == "hide") == [
        ["handle-1", 0],
        ["handle-2", 0],
    ]
