"""What ``towpath dev`` shows: the state after each thing that happens, the view of it, and lines without a terminal."""

import json
from datetime import timedelta

import pytest
from rich.console import Console

from towpath.cli.dev.happenings import (
    Changed,
    Counted,
    Ended,
    Logged,
    Moved,
    Printed,
    Refused,
    Said,
    Started,
    Told,
    TopologyApplied,
)
from towpath.cli.dev.plain import Lines
from towpath.cli.dev.state import State, after, draining, toggled
from towpath.cli.dev.view import view
from towpath.operating import SubscriptionStats
from towpath.transports import Applied

WHY = ("again", "in", "5", "s:", "Retry:", "later")
TRACEBACK = "Traceback (most recent call last):\n" + "".join(f"  line {n}\n" for n in range(60)) + "KeyError: 1\n"
APPLIED = Applied(added=("orders.placed", "orders.ship"), changed=(), removed=())


def moved(number: int = 1, state: str = "completed", traceback: str = "", reason: str = "") -> Moved:
    return Moved(
        time="2026-01-01T12:34:56.789Z",
        subscription="orders.ship",
        delivery_id=f"{number}-1",
        message_id="m",
        attempt=1,
        state=state,
        milliseconds=2.4,
        partition_key="k-1",
        reason=reason,
        again_in=5.0 if state == "retried" else None,
        traceback=traceback,
    )


def stats(status: str = "active") -> SubscriptionStats:
    return SubscriptionStats(
        subscription="orders.ship",
        topic="orders.placed",
        pending=1234,
        leased=2,
        dead=3,
        completed=4,
        discarded=None,
        oldest_pending=timedelta(0),
        status=status,
    )


def state_after(*told: Told) -> State:
    state = State(database="sqlite:///dev.db")
    for one in (Started(topology="shop", pid=1), *told):
        state = after(state, one)
    return state


