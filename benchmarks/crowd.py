"""Crowded tables: any number of waiting deliveries of any number of keys, filled fast, for ``scale.py``."""

import uuid
from contextlib import closing
from dataclasses import dataclass

import sqlalchemy as sa

from local_transport import tables
from local_transport.connections import Database
from local_transport.dialects.columns import MESSAGE_ID, Later, Now
from local_transport.lanes import lane_of
from local_transport.schema import upgrade
from tests.servers.topologies import on_database
from towpath import NewMessage, connect

MODES = ("none", "exclusive", "ordered")
FREE_OF_BLOCKED = 100  # one key of so many is free where most are blocked
HOUR = 3_600.0
ROWS = 20_000  # in one insert

HOT = (
    tables.delivery,
    tables.delivery_detail,
    tables.lane,
    tables.touched_lane,
    tables.tally,
    tables.history,
)

_keys = sa.Table(
    "benchmark_key",
    sa.MetaData(),
    sa.Column("n", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("lane", sa.BigInteger, nullable=False),
    sa.Column("free", sa.Boolean, nullable=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """``backlog`` deliveries, spread evenly over ``keys``; of those all are free, or one in a hundred.

    A blocked key of an ordered subscription stands behind a dead letter; in an exclusive one, and without keys, the
    deliveries wait for an hour.
    """

    database: str
    mode: str
    backlog: int
    keys: int
    blocked: bool

    @property
    def free(self):
        """How many keys have something due."""
        return max(1, self.keys // FREE_OF_BLOCKED) if self.blocked else self.keys

    @property
    def name(self):
        """It tells it from all others, and is fit for JSON."""
        of_keys = f", {self.keys} keys" if self.mode != "none" else ""
        return f"{self.database} {self.mode}: {self.backlog}{of_keys}{', 99 % blocked' if self.blocked else ''}"


def key(number):
    """The partition key of a number below ``Crowd.keys``."""
    return f"key-{number}"


def handle(_message, _context):
    """Nothing."""


def prepare(url):
    """Tables, and for each mode a topic and a subscription of its name."""
    with closing(Database(url)) as database:
        upgrade(database)
        with database.writing() as connection:
            _keys.create(connection)
    handler = f"{__name__}:handle"
    subscriptions = {mode: {"topic": mode, "partition_mode": mode, "handler": handler} for mode in MODES}
    with connect(url) as transport:
        transport.apply(on_database({mode: {} for mode in MODES}, subscriptions))
        transport.publish("none", [NewMessage(payload={"pad": "x" * 80})])  # the body of all


class Filling:
    """Fills the tables of one database, again and again."""

    def __init__(self, url):
        patient = f"{url}?answer_timeout=900" if url.startswith("postgresql") else url
        self._database = database = Database(patient)
        self._new = database.dialect.batch("new", {"id": MESSAGE_ID})
        columns = {"n": sa.Integer(), "lane": sa.BigInteger(), "free": sa.Boolean()}
        self._key_rows = database.dialect.batch("keys", columns)

    def close(self):
        """Close its connections."""
        self._database.close()

    def fill(self, crowd):
        """Replace all deliveries by those of ``crowd``; messages are added as far as they are missing."""
        self._empty()
        with self._database.writing() as connection:
            self._messages(connection, crowd.backlog)
            self._keys(connection, crowd)
            subscription = connection.scalar(_id_of(crowd.mode))
            connection.execute(_deliveries(crowd, subscription))
            if crowd.mode != "none":
                connection.execute(_lanes(crowd, subscription))
        self.analyze()

    def let_nothing_be_due(self):
        """Whatever is due comes in an hour."""
        later = Later(Now(), HOUR)
        delivery, lane = tables.delivery, tables.lane
        with self._database.writing() as connection:
            connection.execute(sa.update(lane).values(due_at=later).where(lane.c.due_at < later))
            unlaned = (delivery.c.lane.is_(None), delivery.c.due_at < later)
            connection.execute(sa.update(delivery).values(due_at=later).where(*unlaned))
            connection.execute(sa.delete(tables.touched_lane))
        self.analyze()

    def pages_read(self):
        """How many pages of tables and indexes were read so far by connections that have ended; 0 on SQLite."""
        if self._database.engine.dialect.name != "postgresql":
            return 0
        counts = ("heap_blks_read", "heap_blks_hit", "idx_blks_read", "idx_blks_hit")
        query = f"SELECT sum({' + '.join(f'coalesce({name}, 0)' for name in counts)}) FROM pg_statio_user_tables"
        with self._database.reading() as connection:
            return int(connection.scalar(sa.text(query)))

    def analyze(self):
        """What autovacuum does in time. SQLite has none, and Towpath's plans there go without statistics."""
        if self._database.engine.dialect.name != "postgresql":
            return
        with self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("VACUUM ANALYZE"))
            connection.execute(sa.text("CHECKPOINT"))

    def _empty(self):
        truncates = self._database.engine.dialect.name == "postgresql"
        with self._database.writing() as connection:
            for table in HOT:
                connection.execute(sa.text(f"{'TRUNCATE' if truncates else 'DELETE FROM'} {table.name}"))
            connection.execute(sa.delete(_keys))

    def _messages(self, connection, wanted):
        message = tables.message.c
        topic, body = connection.execute(sa.select(message.topic_id, message.body).limit(1)).one()
        there = connection.scalar(sa.select(sa.func.max(message.ordinal)))
        source = sa.select(self._new.rows.c.id, Now(), sa.literal(topic), sa.literal(body))
        insert = tables.message.insert().from_select(["id", "published_at", "topic_id", "body"], source)
        for start in range(there, wanted, ROWS):
            ids = [(str(uuid.uuid4()),) for _ in range(min(ROWS, wanted - start))]
            connection.execute(insert, self._new.bind(ids))

    def _keys(self, connection, crowd):
        insert = _keys.insert().from_select(["n", "lane", "free"], sa.select(*self._key_rows.rows.c))
        for start in range(0, crowd.keys, ROWS):
            numbers = range(start, min(crowd.keys, start + ROWS))
            rows = [(n, lane_of(key(n)), n < crowd.free) for n in numbers]
            connection.execute(insert, self._key_rows.bind(rows))


def _id_of(mode):
    return sa.select(tables.subscription.c.id).where(tables.subscription.c.name == mode)


def _deliveries(crowd, subscription):
    ordinal = tables.message.c.ordinal
    source = tables.message.join(_keys, _keys.c.n == ordinal % crowd.keys)
    is_ordered = crowd.mode == "ordered"
    blocked = ~_keys.c.free
    heads = sa.and_(blocked, ordinal <= crowd.keys) if is_ordered else sa.false()
    due = sa.case((heads, sa.null()), (blocked, Now() if is_ordered else Later(Now(), HOUR)), else_=Now())
    values = {
        "message_ordinal": ordinal,
        "subscription_id": sa.literal(subscription),
        "lane": sa.null() if crowd.mode == "none" else _keys.c.lane,
        "ordered": sa.true() if is_ordered else sa.false(),
        "state": sa.case((heads, "dead"), else_="pending"),
        "due_at": due,
        "dead_since": sa.case((heads, Now()), else_=sa.null()),
    }
    rows = sa.select(*values.values()).select_from(source).where(ordinal <= crowd.backlog).order_by(ordinal)
    return tables.delivery.insert().from_select(list(values), rows)


def _lanes(crowd, subscription):
    waits = sa.null() if crowd.mode == "ordered" else Later(Now(), HOUR)
    due = sa.case((_keys.c.free, Now()), else_=waits)
    rows = sa.select(sa.literal(subscription), _keys.c.lane, due).order_by(_keys.c.n)
    return tables.lane.insert().from_select(["subscription_id", "lane", "due_at"], rows)
