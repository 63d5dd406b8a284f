"""The pure parts of the database transport."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from local_transport.applied import AppliedTopic, AppliedTopology, TopicPolicy, desired
from local_transport.checking import check, comparable
from local_transport.details import failure_texts, kept_text
from local_transport.dialects import dialect_of
from local_transport.dialects.columns import Moment, milliseconds
from local_transport.dialects.postgresql import PostgreSql
from local_transport.dialects.sqlite import Sqlite
from local_transport.leasing import delivery_id, first_due, growing_attempts
from local_transport.selecting import Place
from tests.servers.topologies import on_database
from towpath import NewMessage
from towpath.backoff import BackOff
from towpath.envelope import Sources, ids_of
from towpath.errors import InvalidSelection
from towpath.operating import Selection
from towpath.settlement import Failure, SubscriptionPolicy

ID = "01890000-0000-7000-8000-000000000001"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOURCES = Sources(clock=lambda: NOON, random_bytes=lambda count: b"\1" * count)
POLICY = TopicPolicy(status="active", max_payload_bytes=1_000, retention_days=7, deduplication_ttl_seconds=60)
TOPOLOGY = AppliedTopology(
    revision=1, topics={"t": AppliedTopic(id=1, policy=POLICY, subscriptions=())}, subscriptions={}
)


# --- Checking a call ---------------------------------------------------------------------------------------------


def test_a_checked_call_has_a_draft_or_a_result_for_every_position():
    messages = [NewMessage(payload=1), NewMessage(payload=object()), NewMessage(payload="x" * 2_000), NewMessage()]
    checked = check(TOPOLOGY, "t", messages, ids_of(messages, SOURCES), SOURCES)
    assert [draft.position for draft in checked.drafts] == [0, 3]
    assert {place: result.error.code for place, result in checked.rejected.items()} == {
        1: "InvalidPayload",
        2: "PayloadTooLarge",
    }


def test_a_rejected_message_keeps_an_id_that_is_one():
    messages = [NewMessage(id=ID, payload=object()), NewMessage(id="mine", payload=1), NewMessage(payload=object())]
    rejected = check(TOPOLOGY, "t", messages, ids_of(messages, SOURCES), SOURCES).rejected
    assert [rejected[position].id for position in range(3)] == [ID, None, None]


def test_before_anything_is_applied_the_repair_is_named():
    empty = AppliedTopology(revision=0, topics={}, subscriptions={})
    (result,) = check(empty, "t", [NewMessage(payload=1)], [ID], SOURCES).rejected.values()
    assert result.error.message == "there is no topic 't' on this database, it has none; run 'towpath apply'"


def test_what_is_compared_leaves_out_the_time_of_publishing_and_the_order_of_keys():
    first = '{"id":"1","payload":{"b":1,"a":[2.0]},"published_at":"2026-01-01T00:00:00.000Z"}'
    again = '{"published_at":"2027-01-01T00:00:00.000Z","payload":{"a":[2.0],"b":1},"id":"1"}'
    assert comparable(first) == comparable(again)


@pytest.mark.parametrize("other", ["true", "1.0", '"1"', "null", "[1]"])
def test_what_is_compared_tells_json_values_apart_that_python_takes_for_equal(other):
    envelope = '{{"payload":{},"published_at":"2026-01-01T00:00:00.000Z"}}'
    assert comparable(envelope.format("1")) != comparable(envelope.format(other))


# --- Rules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "longest", "attempts", "expected"),
    [
        (10, 900, 5, 5),
        (10, 900, 100, 8),
        (10, 10, 5, 1),
        (0, 900, 5, 1),
        (900, 10, 5, 1),
        (1, 900, 1, 1),
        (0.5, 4, 9, 4),
    ],
)
def test_the_attempts_whose_back_off_still_grows(base, longest, attempts, expected):
    backoff = BackOff(base_seconds=base, max_seconds=longest)
    policy = SubscriptionPolicy(subscription="s", topic="t", handler=None, max_attempts=attempts, backoff=backoff)
    growing = growing_attempts(policy)
    assert growing == range(1, expected + 1)
    last = [backoff.delay(attempt, lambda: 0.5) for attempt in (growing[-1], growing[-1] + 1, growing[-1] + 9)]
    assert expected == attempts or len(set(last)) == 1


def test_failures_are_kept_bounded_and_without_what_no_database_takes():
    failure = Failure(type="T" * 201, message="a\0b\ud800" + "m" * 4_000, traceback="first" + "t" * 16_000)
    kind, message, traceback = failure_texts(failure)
    assert (kind, message[:4], len(message)) == ("T" * 200, "a\N{REPLACEMENT CHARACTER}b?", 4_000)
    assert (len(traceback), traceback[:5]) == (16_000, "ttttt")
    assert failure_texts(None) == (None, None, None)
    assert failure_texts(Failure(type="E", message="")) == ("E", "", None)
    assert kept_text("x" * 5_000) == "x" * 4_000


def test_the_front_of_a_claim_is_the_earliest_time_that_any_of_its_rows_was_due():
    assert first_due([(1, None), (2, NOON + timedelta(1)), (3, NOON), (4, None)]) == NOON
    assert first_due([(1, None)]) is None
    assert first_due([]) is None


def test_a_delivery_is_named_by_message_and_subscription():
    assert delivery_id(17, 4) == "17-4"


def test_the_fingerprint_of_a_manifest_changes_with_what_a_database_keeps():
    one = on_database({"a": {}}, {"s": {"topic": "a"}})
    same = on_database({"a": {}}, {"s": {"topic": "a", "max_attempts": 5}})
    other = on_database({"a": {}}, {"s": {"topic": "a", "max_attempts": 6}})
    assert desired(one).fingerprint() == desired(same).fingerprint() != desired(other).fingerprint()


# --- Dialects ----------------------------------------------------------------------------------------------------


def test_a_url_chooses_its_dialect():
    assert isinstance(dialect_of(make_url("postgresql://host/name")), PostgreSql)
    assert isinstance(dialect_of(make_url("postgresql+psycopg://host/name")), PostgreSql)
    assert isinstance(dialect_of(make_url("sqlite:///file.db")), Sqlite)


def test_rows_are_bound_as_one_json_text_or_as_one_array_for_each_column():
    rows = [(1, "a", NOON), (2, None, None)]
    columns = {"number": sa.Integer(), "text": sa.Text(), "time": Moment()}
    in_json = Sqlite().batch("b", columns).bind(rows)
    assert in_json == {"b_rows": f'[[1,"a",{milliseconds(NOON)}],[2,null,null]]'}
    in_arrays = PostgreSql().batch("b", columns)
    assert in_arrays.bind(rows) == {
        "b_number": "{1,2}",
        "b_text": ["a", None],
        "b_time": "{2026-03-01T12:00:00+00:00,NULL}",
    }
    assert in_arrays.bind([]) == {"b_number": "{}", "b_text": [], "b_time": "{}"}


def test_times_are_whole_milliseconds_where_a_database_has_no_type_for_them():
    assert milliseconds(NOON + timedelta(microseconds=1_999)) == int(NOON.timestamp() * 1000) + 1
    assert json.loads(str(milliseconds(datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)))) == -1


# --- Cursors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "~", "bad", "1-1", "2026-01-01T00:00:00~1-1", "soon~1-1", "2026-01-01T00:00:00Z~letters.read/17"),
        *("0001-01-01T00:00:00+01:00~1-1", "9999-12-31T23:59:59-01:00~1-1", f"2026-01-01T00:00:00Z~{'9' * 5000}-1"),
    ],
)
def test_what_is_no_cursor_of_a_list_of_dead_letters_is_refused_as_that(cursor):
    with pytest.raises(InvalidSelection, match="is no cursor of this list; take the one that its last page gave"):
        Place.read(cursor, Selection(state="dead"))


def test_a_cursor_reads_back_as_the_place_it_names():
    for place, state in (
        (Place(ordinal=7, subscription_id=3, dead_since=NOON), "dead"),
        (Place(ordinal=7, subscription_id=3, dead_since=None), None),
    ):
        assert Place.read(place.cursor, Selection(state=state)) == place
