"""The history checker: each kind of violation is found in a history made by hand, and what is legal passes."""

import json
from dataclasses import replace

import pytest

from tests.history.checking import check
from tests.history.events import Answer, Call, Claim, Commit, Ending, History, Order, Rule, Run, Sent, Settle, read
from tests.history.recording import Recorder, wall_clock_ahead

LEASE = 10.0
WALL = 1_000.0  # the database's clock is so far ahead of the monotonic one
IDS = {"none": 1, "exclusive": 2, "ordered": 3}


def rules(*modes):
    return {mode: Rule(id=IDS[mode], mode=mode, lease_seconds=LEASE, max_attempts=3) for mode in modes}


def published(*names, at=0.0, key="k", **call):
    """A call that was accepted; the messages are called by their names."""
    given = {"answered_at": at + 0.5, "answers": [Answer(status="accepted", winner=name) for name in names]} | call
    return Call(messages=[Sent(id=name, key=key) for name in names], asked_at=at, **given)


def claimed(ordinal, mode="ordered", *, at, token=1, attempt=1, **facts):
    return Claim(
        delivery=f"{ordinal}-{IDS[mode]}",
        subscription=mode,
        message=f"m{ordinal}",
        token=token,
        attempt=attempt,
        is_replay=facts.get("is_replay", False),
        database_time=WALL + at,
        claimed_at=at,
        received_at=at + 0.1,
    )


def settled(claim, at, kind="complete", answer="completed", token=None):
    return Settle(
        kind=kind,
        delivery=claim.delivery,
        token=claim.token if token is None else token,
        asked_at=at,
        answered_at=None if answer is None else at + 0.2,
        answer=answer,
    )


def ended(claim, at, outcome="completed"):
    return Ending(delivery=claim.delivery, outcome=outcome, database_time=WALL + at)


def ran(claim, at):
    return Run(delivery=claim.delivery, token=claim.token, started_at=claim.received_at + 0.1, ended_at=at)


def history(mode="ordered", **facts):
    """Messages ``m1`` and ``m2`` of one key, published in one call, ordinals 1 and 2."""
    given = {"calls": [published("m1", "m2")], "ordinals": {"m1": 1, "m2": 2}, "slack": 0.01}
    return History(rules=rules(mode), **{**given, **facts})


def worked(mode, *steps, **facts):
    """A history of deliveries each claimed at its time and completed a second later."""
    claims = [claimed(ordinal, mode, at=at) for ordinal, at in steps]
    parts = {
        "claims": claims,
        "runs": [ran(claim, claim.claimed_at + 0.9) for claim in claims],
        "settles": [settled(claim, claim.claimed_at + 1) for claim in claims],
        "endings": [ended(claim, claim.claimed_at + 1.1) for claim in claims],
    }
    return history(mode, **{**parts, **facts})


def found(given):
    return sorted({violation.rule for violation in check(given)})


@pytest.mark.parametrize("mode", IDS)
def test_deliveries_of_a_key_one_after_the_other_are_legal(mode):
    assert check(worked(mode, (1, 1.0), (2, 3.0))) == []


def test_a_violation_says_what_it_is_about():
    (violation,) = check(worked("ordered", (1, 1.0), endings=[], settles=[], open={"1-3": "pending", "2-3": "dead"}))
    assert str(violation) == "stuck: delivery 1-3: it is still pending after workers had nothing more to do"


# --- Messages ----------------------------------------------------------------------------------------------------


def test_an_accepted_message_that_is_not_there_is_lost():
    assert found(history(calls=[published("m1")], ordinals={})) == ["lost"]


def test_a_delivery_that_neither_ended_nor_is_open_is_lost():
    assert found(worked("none", (1, 1.0))) == ["lost"]
    assert found(worked("none", (1, 1.0), open={"2-1": "dead"})) == []


@pytest.mark.parametrize("state", ["pending", "leased"])
def test_what_waits_when_all_is_quiet_is_stuck(state):
    assert found(worked("none", (1, 1.0), open={"2-1": state})) == ["stuck"]


REFUSED = {"answers": [Answer(status="rejected", code="InvalidPartitionKey")]}
SUPPRESSED = {"answers": [Answer(status="duplicate", winner="m1")]}


