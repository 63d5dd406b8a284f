"""``towpath deliveries``, ``dead-letters``, ``pause`` and ``resume``, over a database."""

import json
import signal
import sys
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.cli.again import command_again
from towpath.cli.changing import changes
from towpath.cli.interrupts import Interrupted, Interrupts
from towpath.cli.main import build_app
from towpath.cli.where import age, chosen, selected
from towpath.errors import DeliveryNotFound, InvalidSelection, SubscriptionNotFound
from towpath.operating import Selection
from towpath.settlement import DeadLettering, Failure

MESSAGE_ID = "01890000-0000-7000-8000-000000000001"
WHY = ("--reason", "looked at")


@pytest.fixture
def shop(tmp_path):
    """Two subscriptions with three messages each; of ``bill`` one is dead and one with a worker."""
    with connect(f"sqlite:///{tmp_path / 'shop.db'}") as transport:
        transport.apply(on_database({"orders": {}}, {"bill": {"topic": "orders"}, "ship": {"topic": "orders"}}))
        transport.publish("orders", [NewMessage(payload=i, partition_key=f"k{i}", id=_id(i)) for i in range(3)])
        consumer = transport.consumer("bill")
        first, _ = consumer.receive(2, timedelta(0))
        failure = Failure(type="ValueError", message="no")
        consumer.dead_letter([DeadLettering(delivery=first, reason="bad", failure=failure)])
        yield transport


def _id(number):
    return f"{MESSAGE_ID[:-1]}{number}"


@pytest.fixture
def run(shop, tmp_path):
    def call(*arguments, stdin=None):
        environment = {"COLUMNS": "300", "NO_COLOR": "1", "TOWPATH_ACTOR": "ada"}
        url = f"sqlite:///{tmp_path / 'shop.db'}"
        return CliRunner().invoke(build_app(), [*map(str, arguments), "--transport", url], env=environment, input=stdin)

    return call


def states(shop, name="bill"):
    row = next(row for row in shop.operator().stats() if row.subscription == name)
    return row.pending, row.leased, row.dead, row.discarded


# --- Which deliveries --------------------------------------------------------------------------------------------


def test_conditions_become_a_selection():
    where = ["subscription=bill", "state=dead", "key=a=b", "reason=bad", "error=ValueError"]
    where += ["older-than=90s", "newer-than=1.5h"]
    assert selected(where) == Selection(
        subscription="bill",
        state="dead",
        partition_key="a=b",
        reason="bad",
        error_type="ValueError",
        older_than=timedelta(seconds=90),
        newer_than=timedelta(minutes=90),
    )
    assert selected(None) == Selection()


@pytest.mark.parametrize(("text", "seconds"), [("5s", 5), ("15m", 900), ("2h", 7_200), ("7d", 604_800), ("0.5m", 30)])
def test_an_age_has_a_unit(text, seconds):
    assert age(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("colour=red", "'colour' is no condition; there are subscription,"),
        ("subscriptio=bill", "did you mean 'subscription'?"),
        ("state=gone", "'gone' is no state; there are pending, leased, dead"),
        ("older-than=5", "'5' is no age; write 90s, 15m, 2h or 7d"),
        ("older-than=-5s", "is no age"),
        ("older-than=36501d", "is too long an age; the longest is 36,500d"),
        ("older-than=99999999999d", "is no age"),
        ("reason=", "--where reason needs a value"),
        ("reason", "--where reason needs a value"),
    ],
)
def test_what_is_no_condition_is_wrong_use(run, wrong, told):
    result = run("deliveries", "list", "--where", wrong)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.replace("│", " ").split())


def test_what_is_no_text_is_wrong_use(run):
    for call in (("deliveries", "list", "--where", "key=\udcff"), ("audit", "--about", "\udcff")):
        result = run(*call)
        assert (result.exit_code, "is no text: '\\udcff' holds what is not UTF-8" in result.stderr) == (2, True)


def test_a_list_has_a_longest_length(run):
    for call in (("deliveries", "list"), ("dead-letters", "list"), ("audit",), ("partitions", "bill")):
        assert run(*call, "--limit", "9223372036854775807").exit_code == 2
    assert run("audit", "--limit", "1000000").exit_code == 0


def test_the_command_that_goes_on_has_its_options_where_they_are_read(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["towpath", "publish", "--from-line", "2", "--", "orders", "-"])
    assert command_again("--from-line", "5", without="--from-line") == "towpath publish --from-line 5 -- orders -"


def test_a_condition_given_twice_is_wrong_use(run):
    result = run("deliveries", "list", "--where", "subscription=bill", "--where", "subscription=ship")
    assert result.exit_code == 2
    assert "--where subscription is given twice" in " ".join(result.stderr.replace("│", " ").split())


