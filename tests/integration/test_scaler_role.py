"""What a scaler asks a PostgreSQL server: the figure of ``towpath backlog``, by a role that may read nothing else."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql
from sqlalchemy.engine import make_url
from typer.testing import CliRunner

from local_transport.counting import BACKLOG_VIEW
from local_transport.dialects.scaler import role_script
from local_transport.tables import metadata
from tests.servers.postgres import fresh_database
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.cli.main import build_app
from towpath.operating import Pace, Selection, Warrant
from towpath.settlement import DeadLettering, Failure, Retrial

NOW = timedelta(0)
WARRANT = Warrant(actor="ada", reason="a test")
FAILURE = Failure(type="ValueError", message="no")
MODES = {"loose": "none", "single": "exclusive", "line": "ordered"}
FIGURE = "SELECT claimable + in_flight FROM towpath_backlog WHERE subscription = %s"  # as the ScaledObject has it
MANY = 100_000
LOOKED_AT = 10_000  # rows of one kind at most


@pytest.fixture(scope="module")
def server(postgres_server, postgres_with_tables) -> Iterator[tuple[str, str]]:
    """A database with a topology and the role, which is made by psql; and the role's name."""
    role = f"scaler_{secrets.token_hex(4)}"
    with fresh_database(postgres_server, postgres_with_tables) as url:
        with connect(url) as transport:
            topics = {"documents": {}, "quiet": {}}
            subscriptions = {name: {"topic": "documents", "partition_mode": mode} for name, mode in MODES.items()}
            quiet = {"stopped": {"topic": "quiet"}, "off": {"topic": "quiet", "status": "disabled"}}
            transport.apply(on_database(topics, subscriptions | quiet))
        for _ in range(2):  # nothing happens twice
            run_script(url, role_script(BACKLOG_VIEW, role))
        yield url, role
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


def run_script(url: str, script: str) -> None:
    assert outcome_of(url, script) == (0, "")


def outcome_of(url: str, script: str) -> tuple[int, str]:
    psql = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", url]
    done = subprocess.run(psql, input=script, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


@contextmanager
def as_role(server) -> Iterator[psycopg.Connection]:
    url, role = server
    with psycopg.connect(make_url(url).set(username=role).render_as_string(), autocommit=True) as connection:
        yield connection


def shown(url: str) -> dict[str, dict[str, object]]:
    """What ``towpath backlog --json`` says, by subscription."""
    done = CliRunner().invoke(build_app(), ["backlog", "--json", "--transport", url])
    assert done.exit_code == 0, done.output
    return {row["subscription"]: row for row in json.loads(done.stdout)}


def read(connection: psycopg.Connection) -> dict[str, dict[str, object]]:
    """What the view says, with the figure that a scaler asks for."""
    names = ("subscription", "claimable", "in_flight", "claimable_capped", "in_flight_capped")
    rows = connection.execute(f"SELECT {', '.join(names)} FROM towpath_backlog").fetchall()
    found = {row[0]: dict(zip(names, row, strict=True)) for row in rows}
    return {
        name: row | {"backlog": connection.execute(FIGURE, [name]).fetchone()[0]} for name, row in sorted(found.items())
    }


def test_the_role_reads_the_figures_of_the_backlog_in_every_mode(server):
    url, _ = server
    with as_role(server) as connection, connect(url) as transport:
        assert read(connection) == shown(url)
        assert {name: row["backlog"] for name, row in read(connection).items()} == dict.fromkeys(
            ("line", "loose", "off", "single", "stopped"), 0
        )
        keys = [*"aabbccd", *[None] * 5]
        transport.publish("documents", [NewMessage(payload="secret", partition_key=key) for key in keys])
        later = datetime.now(UTC) + timedelta(hours=1)
        transport.publish("documents", [NewMessage(payload="secret", deliver_after=later, partition_key="e")] * 3)
        transport.publish("quiet", [NewMessage(payload="secret")] * 4)
        figures = {"line": (9, 0), "loose": (12, 0), "off": (0, 0), "single": (9, 0), "stopped": (4, 0)}
        assert {name: (row["claimable"], row["in_flight"]) for name, row in read(connection).items()} == figures
        assert read(connection) == shown(url)

        for name in MODES:  # one dead (which blocks the key of the ordered one), one that backs off, one in flight
            dead, later, _held = transport.consumer(name).receive(3, NOW)
            transport.consumer(name).dead_letter([DeadLettering(delivery=dead, reason="bad", failure=FAILURE)])
            transport.consumer(name).retry([Retrial(delivery=later, delay=timedelta(hours=1), failure=FAILURE)])
        transport.operator().pause("stopped", WARRANT)
        found = {name: (row["claimable"], row["in_flight"]) for name, row in read(connection).items()}
        assert (found["loose"], found["stopped"], found["line"][1], found["single"][1]) == ((9, 1), (0, 0), 1, 1)
        assert read(connection) == shown(url)

        transport.publish("documents", [NewMessage(payload=1, partition_key=f"k{i}") for i in range(1_100)])
        transport.consumer("loose").receive(1_050, NOW)
        found = read(connection)
        assert (found["line"]["backlog"], found["line"]["claimable_capped"]) == (1_001, True)
        assert (found["loose"]["in_flight"], found["loose"]["in_flight_capped"]) == (1_000, True)
        assert found == shown(url)
        for name in MODES:
            transport.operator().discard(Selection(subscription=name, state="pending"), WARRANT, Pace())


def test_the_role_may_read_the_figures_and_nothing_else(server):
    _, role = server
    with as_role(server) as connection:
        for table in [*metadata.tables, "towpath_schema_version"]:
            for statement in ("SELECT FROM {}", "DELETE FROM {}", "TRUNCATE {}", "LOCK {}", "DROP TABLE {}"):
                refused(connection, statement.format(table))
        refused(connection, "SELECT body FROM towpath_message")
        refused(connection, "UPDATE towpath_subscription SET paused = true")
        refused(connection, "INSERT INTO towpath_topic (name, policy, revision) VALUES ('a', '{}', 1)")
        refused(connection, "DROP VIEW towpath_backlog")
        refused(connection, "CREATE TABLE mine (a int)")
        attributes = "rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls, rolinherit"
        found = connection.execute(f"SELECT {attributes} FROM pg_roles WHERE rolname = %s", [role]).fetchone()
        assert found == (False,) * 6
        limits = "SELECT current_setting('statement_timeout'), current_setting('default_transaction_read_only')"
        assert connection.execute(limits).fetchone() == ("5s", "on")


def refused(connection: psycopg.Connection, statement: str) -> None:
    """Also when the role first lets itself write, as every role may."""
    with connection.transaction(force_rollback=True):
        connection.execute("SET TRANSACTION READ WRITE")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)