@pytest.mark.parametrize(
    "call", [REFUSED, SUPPRESSED, {"transaction": "t"}], ids=["refused", "suppressed", "rolled back"]
)
def test_what_was_not_taken_and_is_there_is_doubled(call):
    calls = [published("m1"), published("m2", at=1.0, **call)]
    assert found(worked("none", (1, 1.0), (2, 3.0), calls=calls)) == ["doubled"]
    there_not = worked("none", (1, 1.0), calls=calls, ordinals={"m1": 1})
    assert found(there_not) == []


def test_what_was_rolled_back_and_is_handed_out_is_doubled():
    calls = [published("m1"), published("m2", transaction="t")]
    assert "doubled" in found(worked("none", (1, 1.0), (2, 3.0), calls=calls, ordinals={"m1": 1}))


def test_a_message_from_nowhere_is_doubled():
    assert found(worked("none", (1, 1.0), (2, 3.0), calls=[published("m1")])) == ["doubled"]


def test_a_commit_decides_what_a_callers_transaction_published():
    calls = [published("m1", "m2", transaction="t")]
    whole = worked("none", (1, 1.0), (2, 3.0), calls=calls, commits={"t": Commit(asked_at=0.6, answered_at=0.7)})
    assert found(whole) == []
    lost = replace(whole, ordinals={"m1": 1}, claims=[], runs=[], settles=[], endings=[], open={"1-1": "dead"})
    assert found(lost) == ["lost"]
    assert found(replace(lost, commits={"t": Commit(asked_at=0.6)})) == []  # nobody knows


UNANSWERED = {"answered_at": None, "answers": ()}
UNAVAILABLE = {"answers": [Answer(status="rejected", code="TransportUnavailable")] * 2}


def test_a_call_without_an_answer_may_be_there_whole_or_not_at_all():
    unknown = worked("none", (1, 1.0), (2, 3.0), calls=[published("m1", "m2", **UNANSWERED)])
    assert found(unknown) == []
    assert found(history("none", calls=unknown.calls, ordinals={})) == []
    assert found(worked("none", (1, 1.0), calls=unknown.calls, ordinals={"m1": 1})) == ["torn"]


def test_a_call_that_is_made_again_counts_by_its_best_answer():
    calls = [published("m1", "m2", **UNAVAILABLE), published("m1", "m2", at=1.0)]
    assert found(history("none", calls=calls, ordinals={})) == ["lost"]
    assert found(worked("none", (1, 1.0), (2, 3.0), calls=calls)) == []
    own = [Answer(status="duplicate", winner="m1"), Answer(status="duplicate", winner="m2")]
    again = [calls[0], published("m1", "m2", at=1.0, answers=own)]
    assert found(history("none", calls=again, ordinals={})) == ["lost", "repeated"]


def test_two_messages_of_a_deduplication_key_are_repeated():
    whole = worked("none", (1, 1.0), (2, 3.0))
    sent = [Sent(id=name, key="k", deduplication_key="once") for name in ("m1", "m2")]
    assert found(replace(whole, calls=[replace(whole.calls[0], messages=sent)])) == ["repeated"]


def test_a_duplicate_of_what_is_not_there_is_repeated():
    calls = [published("m1"), published("m3", at=1.0, answers=[Answer(status="duplicate", winner="m2")])]
    assert found(worked("none", (1, 1.0), calls=calls, ordinals={"m1": 1})) == ["repeated"]


def test_a_later_commit_with_an_earlier_place_is_misplaced():
    early, late = published("m1", at=0.0), published("m2", at=1.0)
    whole = worked("none", (1, 1.0), (2, 3.0), calls=[late, early])
    assert found(whole) == []
    turned = [replace(early, messages=late.messages), replace(late, messages=early.messages)]
    assert found(replace(whole, calls=turned)) == ["misplaced"]
    beside = [turned[0], replace(turned[1], asked_at=0.4)]  # neither was first for sure
    assert found(replace(whole, calls=beside)) == []


