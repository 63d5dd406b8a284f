"""From the first released schema upward, with data in place: nothing is lost, and everything goes on."""

import os
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from local_transport.applied import desired, stored_text
from local_transport.connections import Database
from local_transport.dialects.columns import Later, Now
from local_transport.lanes import lane_of
from local_transport.schema import MIGRATIONS, schema_state, upgrade
from local_transport.tables import history, message, unwanted
from tests.servers.clock import advance
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.envelope import Sources, prepare
from towpath.operating import Pace, Selection, Warrant
from towpath.settlement import Completion, Delivery, Settled

NOW = timedelta(0)
TOPICS = {"documents": {"retention_days": 10}, "letters": {"retention_days": 10}}
SUBSCRIPTIONS = {
    "loose": {"topic": "documents", "max_attempts": 3, "lease_seconds": 60, "backoff": {"base_seconds": 0}},
    "line": {"topic": "documents", "partition_mode": "ordered"},
    "single": {"topic": "documents", "partition_mode": "exclusive"},
}
WARRANT = Warrant(actor="ada", reason="after the upgrade")
IDS = [f"01890000-0000-7000-8000-{number:012d}" for number in range(20)]


@pytest.fixture(params=["sqlite", "postgresql"])
def first(request, tmp_path):
    """A database with the first schema, and a topology applied to it."""
    url = f"sqlite:///{tmp_path}/first.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    with closing(Database(url)) as database:
        with database.writing() as connection:
            config = Config()
            config.set_main_option("script_location", str(MIGRATIONS))
            config.attributes["connection"] = connection
            command.upgrade(config, "0001")
        rows = Rows(url, database)
        rows.leave_ordinals()
        rows.topology(desired(on_database(TOPICS, SUBSCRIPTIONS)))
        yield rows


class Rows:
    """Writes rows as the first version did: by the names of its columns alone."""

    def __init__(self, url, database):
        self.url = url
        self._database = database
        self._topics = {name: number for number, name in enumerate(TOPICS, start=1)}
        self.subscriptions = {name: number for number, name in enumerate(SUBSCRIPTIONS, start=1)}

    def leave_ordinals(self):
        """Have the server draw ordinals above the ones that a test gives; SQLite does by itself."""
        if not self._database.dialect.makes_own_schema:
            with self._database.writing() as connection:
                connection.execute(sa.text("ALTER TABLE towpath_message ALTER COLUMN ordinal RESTART WITH 100"))

    def topology(self, wanted):
        self.insert("towpath_topology", id=1, revision=1, fingerprint=wanted.fingerprint(), applied_at=Now())
        for name, number in self._topics.items():
            policy = stored_text(wanted.topics[name])
            self.insert("towpath_topic", id=number, name=name, policy=policy, revision=1)
        for name, number in self.subscriptions.items():
            record = wanted.subscriptions[name]
            known = {"policy": stored_text(record), "topic_id": self._topics[record.policy.topic], "status": "active"}
            self.insert("towpath_subscription", id=number, name=name, revision=1, **known)

    def insert(self, table, **values):
        target = sa.table(table, *map(sa.column, values))
        with self._database.writing() as connection:
            connection.execute(target.insert().values(values))

    def message(self, number, topic="documents", **new):
        sources = Sources(clock=lambda: datetime.now(UTC), random_bytes=os.urandom)
        body = prepare(topic, NewMessage(id=IDS[number], payload=number, **new), 100_000, sources).body
        values = {"id": IDS[number], "published_at": Now(), "topic_id": self._topics[topic], "body": body}
        with self._database.writing() as connection:
            connection.execute(message.insert().values(ordinal=number, **values))

    def delivery(self, number, subscription, **values):
        """Pending and due now, where ``values`` say nothing else."""
        known = {"message_ordinal": number, "subscription_id": self.subscriptions[subscription], "due_at": Now()}
        self.insert("towpath_delivery", **(known | values))

    def key(self, number, subscription):
        return {"message_ordinal": number, "subscription_id": self.subscriptions[subscription]}


def ago(seconds):
    return Later(Now(), sa.literal(-float(seconds)))


def loose(first):
    """Deliveries in every state, of a subscription without keys."""
    for number in range(1, 7):
        first.message(number)
    first.delivery(1, "loose")
    held = {"state": "leased", "attempt": 1, "lease_token": 1}
    first.delivery(2, "loose", **held, lease_expires_at=ago(-60), due_at=ago(-60))
    first.delivery(3, "loose", **held, lease_expires_at=ago(10), due_at=ago(10))
    first.delivery(4, "loose", state="dead", attempt=3, lease_token=3, due_at=None, dead_since=ago(5))
    detail = {"reason": "MaxAttemptsExceeded", "error_type": "ValueError", "error_message": "no", "failed_attempt": 3}
    first.insert("towpath_delivery_detail", **first.key(4, "loose"), **detail, failed_at=ago(5))
    ended = {"finished_at": ago(3), "attempt": 1, "outcome": "completed"}
    first.insert("towpath_history", **first.key(5, "loose"), **ended)
    first.insert("towpath_tally", amount=1, subscription_id=first.subscriptions["loose"], outcome="completed")
    first.delivery(6, "loose", due_at=ago(-3_600))


