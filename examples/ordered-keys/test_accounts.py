"""Entries in their order, a blocked account, and an entry that comes again after its worker died."""

import json

import pytest

from towpath import NewMessage
from towpath.operating import Pace, Selection, Warrant

WARRANT = Warrant(actor="ada", reason="the customer paid in")


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


def entry(account, amount, **more):
    return NewMessage(payload={"amount": amount}, partition_key=account, **more)


def balance(results, account):
    return json.loads((results / f"{account}.json").read_text())["balance"]


def test_entries_are_booked_in_their_order_account_by_account(towpath_transport, towpath_work, results):
    """Each order but the published one would overdraw one of the accounts."""
    entries = [entry("ada", 50), entry("bob", 5), entry("ada", -50), entry("ada", 40), entry("bob", -5)]
    towpath_transport.publish("account.entries", entries)
    assert towpath_work(concurrency=4).states == {"completed": 5}
    assert (balance(results, "ada"), balance(results, "bob")) == (40, 0)


def test_an_entry_that_cannot_be_booked_holds_up_its_account_alone(towpath_transport, towpath_work, results):
    entries = [entry("ada", -80), entry("ada", 40), entry("bob", 7)]
    towpath_transport.publish("account.entries", entries)
    assert towpath_work().states == {"dead": 1, "completed": 1}
    (blocked,) = towpath_transport.operator().partitions("account.book", 10, state="blocked")
    assert (blocked.partition_key, blocked.waiting) == ("ada", 2)
    towpath_transport.operator().discard(Selection(partition_key="ada", state="dead"), WARRANT, Pace())
    assert towpath_work().states == {"completed": 1}
    assert (balance(results, "ada"), balance(results, "bob")) == (40, 7)


def test_a_replay_keeps_its_place(towpath_transport, towpath_work, results):
    towpath_transport.publish("account.entries", [entry("ada", -80), entry("ada", -15)])
    assert towpath_work().states == {"dead": 1}
    results.joinpath("ada.json").write_text('{"balance": 100, "last": null}')  # put right by a person
    towpath_transport.operator().replay(Selection(partition_key="ada", state="dead"), WARRANT, Pace())
    assert towpath_work().states == {"completed": 2}
    assert balance(results, "ada") == 5


def test_an_entry_that_comes_again_is_booked_once(towpath_deliver, results):
    again = entry("ada", 50, id="0190a5d2-0000-7000-8000-000000000000")
    for attempt in (1, 2):
        assert towpath_deliver("account.book", again, attempt=attempt).state == "completed"
    assert balance(results, "ada") == 50