def test_a_callers_transaction_has_its_place_by_its_commit():
    early = published("m1", at=0.0, transaction="t")
    late = published("m2", at=0.6)
    whole = worked("none", (1, 2.0), (2, 4.0), calls=[early, late])
    assert found(replace(whole, commits={"t": Commit(asked_at=0.7, answered_at=1.3)})) == []
    assert found(replace(whole, commits={"t": Commit(asked_at=1.2, answered_at=1.3)})) == ["misplaced"]


def test_a_call_that_turns_its_messages_is_misplaced():
    assert found(worked("none", (1, 1.0), (2, 3.0), calls=[published("m2", "m1")])) == ["misplaced"]


# --- Leases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["exclusive", "ordered"])
def test_two_of_a_key_under_live_leases_overlap(mode):
    assert "overlap" in found(worked(mode, (1, 1.0), (2, 1.5)))


def test_two_of_a_key_at_once_are_legal_where_keys_do_not_bind():
    assert found(worked("none", (1, 1.0), (2, 1.5))) == []


@pytest.mark.parametrize("mode", IDS)
def test_a_delivery_that_is_handed_out_twice_under_live_leases_overlaps(mode):
    claims = [claimed(1, mode, at=1.0), claimed(1, mode, at=1.5, token=2, attempt=2)]
    settles = [settled(claims[1], 2.0)]
    parts = {"claims": claims, "settles": settles, "runs": [ran(claims[1], 1.9)], "endings": [ended(claims[1], 2.1)]}
    assert found(history(mode, open={f"2-{IDS[mode]}": "dead"}, **parts)) == ["overlap"]


def over_the_lease(*settles, at=1.1 + LEASE, **facts):
    """The first delivery was not settled in time; ``settles`` of it are added, and it is handed out again ``at``."""
    first, again = claimed(1, at=1.0), claimed(1, at=at, token=2, attempt=2)
    given = {
        "claims": [first, again],
        "runs": [ran(first, 1.5), ran(again, at + 0.5)],
        "settles": [settled(again, at + 1), *settles],
        "endings": [ended(again, at + 1.1)],
        "open": {"2-3": "dead"},
    }
    return history(**{**given, **facts})


def test_a_lease_that_is_over_binds_nobody():
    assert found(over_the_lease()) == []
    assert found(over_the_lease(at=0.9 + LEASE)) == ["overlap"]


def test_a_renewed_lease_lasts_from_its_renewal():
    renewed = settled(claimed(1, at=1.0), 5.0, kind="extend", answer="leased")
    assert found(over_the_lease(renewed)) == ["overlap"]
    assert found(over_the_lease(renewed, at=5.1 + LEASE)) == []


def test_a_renewal_whose_answer_came_after_the_claim_proves_no_overlap():
    renewed = replace(settled(claimed(1, at=1.0), 5.0, kind="extend", answer="leased"), answered_at=12.0)
    assert found(over_the_lease(renewed)) == []


def test_a_settle_whose_answer_nobody_knows_may_have_ended_the_lease():
    first = claimed(1, at=1.0)
    assert found(over_the_lease(settled(first, 2.0, kind="retry", answer=None), at=3.0)) == []
    assert found(over_the_lease(settled(first, 2.0, kind="retry", answer="failed"), at=3.0)) == []
    assert found(over_the_lease(settled(first, 2.0, kind="retry", answer="lost"), at=3.0)) == ["overlap"]


@pytest.mark.parametrize(("kind", "answer"), [("complete", "completed"), ("retry", "pending"), ("extend", "leased")])
def test_what_is_accepted_from_a_stale_lease_is_found(kind, answer):
    first = claimed(1, at=1.0)
    assert "stale" in found(over_the_lease(settled(first, 11.3, kind=kind, answer=answer)))
    assert found(over_the_lease(settled(first, 11.3, kind=kind, answer="lost"))) == []


def test_a_settle_that_was_asked_before_the_next_claim_came_back_is_not_stale():
    first = claimed(1, at=1.0)
    assert found(over_the_lease(settled(first, 11.15, kind="retry", answer="pending"))) == []