def laned(first):
    """Deliveries with keys, which the first version took and did not hand out."""
    for number, key in enumerate("aabb", start=7):
        first.message(number, partition_key=key)
        for subscription in ("line", "single"):
            dead = {"state": "dead", "due_at": None, "dead_since": Now()} if number == 9 else {}
            first.delivery(number, subscription, lane=lane_of(key), **dead)
    first.message(11)
    first.delivery(11, "line")


def received(transport, subscription):
    return sorted(transport.consumer(subscription).receive(20, NOW), key=lambda held: int(held.id.partition("-")[0]))


def numbers(deliveries):
    return [int(held.id.partition("-")[0]) for held in deliveries]


def test_what_waits_is_leased_or_dead_goes_on_after_the_upgrade(first):
    loose(first)
    with closing(Database(first.url)) as database:
        assert upgrade(database).installed == "0001"
        assert schema_state(database).current
    with connect(first.url) as transport:
        stats = next(row for row in transport.operator().stats() if row.subscription == "loose")
        assert (stats.pending, stats.leased, stats.dead, stats.completed) == (3, 1, 1, 1)
        held = received(transport, "loose")
        assert [(number, one.attempt) for number, one in zip(numbers(held), held, strict=True)] == [(1, 1), (3, 2)]
        (letter,) = transport.operator().dead_letters("loose", 10)
        assert (letter.reason, letter.error, letter.attempts) == ("MaxAttemptsExceeded", "ValueError: no", 3)
        still_held = Delivery(
            id=f"2-{first.subscriptions['loose']}",
            subscription="loose",
            topic="documents",
            attempt=1,
            message_id=IDS[2],
            body="",
            lease_token="1",
            received_at=datetime.now(UTC),
        )
        settled = transport.consumer("loose").complete([Completion(delivery=one) for one in (still_held, *held)])
        assert settled == [Settled(state="completed")] * 3
        assert transport.operator().replay(Selection(subscription="loose"), WARRANT, Pace()) == 1
        (again,) = received(transport, "loose")
        assert (again.message_id, again.attempt, again.is_replay) == (IDS[4], 1, True)
        advance(first.url, 3_600)
        assert 6 in numbers(received(transport, "loose"))


def test_deliveries_with_keys_are_handed_out_after_the_upgrade(first):
    laned(first)
    with closing(Database(first.url)) as database:
        upgrade(database)
    with connect(first.url) as transport:
        assert {entry.partition_key: entry.state for entry in transport.operator().partitions("line", 10)} == {
            "a": "idle",
            "b": "blocked",
        }
        line, single = received(transport, "line"), received(transport, "single")
        assert numbers(line) == [7, 11]
        assert numbers(single) == [7, 10]
        transport.consumer("line").complete([Completion(delivery=one) for one in line])
        transport.consumer("single").complete([Completion(delivery=one) for one in single])
        assert numbers(received(transport, "line")) == [8]
        assert numbers(received(transport, "single")) == [8]
        dead = Selection(delivery_ids=(f"9-{first.subscriptions['line']}",))
        assert transport.operator().replay(dead, WARRANT, Pace()) == 1
        assert numbers(received(transport, "line")) == [9]
        published = transport.publish("documents", [NewMessage(payload=1, partition_key="b")])
        assert published[0].status == "accepted"


def test_deduplication_keys_history_and_messages_that_nobody_wanted_are_kept_and_go_in_time(first):
    loose(first)
    first.message(12, topic="letters")
    key = {"topic_id": 1, "key": "k", "message_ordinal": 1, "message_id": sa.cast(IDS[1], message.c.id.type)}
    first.insert("towpath_deduplication", **key, expires_at=ago(-60))
    with closing(Database(first.url)) as database:
        upgrade(database)
    with connect(first.url) as transport:
        (repeat,) = transport.publish("documents", [NewMessage(payload=1, deduplication_key="k")])
        assert (repeat.status, repeat.id) == ("duplicate", IDS[1])
        assert _count(first.url, unwanted, history, message) == [1, 1, 7]
        advance(first.url, 9 * 86_400)
        transport.sweep()
        assert _count(first.url, unwanted, history, message) == [1, 1, 7]
        advance(first.url, 2 * 86_400)
        transport.sweep()
        assert _count(first.url, unwanted, history) == [0, 0]
        with closing(Database(first.url)) as database, database.reading() as connection:
            left = connection.scalars(sa.select(message.c.ordinal).order_by(message.c.ordinal)).all()
        assert left == [1, 2, 3, 4, 6]


def test_an_upgrade_that_fails_leaves_everything_as_it_was(first):
    loose(first)
    with closing(Database(first.url)) as database:
        with database.writing() as connection:
            connection.execute(sa.text("CREATE TABLE towpath_unwanted (id INTEGER)"))
        with pytest.raises(sa.exc.DBAPIError):
            upgrade(database)
        assert schema_state(database).installed == "0001"
        with database.writing() as connection:
            connection.execute(sa.text("DROP TABLE towpath_unwanted"))
        upgrade(database)
    with connect(first.url) as transport:
        assert numbers(received(transport, "loose")) == [1, 3]


def _count(url, *tables):
    with closing(Database(url)) as database, database.reading() as connection:
        return [connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in tables]
