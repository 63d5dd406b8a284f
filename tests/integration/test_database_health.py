"""``towpath db check``: each finding is made for real, on the database that it can be made on."""

import json
import secrets
import sqlite3
import time
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from local_transport.commands import app
from local_transport.connections import Database
from local_transport.dialects.health import Limits
from local_transport.health import CheckUp
from local_transport.tables import VERSION_TABLE, lane, touched_lane
from tests.servers.clock import advance
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.message import utc_now
from towpath.operating import Pace, Selection, Warrant
from towpath.settlement import DeadLettering

NOW = timedelta(0)
DAY = 86_400


@pytest.fixture
def line(database_url):
    subscriptions = {
        "line": {"topic": "documents", "partition_mode": "ordered", "max_attempts": 1, "lease_seconds": 60},
        "loose": {"topic": "documents", "max_attempts": 3, "lease_seconds": 60, "dead_letter_retention_days": 10},
    }
    with connect(database_url) as transport:
        transport.apply(on_database({"documents": {}}, subscriptions))
        yield transport


def check(url, *options):
    done = CliRunner().invoke(app, ["check", "--database", url, *options], env={"COLUMNS": "1000"})
    return done.exit_code, done.stdout


def found(url, **limits):
    with closing(Database(url)) as database:
        return {finding.code: finding for finding in CheckUp(database=database, limits=Limits(**limits)).findings()}


def published(transport, *keys):
    transport.publish("documents", [NewMessage(payload=i, partition_key=key) for i, key in enumerate(keys)])


def change(url, statement):
    with closing(Database(url)) as database, database.writing() as connection:
        connection.execute(statement)


def test_a_database_that_is_well_has_no_findings(line, database_url):
    published(line, "a", "a", None)
    line.consumer("line").receive(5, NOW)
    assert check(database_url) == (0, "Schema version 0002, as this Towpath needs; nothing to do.\n")
    code, text = check(database_url, "--json")
    assert code == 0
    assert json.loads(text) == {"installed": "0002", "needed": "0002", "current": True, "findings": []}