def beside(settle_at, **other):
    """The first delivery's lease is over when the second is handed out; then the first is completed after all."""
    first, second = claimed(1, "exclusive", at=1.0), claimed(2, "exclusive", at=12.0)
    return history(
        "exclusive",
        claims=[first, second],
        runs=[ran(first, 11.9), ran(second, 13.9)],
        settles=[settled(first, settle_at), settled(second, **{"at": 14.0, **other})],
        endings=[ended(first, settle_at + 0.1), ended(second, 14.1)],
    )


def test_a_settle_beside_the_live_lease_of_another_of_its_key_is_stale():
    assert found(beside(13.0)) == ["stale"]


def test_a_late_settle_is_legal_while_nobody_holds_the_key():
    assert found(beside(15.0)) == []
    assert found(beside(13.9)) == []  # the other one was settled meanwhile
    assert found(beside(13.0, at=12.5, kind="complete")) == []


def renewed(at, second_at, mode="exclusive"):
    """Two of a key whose leases are over are renewed after all; the first is completed five seconds later."""
    first, second = claimed(1, mode, at=1.0), claimed(2, mode, at=12.0)
    renewals = [settled(c, t, kind="extend", answer="leased") for c, t in ((first, at), (second, second_at))]
    return history(
        mode,
        claims=[first, second],
        runs=[ran(first, at + 4), ran(second, second_at + 4)],
        settles=[*renewals, settled(first, at + 5), settled(second, second_at + 5)],
        endings=[ended(first, at + 5.1), ended(second, second_at + 5.1)],
    )


def test_two_leases_of_a_key_that_live_by_renewals_overlap():
    assert found(renewed(30.0, 30.0)) == ["overlap"]
    assert found(renewed(30.0, 30.0, "none")) == []
    assert found(renewed(30.0, 36.0)) == []


def test_a_lease_is_settled_once():
    whole = worked("none", (1, 1.0), (2, 3.0))
    twice = [*whole.settles, settled(whole.claims[0], 2.5)]
    assert found(replace(whole, settles=twice)) == ["settled twice"]
    refused = [*whole.settles, settled(whole.claims[0], 2.5, answer="lost")]
    assert found(replace(whole, settles=refused)) == []


def test_nothing_comes_after_a_final_settle():
    whole = worked("none", (1, 1.0), (2, 3.0))
    again = claimed(1, "none", at=5.0, token=2, attempt=2)
    assert found(replace(whole, claims=[*whole.claims, again])) == ["came again"]


def test_a_token_is_handed_out_once_and_tokens_rise():
    first, again = claimed(1, at=1.0), claimed(1, at=20.0)
    assert "tokens" in found(over_the_lease(claims=[first, again], settles=[settled(again, 21.0)]))
    turned = [claimed(1, at=20.0), claimed(1, at=1.0, token=2, attempt=2)]
    assert "tokens" in found(over_the_lease(claims=turned, runs=[]))


@pytest.mark.parametrize(("attempt", "token", "legal"), [(2, 2, True), (1, 2, False), (3, 2, False), (3, 3, True)])
def test_attempts_rise_with_the_claims_also_with_those_that_nobody_could_record(attempt, token, legal):
    again = claimed(1, at=12.0, token=token, attempt=attempt)
    given = over_the_lease(claims=[claimed(1, at=1.0), again], settles=[settled(again, 13.0)], runs=[ran(again, 12.5)])
    assert found(given) == ([] if legal else ["attempts"])


def test_a_release_gives_its_attempt_back():
    first = claimed(1, at=1.0)
    again = claimed(1, at=3.0, token=2)
    given = over_the_lease(
        claims=[first, again],
        settles=[settled(first, 2.0, kind="release", answer="pending"), settled(again, 4.0)],
        runs=[ran(again, 3.5)],
    )
    assert found(given) == []
    kept = [claimed(1, at=1.0), replace(again, attempt=2)]
    assert found(replace(given, claims=kept)) == []


def test_a_replay_begins_at_attempt_one():
    first = claimed(1, at=1.0, attempt=1)
    again = claimed(1, at=5.0, token=2, is_replay=True)
    replayed = Order(kind="replay", deliveries=["1-3"], asked_at=3.0, answered_at=3.1, at_once=1)
    given = over_the_lease(
        claims=[first, again],
        settles=[settled(first, 2.0, kind="dead_letter", answer="dead"), settled(again, 6.0)],
        runs=[ran(again, 5.5)],
        orders=[replayed],
    )
    assert found(given) == []
    assert found(replace(given, orders=[])) == ["forgotten"]


