"""What a handler is given: abort, time left, heartbeats, publishing."""

import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from towpath.context import AbortSignal, Context, Progress
from towpath.errors import Aborted
from towpath.message import ABSENT, NewMessage, PublishResult

NOW = datetime(2026, 1, 31, 8, 15, tzinfo=UTC)


class Beats:
    """Records heartbeats and answers each with ``answer``."""

    def __init__(self, answer: bool = True) -> None:
        self.seen: list[Progress] = []
        self.answer = answer

    def __call__(self, progress: Progress) -> bool:
        self.seen.append(progress)
        return self.answer


def context(**changes) -> Context:
    known = {
        "subscription": "documents.convert",
        "delivery_id": "d-1",
        "attempt": 2,
        "max_attempts": 5,
        "is_replay": False,
        "correlation_id": "c-1",
        "deadline": None,
        "checkpoint": None,
        "log": logging.getLogger("test"),
        "_abort": AbortSignal(),
        "_beat": Beats(),
        "_publish": lambda topic, messages: [],
        "_clock": lambda: NOW,
    }
    return Context(**(known | changes))


# --- Aborting --------------------------------------------------------------------------------------------------


def test_a_handler_may_go_on_until_it_is_asked_to_stop():
    free = context()
    free.check()
    assert (free.aborted, free.abort_reason) == (False, None)


@pytest.mark.parametrize("reason", ["cancelled", "lease_lost", "max_processing", "shutdown"])
def test_check_raises_aborted_with_the_reason(reason):
    signal = AbortSignal()
    signal.set(reason)
    stopped = context(_abort=signal)
    assert (stopped.aborted, stopped.abort_reason) == (True, reason)
    with pytest.raises(Aborted) as caught:
        stopped.check()
    assert caught.value.reason == reason


def test_a_handlers_own_except_exception_does_not_swallow_an_abort():
    assert not issubclass(Aborted, Exception)


def test_the_first_reason_stands():
    signal = AbortSignal()
    signal.set("lease_lost")
    signal.set("shutdown")
    assert signal.reason == "lease_lost"


def test_of_many_threads_one_sets_the_reason_for_all():
    signal, reasons = AbortSignal(), ["cancelled", "lease_lost", "max_processing", "shutdown"]
    line, seen = threading.Barrier(len(reasons)), []

    def race(reason):
        line.wait(timeout=10)
        signal.set(reason)
        seen.append(signal.reason)

    threads = [threading.Thread(target=race, args=[reason]) for reason in reasons]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert len(seen) == len(reasons)
    assert set(seen) == {signal.reason}


# --- Time ------------------------------------------------------------------------------------------------------


def test_without_a_deadline_there_is_no_remaining_time():
    assert context().remaining() is None


@pytest.mark.parametrize(("ahead", "left"), [(90, 90), (0, 0), (-5, 0)])
def test_the_remaining_time_is_never_negative(ahead, left):
    assert context(deadline=NOW + timedelta(seconds=ahead)).remaining() == timedelta(seconds=left)


# --- Heartbeats ------------------------------------------------------------------------------------------------


def test_a_heartbeat_carries_what_it_was_given():
    beats = Beats()
    assert context(_beat=beats).heartbeat(percent=40, note="2 of 5", checkpoint={"page": 2})
    assert beats.seen == [Progress(percent=40, note="2 of 5", checkpoint={"page": 2})]


def test_a_bare_heartbeat_leaves_the_checkpoint_as_it_is():
    beats = Beats()
    assert context(_beat=beats).heartbeat() is True
    assert beats.seen == [Progress(percent=None, note="", checkpoint=ABSENT)]


def test_a_checkpoint_of_null_is_no_absent_one():
    beats = Beats()
    context(_beat=beats).heartbeat(checkpoint=None)
    assert beats.seen[0].checkpoint is None


@pytest.mark.parametrize("percent", [0, 100, 0.5, 99.99])
def test_percent_is_0_to_100(percent):
    assert context().heartbeat(percent=percent)


@pytest.mark.parametrize("percent", [-0.001, 100.001, -1, 101, float("nan"), float("inf")])
def test_any_other_percent_is_refused_at_once(percent):
    beats = Beats()
    with pytest.raises(ValueError, match="percent must be 0 to 100"):
        context(_beat=beats).heartbeat(percent=percent)
    assert beats.seen == []


