"""What ``towpath dev`` decides about its workers' process."""

import pytest

from towpath.cli.dev.control import Control, Step, on_change, on_end, on_pause_over, on_stop

SERVING = Control(running=True)
DRAINING = Control(running=True, stopping="draining", stale=True)


def test_the_first_topology_without_mistakes_starts_it():
    assert on_change(Control()) == Step(control=SERVING, act="start")


def test_a_change_drains_it_and_its_end_starts_it_anew():
    changed = on_change(SERVING)
    assert changed == Step(control=DRAINING, act="drain")
    assert on_end(changed.control, 0, died=False) == Step(control=SERVING, act="start")


def test_a_change_while_it_drains_needs_no_second_signal_which_would_abort():
    assert on_change(DRAINING) == Step(control=DRAINING)


@pytest.mark.parametrize("code", [1, 2])
def test_one_that_said_what_is_wrong_waits_for_a_change(code):
    ended = on_end(SERVING, code, died=False)
    assert ended == Step(control=Control())
    assert on_change(ended.control).act == "start"


@pytest.mark.parametrize("code", [0, 1, 2])
def test_one_that_a_handler_ended_is_started_anew_whatever_its_code_says(code):
    assert on_end(SERVING, code, died=True).act == "start_later"


@pytest.mark.parametrize("code", [0, 7, -9])
def test_one_that_was_ended_by_something_else_is_started_anew_after_a_pause(code):
    ended = on_end(SERVING, code, died=False)
    assert ended == Step(control=Control(), act="start_later")
    assert on_pause_over(ended.control) == Step(control=SERVING, act="start")


def test_a_change_during_the_pause_starts_it_once():
    started = on_change(on_end(SERVING, -9, died=False).control).control
    assert on_pause_over(started) == Step(control=SERVING)


def test_one_that_ended_with_a_failure_during_a_drain_is_started_with_the_changed_code():
    assert on_end(DRAINING, 1, died=False).act == "start"


def test_an_end_drains_then_aborts_then_kills():
    first = on_stop(SERVING)
    second = on_stop(first.control)
    third = on_stop(second.control)
    assert [first.act, second.act, third.act, on_stop(third.control).act] == ["drain", "abort", "kill", "kill"]
    assert on_end(second.control, 0, died=False).act == "leave"


def test_an_end_while_it_drains_anyway_waits_for_that_drain():
    first = on_stop(DRAINING)
    assert first.act is None
    assert on_stop(first.control).act == "abort"
    assert on_end(first.control, 0, died=False).act == "leave"


def test_an_end_without_workers_leaves_at_once():
    assert on_stop(Control()).act == "leave"


def test_nothing_is_started_once_somebody_wants_an_end():
    leaving = on_stop(SERVING).control
    assert on_change(leaving) == Step(control=leaving)
    assert on_pause_over(on_stop(Control()).control).act is None