def test_ids_of_deliveries_and_of_messages_are_told_apart():
    selections = chosen(["1-1", MESSAGE_ID, "2-1"], ["subscription=bill"], everything=False)
    assert selections == [
        Selection(subscription="bill", delivery_ids=("1-1", "2-1")),
        Selection(subscription="bill", message_id=MESSAGE_ID),
    ]
    assert chosen(None, ["reason=bad"], everything=True) == [Selection(reason="bad")]


@pytest.mark.parametrize("command", ["deliveries cancel", "deliveries discard", "dead-letters replay"])
@pytest.mark.parametrize("given", [[], ["--where", "reason=bad"], ["1-1", "--all"]])
def test_many_are_changed_only_when_all_are_asked_for(run, shop, command, given):
    before = states(shop)
    result = run(*command.split(), *given, *WHY)
    assert result.exit_code == 2
    assert "give ids, or --all" in " ".join(result.stderr.replace("│", " ").split())
    assert states(shop) == before


# --- Lists -------------------------------------------------------------------------------------------------------


def test_deliveries_are_listed_with_what_they_wait_for_and_never_with_a_payload(run):
    result = run("deliveries", "list", "--where", "subscription=bill")
    assert result.exit_code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert [(row[1], row[2], row[3], row[4], row[5], row[6]) for row in rows] == [
        ("bill", _id(0), "k0", "dead", "1", "-"),
        ("bill", _id(1), "k1", "leased", "1", "-"),
        ("bill", _id(2), "k2", "pending", "0", "worker"),
    ]
    assert rows[0][8:] == ["bad", "ValueError: no"]


def test_a_list_goes_on_where_its_cursor_says(run):
    first = json.loads(run("deliveries", "list", "--limit", "4", "--json").stdout)
    rest = json.loads(run("deliveries", "list", "--limit", "4", "--cursor", first["next_cursor"], "--json").stdout)
    ids = [entry["delivery_id"] for entry in (*first["deliveries"], *rest["deliveries"])]
    assert len(ids) == len(set(ids)) == 6
    assert rest["next_cursor"] is None
    assert json.loads(first["deliveries"][0]["body"])["payload"] == 0
    assert f"There are more: --cursor {first['next_cursor']}" in run("deliveries", "list", "--limit", "4").stdout


def test_a_cursor_that_is_none_is_told(run):
    for cursor in ("x", "1", "2026-01-01T00:00:00+00:00~1-1"):
        assert isinstance(run("deliveries", "list", "--cursor", cursor).exception, InvalidSelection)
    assert isinstance(run("deliveries", "list", "--where", "state=dead", "--cursor", "1-1").exception, InvalidSelection)


# --- Changes -----------------------------------------------------------------------------------------------------


def test_a_replay_says_how_many_and_keeps_who_and_why(run, shop):
    result = run("dead-letters", "replay", "--all", "--where", "error=ValueError", *WHY)
    assert (result.exit_code, result.stdout) == (0, "1 delivery is replayed\n")
    assert states(shop) == (2, 1, 0, 0)
    (entry,) = shop.operator().audit(10)
    assert (entry.actor, entry.action, entry.reason) == ("ada", "replay", "looked at")


def test_a_dry_run_counts_and_changes_nothing(run, shop):
    before = states(shop)
    assert run("dead-letters", "replay", "--all", "--dry-run", *WHY).stdout == "1 delivery is to be replayed\n"
    assert states(shop) == before
    counted = json.loads(run("deliveries", "discard", "--all", "--limit", "4", "--dry-run", "--json", *WHY).stdout)
    assert counted == {"discarded": 4, "requested": 0, "dry_run": True}


def test_a_discard_by_message_takes_its_deliveries_of_every_subscription(run, shop):
    result = run("deliveries", "discard", _id(1), *WHY)
    assert result.exit_code == 0
    assert result.stdout == (
        "1 delivery is discarded; 1 with workers, discarded when these let go or their leases end\n"
    )
    assert states(shop) == (1, 1, 1, 0)
    assert states(shop, "ship") == (2, 0, 0, 1)


def test_a_discard_changes_at_most_so_many_over_all_ids(run, shop):
    done = json.loads(run("deliveries", "discard", _id(0), _id(2), "--limit", "3", "--json", *WHY).stdout)
    assert done == {"discarded": 3, "requested": 0, "dry_run": False}


def test_a_cancel_asks_workers_alone(run, shop):
    assert json.loads(run("deliveries", "cancel", "--all", "--json", *WHY).stdout) == {
        "discarded": 0,
        "requested": 1,
        "dry_run": False,
    }
    assert states(shop) == (1, 1, 1, 0)
    assert run("deliveries", "cancel", "--all", "--where", "state=dead", *WHY).exit_code == 2


