"""The schema of a database: made, checked, brought up, and equal to what the code believes."""

import subprocess
import sys
from contextlib import closing

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from typer.testing import CliRunner

from local_transport.commands import app
from local_transport.connections import Database
from local_transport.schema import MIGRATIONS, require_current, schema_state, upgrade
from local_transport.tables import SCHEMA_VERSION, VERSION_TABLE, metadata
from towpath import connect
from towpath.errors import SchemaOutdated


def test_the_migrations_make_exactly_the_tables_that_the_code_uses(database_url):
    database = Database(database_url)
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    database.close()


def test_on_sqlite_migrations_and_code_give_the_same_statements(tmp_path):
    migrated, made = (Database(f"sqlite:///{tmp_path}/{name}.db") for name in ("migrated", "made"))
    upgrade(migrated)
    metadata.create_all(made.engine)
    assert _sqlite_statements(migrated) == _sqlite_statements(made)
    migrated.close()
    made.close()


def _sqlite_statements(database):
    query = sa.text(
        "SELECT name, sql FROM sqlite_master WHERE name NOT IN (:versions, 'sqlite_sequence') AND sql <> ''"
    )
    with database.reading() as connection:
        found = connection.execute(query, {"versions": VERSION_TABLE})
        return {name: " ".join(sql.replace('"', "").split()) for name, sql in found}  # an added column is on no line


def test_on_postgresql_migrations_and_code_give_the_same_columns_indexes_and_settings(postgres_url):
    database = Database(postgres_url)
    upgrade(database)
    with database.writing() as connection:
        connection.execute(sa.text("CREATE SCHEMA twin"))
        connection.execute(sa.text("SET LOCAL search_path = twin"))
        metadata.create_all(connection)
    with database.reading() as connection:
        assert _postgresql_facts(connection, "public") == _postgresql_facts(connection, "twin")
    database.close()


def _postgresql_facts(connection, schema):
    columns = """SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity
                 FROM information_schema.columns WHERE table_schema = :schema AND table_name <> :versions"""
    indexes = """SELECT tablename, indexname, indexdef, '', '', '' FROM pg_indexes
                 WHERE schemaname = :schema AND tablename <> :versions"""
    settings = """SELECT relname, array_to_string(reloptions, ' '), '', '', '', '' FROM pg_class
                  WHERE relnamespace = CAST(:schema AS regnamespace) AND relkind = 'r' AND relname <> :versions"""
    query = sa.text(f"{columns} UNION ALL {indexes} UNION ALL {settings}")
    rows = connection.execute(query, {"schema": schema, "versions": VERSION_TABLE}).all()
    return {tuple(value and value.replace(f"{schema}.", "") for value in row) for row in rows}


def test_the_hot_tables_carry_their_storage_settings(postgres_url):
    database = Database(postgres_url)
    upgrade(database)
    with database.reading() as connection:
        found = dict(connection.execute(sa.text("SELECT relname, reloptions FROM pg_class WHERE relkind = 'r'")).all())
    for name in ("towpath_delivery", "towpath_delivery_detail", "towpath_lane"):
        assert "autovacuum_vacuum_scale_factor=0.01" in found[name]
        assert "fillfactor=85" in found[name]
    database.close()


def test_the_version_in_the_code_is_the_newest_migration():
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA_VERSION]


def test_an_empty_sqlite_file_gets_its_tables_at_the_first_connect(tmp_path):
    connect(f"sqlite:///{tmp_path}/new.db").close()
    assert schema_state(Database(f"sqlite:///{tmp_path}/new.db")).current


def test_a_sqlite_file_of_somebody_else_is_left_alone(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/other.db")
    with database.writing() as connection:
        connection.execute(sa.text("CREATE TABLE theirs (id INTEGER)"))
    with pytest.raises(SchemaOutdated, match=r"has no Towpath tables; run 'towpath db upgrade --database sqlite:///"):
        connect(f"sqlite:///{tmp_path}/other.db")
    with database.reading() as connection:
        assert sa.inspect(connection).get_table_names() == ["theirs"]
    database.close()


def test_a_postgresql_database_without_tables_is_refused_with_the_command(postgres_url):
    with pytest.raises(SchemaOutdated, match="run 'towpath db upgrade --database postgresql://"):
        connect(postgres_url)
    assert _command("upgrade", postgres_url) == (
        0,
        "Schema version 0002 now; it was not there.\nNext: towpath apply\n",
    )
    connect(postgres_url).close()
    assert _command("upgrade", postgres_url) == (0, "Schema version 0002 already; nothing to do.\n")


def test_a_schema_of_another_version_is_refused(database_url):
    database = Database(database_url)
    for version, repair in (("0000", "run 'towpath db upgrade"), ("9999", "install a newer towpath")):
        with database.writing() as connection:
            connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = :v"), {"v": version})
        with pytest.raises(SchemaOutdated, match=repair):
            require_current(database)
    with pytest.raises(SchemaOutdated, match="newer than this Towpath knows"):
        upgrade(database)
    database.close()


def test_db_check_says_whether_the_schema_is_current(tmp_path, postgres_url):
    url = f"sqlite:///{tmp_path}/checked.db"
    connect(url).close()
    assert _command("check", url) == (0, "Schema version 0002, as this Towpath needs; nothing to do.\n")
    code, text = _command("check", postgres_url)
    assert code == 1
    assert "has no Towpath tables. To do: run 'towpath db upgrade" in text


def test_several_processes_open_the_same_empty_sqlite_file_at_once(tmp_path):
    program = f"from towpath import connect; input(); connect('sqlite:///{tmp_path}/shared.db').close()"
    openers = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for opener in openers:  # all are waiting; now they go at the same moment
        opener.stdin.write("\n")
        opener.stdin.flush()
    ends = [(opener.communicate()[1], opener.returncode) for opener in openers]
    assert ends == [("", 0)] * 4
    assert schema_state(Database(f"sqlite:///{tmp_path}/shared.db")).current


def test_several_threads_open_empty_sqlite_files_at_once(tmp_path):
    program = """
import sys, threading
from towpath import connect
together = threading.Barrier(6)
def opening(number):
    together.wait()
    with connect(f'sqlite:///{sys.argv[1]}/{number % 4}.db') as transport:
        assert transport.policies() == {}
threads = [threading.Thread(target=opening, args=(number,)) for number in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    for round_number in range(3):  # in a process of its own: what goes wrong here may take the process with it
        folder = tmp_path / str(round_number)  # never a file's old name: SQLite keeps a log beside it while it is open
        folder.mkdir()
        opened = subprocess.run(
            [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=False
        )
        assert (opened.stderr, opened.returncode) == ("", 0)
        for number in range(4):
            with closing(Database(f"sqlite:///{folder}/{number}.db")) as database:
                assert schema_state(database).current


def _command(name: str, url: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [name, "--database", url])
    return done.exit_code, done.stdout