@pytest.mark.parametrize(
    ("version", "problem", "repair"),
    [
        ("0001", "this Towpath needs 0002", "run 'towpath db upgrade"),
        ("9999", "newer than this Towpath knows (0002)", "install a newer towpath"),
    ],
)
def test_of_the_schema_of_another_version_nothing_else_is_said(line, database_url, version, problem, repair):
    change(database_url, sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'"))
    code, text = check(database_url)
    assert code == 1
    assert text.startswith("schema: ")
    assert f"has schema version {version}, {problem}. To do: {repair}" in text
    assert len(text.splitlines()) == 1
    told = json.loads(check(database_url, "--json")[1])
    assert told["current"] is False
    assert [finding["code"] for finding in told["findings"]] == ["schema"]


@pytest.mark.parametrize(("minutes", "side"), [(-10, "ahead of"), (10, "behind")])
def test_a_clock_that_is_off_is_told(line, database_url, minutes, side):
    with closing(Database(database_url)) as database:
        off = CheckUp(database=database, clock=lambda: utc_now() + timedelta(minutes=minutes))
        (finding,) = off.findings()
    assert finding.code == "clock"
    assert side in finding.problem
    assert 595 <= float(finding.problem.split(" s ")[0].rsplit(" ", 1)[1].replace(",", "")) <= 605


def test_a_slow_answer_is_not_taken_for_a_clock_that_is_off(line, database_url):
    answers = iter([utc_now(), utc_now() + timedelta(seconds=30)])
    with closing(Database(database_url)) as database:
        assert CheckUp(database=database, clock=lambda: next(answers)).findings() == []


def test_leases_that_nobody_ended_are_told_with_the_subscription(line, database_url):
    published(line, "a")
    line.consumer("line").receive(1, NOW)  # its last attempt
    line.consumer("loose").receive(1, NOW)
    advance(database_url, 300)
    assert found(database_url) == {}
    advance(database_url, 200)
    findings = found(database_url)
    assert findings.keys() == {"sweep", "leases"}
    assert findings["sweep"].problem.startswith("the leases of 1 deliveries on their last attempt")
    assert "'loose'" in findings["leases"].problem
    assert findings["leases"].repair.endswith("towpath work loose")
    line.sweep()
    line.operator().pause("loose", Warrant(actor="ada", reason="why"))
    assert found(database_url) == {}


def test_deliveries_that_are_stuck_in_their_lanes_are_told_and_can_be_woken(line, database_url):
    published(line, "a", "a", "b")
    held = line.consumer("line").receive(5, NOW)
    line.consumer("line").dead_letter([DeadLettering(delivery=one, reason="bad") for one in held])
    assert line.consumer("line").receive(5, NOW) == []
    assert found(database_url) == {}  # the keys are blocked, as they should be
    line.operator().replay(Selection(delivery_ids=(held[0].id,)), Warrant(actor="ada", reason="why"), Pace())
    change(database_url, sa.delete(touched_lane))
    change(database_url, sa.update(lane).values(due_at=None))
    finding = found(database_url)["lanes"]
    assert finding.problem.startswith("2 deliveries wait in lanes")
    code, text = check(database_url, "--wake-lanes")
    assert (code, text.splitlines()[1:]) == (0, ["2 deliveries are looked at again."])
    assert [one.id for one in line.consumer("line").receive(5, NOW)] == [held[0].id]
    change(database_url, sa.delete(lane))
    assert found(database_url)["lanes"].problem.startswith("2 deliveries")


def test_dead_letters_that_nobody_looks_after_are_told_before_they_go(line, database_url):
    published(line, None, None)
    held = line.consumer("loose").receive(5, NOW)
    line.consumer("loose").dead_letter([DeadLettering(delivery=one, reason="bad") for one in held])
    advance(database_url, 4 * DAY)
    assert found(database_url) == {}
    advance(database_url, 2 * DAY)
    (finding,) = found(database_url).values()
    assert finding.code == "dead-letters"
    assert finding.problem == "'loose' has 2 dead letters, the oldest for 6 days; it is removed in 3 days"
    advance(database_url, 5 * DAY)
    assert found(database_url)["dead-letters"].problem.endswith("it is removed by the next sweep")


def test_a_finding_is_told_with_what_to_do(line, database_url):
    published(line, None)
    held = line.consumer("loose").receive(5, NOW)
    line.consumer("loose").dead_letter([DeadLettering(delivery=one, reason="bad") for one in held])
    advance(database_url, 8 * DAY)
    code, text = check(database_url)
    assert code == 1
    assert text.splitlines()[1] == (
        "dead-letters: 'loose' has 1 dead letters, the oldest for 8 days; it is removed in 1 days. To do: look at them "
        "(towpath dead-letters list loose), then replay or discard them."
    )
    (finding,) = json.loads(check(database_url, "--json")[1])["findings"]
    assert finding.keys() == {"code", "problem", "repair"}


# --- SQLite ------------------------------------------------------------------------------------------------------


def test_a_file_that_was_taken_out_of_wal_mode_is_told_once_since_opening_it_puts_that_right(sqlite_tables_url):
    file = sqlite_tables_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    code, text = check(sqlite_tables_url)
    assert code == 1
    assert "journal: the file was not in WAL mode" in text
    assert check(sqlite_tables_url)[0] == 0


def test_a_log_that_a_reader_keeps_from_being_emptied_is_told(sqlite_tables_url):
    file = sqlite_tables_url.removeprefix("sqlite:///")
    with connect(sqlite_tables_url) as transport, closing(sqlite3.connect(file)) as reader:
        transport.apply(on_database({"documents": {}}, {"loose": {"topic": "documents"}}))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM towpath_message").fetchone()
        for _ in range(4):
            transport.publish("documents", [NewMessage(payload="x" * 200_000)] * 5)
        assert "log" in found(sqlite_tables_url, log_bytes=1024 * 1024)["bloat"].problem
        reader.execute("COMMIT")
    assert found(sqlite_tables_url, log_bytes=1024 * 1024) == {}


def test_a_file_that_is_mostly_free_is_told(sqlite_tables_url):
    with connect(sqlite_tables_url) as transport:
        transport.apply(on_database({"documents": {}}, {"loose": {"topic": "documents"}}))
        transport.publish("documents", [NewMessage(payload="x" * 200_000)] * 10)
    assert found(sqlite_tables_url, free_bytes=100_000) == {}
    change(sqlite_tables_url, sa.text("DELETE FROM towpath_message"))
    assert "MiB of the file are free" in found(sqlite_tables_url, free_bytes=100_000)["bloat"].problem


# --- PostgreSQL --------------------------------------------------------------------------------------------------


def settings(url, *statements):
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def test_another_isolation_level_is_told(postgres_tables_url):
    name = sa.make_url(postgres_tables_url).database
    settings(postgres_tables_url, f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    finding = found(postgres_tables_url)["isolation"]
    assert finding.problem.startswith("transactions are serializable by default")


def test_commits_that_do_not_wait_for_the_disk_are_told(postgres_tables_url):
    name = sa.make_url(postgres_tables_url).database
    settings(postgres_tables_url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    assert found(postgres_tables_url)["durability"].problem.startswith("synchronous_commit is off")


def test_a_table_without_autovacuum_and_dead_rows_are_told(postgres_tables_url):
    rows = "INSERT INTO towpath_delivery (message_ordinal, subscription_id) SELECT n, 1 FROM generate_series(1, 500) n"
    without = "ALTER TABLE towpath_delivery SET (autovacuum_enabled = false)"
    settings(postgres_tables_url, without, rows, "DELETE FROM towpath_delivery")
    deadline = time.monotonic() + 60
    while "bloat" not in found(postgres_tables_url, dead_rows=400):  # a server counts when a connection has ended
        assert time.monotonic() < deadline
        time.sleep(0.1)
    findings = found(postgres_tables_url, dead_rows=400)
    assert findings.keys() == {"autovacuum", "bloat"}
    assert findings["autovacuum"].problem.startswith("autovacuum is turned off for towpath_delivery")
    assert findings["bloat"].problem == "towpath_delivery has 500 dead rows and 0 live ones"
    settings(postgres_tables_url, "ALTER TABLE towpath_delivery RESET (autovacuum_enabled)")
    assert "autovacuum" not in found(postgres_tables_url, dead_rows=400)


def test_somebody_elses_transaction_that_stays_open_is_told(postgres_tables_url):
    with psycopg.connect(postgres_tables_url, application_name="a report") as theirs:
        theirs.execute("SELECT count(*) FROM towpath_delivery")
        pid = theirs.info.backend_pid
        assert found(postgres_tables_url) == {}
        finding = found(postgres_tables_url, transaction_seconds=0.0)["snapshot"]
    assert finding.problem.startswith(f"a transaction of 'a report' (process {pid}, idle in transaction) is open")
    assert f"pg_terminate_backend({pid})" in finding.repair


def test_a_role_with_no_more_than_the_tables_can_check_too(postgres_tables_url):
    role = f"towpath_checker_{secrets.token_hex(4)}"
    grant = f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"
    settings(postgres_tables_url, f"CREATE ROLE {role}", grant)
    try:
        url = sa.make_url(postgres_tables_url).update_query_dict({"options": f"-crole={role}"})
        assert found(url.render_as_string(hide_password=False)) == {}
    finally:
        settings(postgres_tables_url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