@pytest.mark.parametrize(("percent", "kind"), [(True, "bool"), ("50", "str"), ([50], "list"), (1j, "complex")])
def test_a_percent_that_is_no_number_is_refused_at_once(percent, kind):
    beats = Beats()
    with pytest.raises(ValueError, match=f"percent must be 0 to 100, not a {kind}"):
        context(_beat=beats).heartbeat(percent=percent)
    assert beats.seen == []


@pytest.mark.parametrize(("note", "kind"), [(None, "NoneType"), (7, "int"), (b"x", "bytes"), (["x"], "list")])
def test_a_note_that_is_no_text_is_refused_at_once(note, kind):
    beats = Beats()
    with pytest.raises(ValueError, match=f"note must be text, not a {kind}"):
        context(_beat=beats).heartbeat(note=note)
    assert beats.seen == []


def test_a_note_has_at_most_500_characters():
    assert context().heartbeat(note="ä" * 500)
    with pytest.raises(ValueError, match="at most 500 characters, not 501"):
        context().heartbeat(note="ä" * 501)


def test_a_checkpoint_has_at_most_4000_bytes_of_json():
    assert context().heartbeat(checkpoint="x" * 3_998)
    with pytest.raises(ValueError, match="at most 4000 bytes of JSON, not 4001"):
        context().heartbeat(checkpoint="x" * 3_999)
    assert context().heartbeat(checkpoint="ä" * 1_999)
    with pytest.raises(ValueError, match="at most 4000 bytes of JSON, not 4002"):
        context().heartbeat(checkpoint="ä" * 2_000)


def test_a_checkpoint_is_measured_without_blanks():
    numbers = [1] * 1_990  # "[1,1,...]": 3,981 bytes
    assert context().heartbeat(checkpoint={"a": numbers, "b": "x" * 6})
    with pytest.raises(ValueError, match="at most 4000 bytes of JSON, not 4001"):
        context().heartbeat(checkpoint={"a": numbers, "b": "x" * 7})


@pytest.mark.parametrize(
    ("checkpoint", "problem"),
    [
        ({1, 2}, "checkpoint is a set, which JSON does not have"),
        ({"a": float("nan")}, "checkpoint.a is nan, which JSON does not have"),
        ({"a": ["\ud800"]}, r"checkpoint.a\[0\] holds a lone surrogate"),
        (10**5_000, "checkpoint is an integer of more than 4,300 digits"),
    ],
    ids=["set", "nan", "surrogate", "huge"],
)
def test_a_checkpoint_that_is_no_json_is_refused_at_once(checkpoint, problem):
    beats = Beats()
    with pytest.raises(ValueError, match=problem):
        context(_beat=beats).heartbeat(checkpoint=checkpoint)
    assert beats.seen == []


@pytest.mark.parametrize("reason", ["cancelled", "lease_lost", "max_processing"])
def test_a_heartbeat_of_a_stopped_handler_answers_no_and_renews_nothing(reason):
    signal, beats = AbortSignal(), Beats()
    signal.set(reason)
    assert context(_abort=signal, _beat=beats).heartbeat() is False
    assert beats.seen == []


def test_on_shutdown_a_heartbeat_still_keeps_the_progress_and_answers_no():
    signal, beats = AbortSignal(), Beats()
    signal.set("shutdown")
    assert context(_abort=signal, _beat=beats).heartbeat(checkpoint=7) is False
    assert beats.seen == [Progress(checkpoint=7)]


def test_a_progress_reports_nothing_by_itself():
    assert Progress() == Progress(percent=None, note="", checkpoint=ABSENT)


def test_a_heartbeat_that_finds_the_lease_lost_answers_no():
    assert context(_beat=Beats(answer=False)).heartbeat() is False


def test_a_heartbeat_that_was_overtaken_by_an_abort_answers_no():
    signal = AbortSignal()

    def beat(progress):
        signal.set("shutdown")
        return True

    assert context(_abort=signal, _beat=beat).heartbeat() is False


# --- Publishing ------------------------------------------------------------------------------------------------


def test_publishing_hands_topic_and_messages_on_and_answers_the_results():
    calls, results = [], [PublishResult(id="m-1", status="accepted")]

    def publish(topic, messages):
        calls.append((topic, list(messages)))
        return results

    first, second = NewMessage(payload=1), NewMessage(payload=2)
    assert context(_publish=publish).publish("documents.done", first, second) is results
    assert calls == [("documents.done", [first, second])]