def test_a_role_that_workers_log_in_as_is_refused_and_may_write_as_before(server):
    url, _ = server
    with psycopg.connect(url, autocommit=True) as connection:
        workers = connection.execute("SELECT current_user").fetchone()[0]
        code, told = outcome_of(url, role_script(BACKLOG_VIEW, workers))
        assert code != 0
        assert f"the role {workers} may write to the tables; give a scaler a role of its own" in told
        settings = "SELECT FROM pg_db_role_setting WHERE setrole = %s::regrole"
        assert connection.execute(settings, [workers]).fetchall() == []


def test_a_name_that_is_no_subscription_has_no_figure(server):
    with as_role(server) as connection:
        assert connection.execute(FIGURE, ["nobody"]).fetchone() is None


def test_the_figure_costs_the_same_however_much_waits(server):
    url, _ = server
    with psycopg.connect(url, autocommit=True) as owner:
        ids = dict(owner.execute("SELECT name, id FROM towpath_subscription").fetchall())
        owner.execute(CROWD, {"many": MANY, "loose": ids["loose"], "line": ids["line"]})
        owner.execute("ANALYZE")
    with as_role(server) as connection:
        for name in MODES:
            ((plan,),) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {FIGURE}", [name]).fetchone()
            scans = [
                node for node in nodes(plan["Plan"]) if node["Node Type"].endswith("Scan") and "Relation Name" in node
            ]
            for node in scans:
                seen = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
                assert seen * node["Actual Loops"] <= LOOKED_AT, node
                assert node["Node Type"].startswith("Index"), node
        found = read(connection)
    for name in ("loose", "line"):
        assert (found[name]["claimable"], found[name]["claimable_capped"]) == (1_000, True)
    assert found == shown(url)


# Half of the loose ones are due, the others in an hour; so are half of the lanes. Each message of a key was published
# by itself while no worker ran, so each left a touch.
CROWD = """
WITH made AS (
    INSERT INTO towpath_message (id, published_at, topic_id, body)
    SELECT gen_random_uuid(), clock_timestamp(), 1, '{}' FROM generate_series(1, %(many)s) RETURNING ordinal
), loose AS (
    INSERT INTO towpath_delivery (message_ordinal, subscription_id, due_at)
    SELECT ordinal, %(loose)s,
           clock_timestamp() + CASE WHEN ordinal %% 2 = 0 THEN interval '1 hour' ELSE interval '0' END
    FROM made
), kept AS (
    INSERT INTO towpath_delivery (message_ordinal, subscription_id, due_at, lane, ordered)
    SELECT ordinal, %(line)s, clock_timestamp(), ordinal %% 50000, true FROM made
), lanes AS (
    INSERT INTO towpath_lane (subscription_id, lane, due_at)
    SELECT %(line)s, n, clock_timestamp() + CASE WHEN n %% 2 = 0 THEN interval '1 hour' ELSE interval '0' END
    FROM generate_series(1, 50000) n ON CONFLICT DO NOTHING
)
INSERT INTO towpath_touched_lane (subscription_id, lane) SELECT %(line)s, ordinal %% 50000 FROM made
"""


def nodes(plan: dict) -> Iterator[dict]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)