def test_no_attempt_is_above_what_is_allowed():
    again = claimed(1, at=12.0, token=4, attempt=4)
    given = over_the_lease(claims=[again], settles=[settled(again, 13.0)], runs=[ran(again, 12.5)])
    assert found(given) == ["attempts"]


def test_a_handler_runs_once_for_a_claim_that_was_received():
    whole = worked("none", (1, 1.0), (2, 3.0))
    assert found(replace(whole, runs=[*whole.runs, replace(whole.runs[0], started_at=1.5)])) == ["handlers"]
    assert found(replace(whole, runs=[*whole.runs, Run(delivery="1-1", token=2, started_at=1.5)])) == ["handlers"]


# --- Order and ends ----------------------------------------------------------------------------------------------


def test_a_later_delivery_of_a_key_before_the_end_of_an_earlier_is_out_of_order():
    assert found(worked("ordered", (2, 1.0), (1, 3.0))) == ["order"]
    assert found(worked("exclusive", (2, 1.0), (1, 3.0))) == []


def test_nothing_comes_behind_a_dead_head():
    assert found(worked("ordered", (2, 1.0), open={"1-3": "dead"})) == ["order"]


def test_a_head_that_comes_again_is_in_order():
    assert found(over_the_lease()) == []


def test_keys_do_not_wait_for_each_other():
    calls = [published("m1", key="a"), published("m2", key="b")]
    assert found(worked("ordered", (2, 1.0), (1, 3.0), calls=calls)) == []
    assert found(worked("ordered", (2, 1.0), (1, 3.0), calls=[published("m1", "m2", key=None)])) == []


def test_a_delivery_ends_once():
    whole = worked("none", (1, 1.0), (2, 3.0))
    assert found(replace(whole, endings=[*whole.endings, ended(whole.claims[0], 9.0)])) == ["ended twice"]
    assert found(replace(whole, open={"1-1": "dead"})) == ["ended twice"]


def test_an_accepted_settle_that_left_no_trace_is_forgotten():
    whole = worked("none", (1, 1.0), (2, 3.0))
    assert found(replace(whole, endings=whole.endings[1:], open={"1-1": "dead"})) == ["forgotten"]
    dead = [settled(whole.claims[0], 2.0, kind="dead_letter", answer="dead"), whole.settles[1]]
    assert found(replace(whole, settles=dead, endings=whole.endings[1:], open={"1-1": "dead"})) == []


def test_a_delivery_is_completed_by_somebody_whose_handler_had_ended():
    whole = worked("none", (1, 1.0), (2, 3.0))
    assert found(replace(whole, settles=whole.settles[1:])) == ["unaccounted"]
    assert found(replace(whole, runs=whole.runs[1:])) == ["unaccounted"]
    refused = [replace(whole.settles[0], answer="lost"), whole.settles[1]]
    assert found(replace(whole, settles=refused)) == ["unaccounted"]
    unknown = [replace(whole.settles[0], answer=None), whole.settles[1]]
    assert found(replace(whole, settles=unknown)) == []


def dropped(**facts):
    """The first delivery was dropped by an operator; nobody had it."""
    whole = worked("none", (2, 3.0))
    order = Order(kind="discard", deliveries=["1-1"], asked_at=1.0, answered_at=1.2, at_once=1)
    gone = Ending(delivery="1-1", outcome="discarded", database_time=WALL + 1.1)
    given = {"orders": [order], "endings": [*whole.endings, gone]} | facts
    return replace(whole, **given)


def test_what_an_operator_dropped_is_discarded():
    assert found(dropped()) == []
    assert found(dropped(orders=[])) == ["unaccounted"]
    kept = dropped(endings=worked("none", (2, 3.0)).endings, open={"1-1": "dead"})
    assert found(kept) == ["cancelled"]