def test_ids_of_which_none_could_be_changed_are_a_failure(run, shop):
    result = run("dead-letters", "replay", "999-1", *WHY)
    assert (result.exit_code, result.stdout) == (1, "0 deliveries are replayed\n")
    assert "none of these ids" in result.stderr
    assert run("dead-letters", "replay", "--all", "--where", "reason=other", *WHY).exit_code == 0


def test_an_edited_replay_takes_its_payload_from_a_file_or_standard_input(run, shop, tmp_path):
    (dead,) = shop.operator().dead_letters("bill", 1)
    file = tmp_path / "payload.json"
    for content in (None, "{"):
        if content:
            file.write_text(content)
        assert run("dead-letters", "replay", dead.delivery_id, "--edit", file, *WHY).exit_code == 2
    assert run("dead-letters", "replay", _id(0), "--edit", "-", *WHY, stdin="1").exit_code == 2
    result = run("dead-letters", "replay", dead.delivery_id, "--edit", "-", "--json", *WHY, stdin='{"fixed": true}')
    new_id = json.loads(result.stdout)["message_id"]
    assert states(shop) == (2, 1, 0, 1)
    (entry,) = shop.operator().deliveries(Selection(message_id=new_id), 10)
    assert json.loads(entry.body)["payload"] == {"fixed": True}
    again = run("dead-letters", "replay", dead.delivery_id, "--edit", "-", *WHY, stdin="1")
    assert isinstance(again.exception, DeliveryNotFound)


def test_dead_letters_are_discarded_or_purged(run, shop):
    assert run("dead-letters", "discard", "--all", "--where", "older-than=1h", *WHY).stdout == (
        "0 deliveries are discarded\n"
    )
    assert run("dead-letters", "purge", "bill", *WHY).stdout == "1 delivery is discarded\n"
    assert json.loads(run("dead-letters", "purge", "bill", "--json", *WHY).stdout) == {"discarded": 0}
    assert isinstance(run("dead-letters", "purge", "nobody", *WHY).exception, SubscriptionNotFound)


def test_whoever_interrupts_is_told_what_stays_changed_once_the_batch_under_way_is_through():
    made = []

    def interrupted():
        with changes(as_json=True) as changing:
            changing.changed(100)
            signal.raise_signal(signal.SIGINT)
            made.append("the rest of the batch")
            changing.changed(1_000)
            made.append("another batch")

    with pytest.raises(Interrupted, match="1,100 deliveries are changed; the same command goes on") as ended:
        interrupted()
    assert made == ["the rest of the batch"]
    assert ended.value.code == 130


def test_a_second_signal_ends_it_within_the_batch():
    made = []

    def interrupted():
        with changes(as_json=True):
            signal.raise_signal(signal.SIGTERM)
            made.append("first")
            signal.raise_signal(signal.SIGTERM)
            made.append("second")

    with pytest.raises(Interrupted, match="0 deliveries are changed") as ended:
        interrupted()
    assert made == ["first"]
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_signal_does_not_wait_for_the_pause_of_a_rate():
    paused = []

    def sleep(seconds):
        paused.append(seconds)
        interrupts.receive(signal.SIGTERM)

    interrupts = Interrupts(sleep)
    with pytest.raises(Interrupted) as ended, interrupts.step():
        interrupts.pause(1_000)
    assert (ended.value.code, paused) == (143, [1_000])


@pytest.mark.parametrize("rate", ["0", "inf", "nan"])
def test_a_rate_that_is_none_is_wrong_use(run, rate):
    assert run("dead-letters", "purge", "bill", *WHY, "--rate", rate).exit_code == 2


def test_a_subscription_is_paused_and_resumed(run, shop):
    assert run("pause", "bill", *WHY).stdout == "bill is paused\n"
    assert run("pause", "bill", *WHY).stdout == "nothing to do: bill was paused already\n"
    assert '"status": "paused"' in run("stats", "--json").stdout
    assert json.loads(run("resume", "bill", "--json", *WHY).stdout) == {"subscription": "bill", "changed": True}
    assert run("resume", "bill", *WHY).stdout == "nothing to do: bill was not paused\n"


@pytest.mark.parametrize("call", ["pause bill", "dead-letters purge bill", "deliveries discard --all"])
def test_a_reason_is_needed(run, shop, call):
    assert run(*call.split()).exit_code == 2
    assert run(*call.split(), "--reason", "  ").exit_code == 2
    assert shop.operator().audit(10).entries == ()
