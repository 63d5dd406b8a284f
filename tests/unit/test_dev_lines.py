"""What ``towpath dev`` reads of the lines that its workers' process writes."""

import json
import logging
from datetime import UTC, datetime, timedelta

import pytest

from towpath.cli.dev.happenings import Ended, Logged, Moved, Printed
from towpath.cli.dev.lines import read_end, read_log_line
from towpath.cli.logs import JsonLines
from towpath.settlement import (
    Completion,
    DeadLettering,
    Decision,
    Delivery,
    Failure,
    LeaseLost,
    Release,
    Retrial,
    Settled,
    SettleResult,
    log_settled,
)

DELIVERY = Delivery(
    id="7-1",
    subscription="orders.ship",
    topic="orders.placed",
    attempt=2,
    message_id="m-1",
    body='{"secret": 1}',
    lease_token="t",
    received_at=datetime(2026, 1, 1, tzinfo=UTC),
    partition_key="k",
)
FAILURE = Failure(type="ValueError", message="bad", traceback="Traceback (most recent call last):\n...\n")


def lines_of(decision: Decision, result: SettleResult) -> list[str]:
    """The lines that a worker writes for it with ``--json``."""
    found: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(JsonLines().format(record))

    log, kept = logging.getLogger("towpath.delivery"), Kept()
    log.addHandler(kept)
    level = log.level
    log.setLevel(logging.INFO)
    try:
        log_settled(log, decision, result, 12.34)
    finally:
        log.removeHandler(kept)
        log.setLevel(level)
    return found


@pytest.mark.parametrize(
    ("decision", "result", "state", "reason"),
    [
        (Completion(delivery=DELIVERY), Settled(state="completed"), "completed", ""),
        (Release(delivery=DELIVERY), Settled(state="pending"), "released", ""),
        (Completion(delivery=DELIVERY), LeaseLost(), "lease_lost", ""),
        (
            Retrial(delivery=DELIVERY, delay=timedelta(seconds=3), failure=FAILURE),
            Settled(state="pending"),
            "retried",
            "ValueError: bad",
        ),
        (
            DeadLettering(delivery=DELIVERY, reason="MaxAttemptsExceeded", failure=FAILURE),
            Settled(state="dead"),
            "dead",
            "MaxAttemptsExceeded (ValueError: bad)",
        ),
        (
            DeadLettering(delivery=DELIVERY, reason="bad", failure=FAILURE),
            Settled(state="dead"),
            "dead",
            "bad (ValueError)",
        ),
    ],
)
def test_a_workers_line_about_an_outcome_is_read_whole(decision, result, state, reason):
    (line,) = lines_of(decision, result)
    moved = read_log_line(line)
    assert isinstance(moved, Moved)
    assert (moved.subscription, moved.delivery_id, moved.message_id) == ("orders.ship", "7-1", "m-1")
    assert (moved.attempt, moved.milliseconds, moved.partition_key) == (2, 12.3, "k")
    assert (moved.state, moved.reason) == (state, reason)
    assert (moved.again_in, bool(moved.traceback)) == (3.0 if state == "retried" else None, "ValueError" in reason)


def test_the_traceback_of_what_was_raised_on_purpose_is_left_out():
    failure = Failure(type="FatalError", message="no", traceback="Traceback ...", intended=True)
    (line,) = lines_of(DeadLettering(delivery=DELIVERY, reason="no", failure=failure), Settled(state="dead"))
    moved = read_log_line(line)
    assert isinstance(moved, Moved)
    assert (moved.reason, moved.traceback) == ("no (FatalError)", "")


def test_another_line_of_the_log_is_what_somebody_logged():
    line = json.dumps({"time": "t", "level": "ERROR", "logger": "towpath.worker", "message": "a", "traceback": "b"})
    assert read_log_line(line) == Logged(time="t", level="ERROR", logger="towpath.worker", text="a", traceback="b")


@pytest.mark.parametrize("line", ["plain words", "{", "7", "null", '{"state": "dead"}', '{"logger": 1}', "[" * 100_000])
def test_anything_else_was_printed_by_a_handler(line):
    assert read_log_line(line) == Printed(text=line)


def test_a_handlers_own_logger_cannot_pass_for_a_delivery():
    told = read_log_line('{"logger": "shop", "state": "dead", "delivery_id": "1", "message": "hello"}')
    assert isinstance(told, Logged)


# --- The end -----------------------------------------------------------------------------------------------------

CAUSE = """Traceback (most recent call last):
  File "/usr/lib/python3.11/importlib/__init__.py", line 126, in import_module
    return _bootstrap._gcd_import(name[level:], package, level)
           ^^^^^
  File "<frozen importlib._bootstrap>", line 1204, in _gcd_import
  File "/home/ada/shop/orders.py", line 3, in <module>
    import nothing
ModuleNotFoundError: No module named 'nothing'
"""
RAISED = """
The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/worker.py", line 1, in load
towpath.errors.HandlerNotFound: handler 'orders:ship': needs 'nothing'"""


def test_why_it_ended_is_the_last_error_and_where_is_the_first_in_the_projects_own_code():
    printed = ["hello", "Traceback (most recent call last):", "  an older one", "KeyError: 1", ""]
    assert read_end(1, [*printed, *(CAUSE + RAISED).split("\n")]) == Ended(
        code=1,
        sentence="handler 'orders:ship': needs 'nothing'",
        traceback="Traceback (most recent call last):\n"
        '  File "/home/ada/shop/orders.py", line 3, in <module>\n'
        "    import nothing\n"
        "ModuleNotFoundError: No module named 'nothing'\n",
    )


def test_an_error_in_a_sentence_is_told_as_it_is():
    assert read_end(1, ["x", "error: the disk is full"]) == Ended(code=1, sentence="the disk is full")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [(0, ""), (7, "the workers ended with exit code 7"), (-9, "the workers were ended by signal 9")],
)
def test_an_end_without_a_word_is_told_by_its_code(code, sentence):
    assert read_end(code, ["something that was printed"]) == Ended(code=code, sentence=sentence)