def test_what_an_operator_dropped_is_not_handed_out():
    given = dropped()
    assert found(replace(given, claims=[*given.claims, claimed(1, "none", at=2.0)])) == ["cancelled"]


@pytest.mark.parametrize(
    ("kind", "answer", "legal"),
    [("retry", "pending", False), ("extend", "leased", False), ("acknowledge_cancel", "discarded", True)],
)
def test_the_holder_of_what_was_dropped_can_only_acknowledge(kind, answer, legal):
    held = claimed(1, "none", at=0.5)
    given = dropped()
    order = replace(given.orders[0], at_once=0, requested=1)
    settles = [*given.settles, settled(held, 2.0, kind=kind, answer=answer)]
    whole = replace(given, claims=[held, *given.claims], orders=[order], settles=settles)
    assert found(whole) == ([] if legal else ["cancelled"])


def test_a_process_that_ended_by_itself_is_a_fault():
    assert found(worked("none", (1, 1.0), (2, 3.0), faults=["worker0 ended with 1"])) == ["fault"]


# --- Records -----------------------------------------------------------------------------------------------------


def test_records_are_read_back_as_they_were_made(tmp_path):
    one, other = Recorder(tmp_path / "one.jsonl"), Recorder(tmp_path / "other.jsonl")
    rule = {"id": 1, "mode": "none", "lease_seconds": LEASE, "max_attempts": 3}
    one.note("rules", rules={"none": rule}, slack=0.25)
    calls = [recorder.ask("publish", transaction="t", messages=[("m1", "k", None)]) for recorder in (one, other)]
    one.answer(calls[0], answers=[("accepted", "m1", None)])
    commit = one.ask("commit", transaction="t")
    one.answer(commit)
    one.note("claimed", subscription="none", deliveries=[["1-1", "m1", 2, 1, False, 1_000.5, 0.5]])
    started_at = one.note("started", delivery="1-1", token=2)
    one.note("ended", delivery="1-1", token=2, started_at=started_at)
    settle = one.ask("settle", kind="complete", held=[("1-1", 2)])
    one.answer(settle, answers=["completed"])
    other.ask("settle", kind="retry", held=[("1-1", 1)])
    order = other.ask("order", kind="discard", deliveries=["1-1"])
    other.answer(order, at_once=0, requested=1)
    one.note("messages", ordinals={"m1": 1})
    one.note("open", states={"1-1": "dead"})
    one.note("endings", endings=[("1-1", "completed", 1_001.5)])
    one.note("fault", text="it fell")
    one.note("strike", kind="kill")
    given = read(tmp_path)
    assert given.rules == {"none": Rule(**rule)}
    assert [(c.transaction, len(c.answers), c.messages) for c in given.calls] == [
        ("t", 1, [Sent(id="m1", key="k")]),
        ("t", 0, [Sent(id="m1", key="k")]),
    ]
    assert given.commits["t"].answered_at > given.commits["t"].asked_at
    assert [(c.delivery, c.token, c.database_time, c.claimed_at) for c in given.claims] == [("1-1", 2, 1_000.5, 0.5)]
    assert [(r.token, r.started_at, r.ended_at > started_at) for r in given.runs] == [(2, started_at, True)]
    assert [(s.kind, s.token, s.answer) for s in given.settles] == [("complete", 2, "completed"), ("retry", 1, None)]
    assert [(o.kind, o.deliveries, o.requested) for o in given.orders] == [("discard", ["1-1"], 1)]
    assert (given.ordinals, given.open, given.faults, given.slack) == ({"m1": 1}, {"1-1": "dead"}, ["it fell"], 0.25)
    assert given.endings == [Ending(delivery="1-1", outcome="completed", database_time=1_001.5)]


def test_a_line_that_a_kill_cut_short_is_left_out(tmp_path):
    whole = json.dumps({"what": "fault", "at": 1.0, "text": "whole"})
    (tmp_path / "one.jsonl").write_text(f"{whole}\n{whole[:20]}")
    assert read(tmp_path).faults == ["whole"]


def test_two_looks_at_how_far_the_wall_clock_is_ahead_agree():
    assert wall_clock_ahead() == pytest.approx(wall_clock_ahead(), abs=0.1)