def shown(state: State, height: int = 40, width: int = 140) -> str:
    console = Console(width=width, height=height, record=True, file=None, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(view(state, height))
    return captured.get()


# --- The view ----------------------------------------------------------------------------------------------------


def test_counts_and_the_newest_outcomes_are_shown():
    text = shown(state_after(Counted(stats=(stats(),)), moved(1), moved(2, "retried", reason="Retry: later")))
    assert "shop  sqlite:///dev.db  workers run" in text
    assert [line.split() for line in text.splitlines() if "1,234" in line] == [
        ["orders.ship", "1,234", "2", "3", "4", "-", "active"]
    ]
    rows = [line.split() for line in text.splitlines() if line.startswith("12:34:56")]
    assert rows == [
        ["12:34:56", "2-1", "orders.ship", "1", "retried", "2", "ms", "k-1", *WHY],
        ["12:34:56", "1-1", "orders.ship", "1", "completed", "2", "ms", "k-1"],
    ]


@pytest.mark.parametrize("height", [24, 40, 60])
def test_it_fits_the_screen_however_much_there_is(height):
    many = [moved(n, "dead", TRACEBACK, "bad") for n in range(200)]
    state = state_after(Counted(stats=(stats(),)), *many, *(Printed(text="x\ny") for _ in range(50)))
    text = shown(after(state, Refused(problem="topology.toml has 2 mistakes:\n  a\n  b")), height)
    assert len(text.splitlines()) <= height
    assert "199-1" in text
    assert "topology.toml has 2 mistakes" in text
    assert "KeyError: 1" in text
    assert "q quit" in text


def test_on_a_narrow_screen_only_the_reason_is_cut_short():
    state = state_after(Counted(stats=(stats(),)), moved(1, "completed"), moved(2, "retried", reason="no box " * 20))
    narrow = [line.rstrip() for line in shown(state, width=80).splitlines()]
    assert [line for line in narrow if "1-1" in line] == [
        "12:34:56  1-1       orders.ship   1        completed  2 ms  k-1"
    ]
    assert [line[-1] for line in narrow if "2-1" in line] == ["…"]
    assert narrow[-1].endswith("q quit")


def test_the_last_traceback_is_hidden_and_shown_by_its_key():
    state = state_after(moved(1, "dead", TRACEBACK, "bad"), moved(2))
    assert "orders.ship 1-1, attempt 1: bad" in shown(state)
    assert "KeyError" not in shown(toggled(state))
    assert shown(toggled(toggled(state))) == shown(state)


def test_what_keeps_the_workers_from_starting_is_shown_until_they_start():
    stopped = state_after(Ended(code=1, sentence="no module 'x'", traceback=TRACEBACK))
    text = shown(stopped)
    assert "no workers: waiting for a change" in text
    assert "no module 'x'" in text
    assert "KeyError" in text
    mended = shown(after(stopped, Started(topology="shop", pid=2)))
    assert "no module" not in mended
    assert "KeyError" not in mended


def test_what_ended_the_workers_is_told_on_when_they_run_again():
    ended = state_after(Ended(code=7, sentence="the workers ended with exit code 7", died=True))
    assert "waiting for a change" not in shown(ended)
    text = shown(after(ended, Started(topology="shop", pid=2)))
    assert "workers run" in text
    assert "started again: the workers ended with exit code 7" in text


def test_a_handlers_traceback_outlives_a_start():
    assert "KeyError" in shown(state_after(moved(1, "dead", TRACEBACK), Started(topology="shop", pid=2)))


def test_mistakes_of_the_topology_are_shown_until_it_has_none():
    refused = state_after(Refused(problem="line 3: handlr: is not a known key"))
    assert "line 3: handlr" in shown(refused)
    assert "handlr" not in shown(after(refused, TopologyApplied(applied=APPLIED)))


def test_one_handler_of_several_that_does_not_load_is_told_while_the_others_run():
    state = state_after(Logged(time="t", level="ERROR", logger="towpath.worker", text="orders.bill: no handler"))
    assert "orders.bill: no handler" in shown(state)
    assert "workers run" in shown(state)


def test_a_pause_and_drains_are_shown():
    paused = state_after(Counted(stats=(stats("paused"),)))
    assert "paused: nothing is claimed" in shown(paused)
    assert "draining, to start anew" in shown(draining(paused, leaving=False))
    assert "Ctrl-C aborts" in shown(draining(paused, leaving=True))


def test_a_terminal_obeys_nothing_that_somebody_sent():
    state = state_after(
        moved(1, "dead", "\x1b[2J\x07", "\x1b]0;x\x07"), Printed(text="\x1b[31mred"), Said(sentence="\x1b")
    )
    assert "\x1b" not in shown(state)
    assert "\x07" not in shown(state)


# --- Lines -------------------------------------------------------------------------------------------------------


def lines(*told: Told, as_json: bool = False) -> str:
    written: list[str] = []
    display = Lines(written.append, as_json=as_json)
    for one in told:
        display.show(one)
    return "".join(written)


def test_an_outcome_is_a_line_and_its_traceback_stands_below():
    assert lines(moved(3, "dead", "Traceback\n  x\n", "bad")) == (
        "12:34:56 dead       orders.ship 3-1, attempt 1, 2 ms, key k-1: bad\n    Traceback\n      x\n"
    )


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (Started(topology="shop", pid=7), "shop: workers run, as process 7\n"),
        (Changed(paths=("a.py", "b.py")), "changed: a.py, b.py\n"),
        (TopologyApplied(applied=APPLIED, warnings=("w",)), "applied: added orders.placed, orders.ship\nwarning: w\n"),
        (TopologyApplied(applied=Applied(added=(), changed=(), removed=())), ""),
        (Ended(code=1, sentence="broken"), "error: broken; waiting for a change\n"),
        (Ended(code=1, sentence="broken", died=True), "error: broken; they start anew\n"),
        (Logged(time="2026-01-01T12:34:56.789Z", level="INFO", logger="x", text="hi"), "12:34:56 INFO       hi\n"),
        (Counted(stats=()), ""),
    ],
)
def test_everything_else_is_said_in_words(told, line):
    assert lines(told) == line


def test_for_programs_each_is_an_object_with_its_kind():
    told = [json.loads(line) for line in lines(moved(), Printed(text="\x1b"), as_json=True).splitlines()]
    assert [one["kind"] for one in told] == ["delivery", "output"]
    assert (told[0]["delivery_id"], told[0]["state"], told[0]["milliseconds"]) == ("1-1", "completed", 2.4)
