"""Servers that tests share: each is started when a test first asks for it, and stopped at the end."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NoReturn

import pytest
from sqlalchemy.engine import make_url

from local_transport.connections import Database
from local_transport.schema import upgrade
from tests.servers.dynamodb import private_dynamodb
from tests.servers.localstack import ENDPOINT_VARIABLE, Aws, LocalStackUnavailable, private_localstack
from tests.servers.pgbouncer import PgBouncerUnavailable, pooled
from tests.servers.postgres import PostgresUnavailable, fresh_database, private_cluster
from tests.servers.real_aws import CHOICE_VARIABLE, RealAws, real_account
from tests.servers.terraform import TerraformUnavailable, binary

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COLUMNS", None)  # which xdist sets to the width of its own terminal, for all that is tested too


@pytest.fixture(autouse=True)
def log_handlers() -> Iterator[None]:
    """What a command adds to the root logger goes with its test: it writes to a stream of that test."""
    root, level = logging.getLogger(), logging.getLogger().level
    yield
    for handler in [handler for handler in root.handlers if type(handler) is logging.StreamHandler]:
        root.removeHandler(handler)
    root.setLevel(level)


def left_out(what: str, reason: str) -> NoReturn:
    """Skip what needs a server that this machine cannot run; a failure where ``CI=true``."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}: {reason}", pytrace=False)
    pytest.skip(f"{what}: {reason}")


@pytest.fixture(scope="session")
def aws() -> Iterator[Aws | RealAws]:
    """LocalStack, or what ``TOWPATH_AWS_ENDPOINT`` names; see ``tests/localstack/README.md``.

    A real account only where ``make conformance AWS=real`` asks for it: see ``tests.servers.real_aws``.
    """
    with ExitStack() as stack:
        if os.environ.get(CHOICE_VARIABLE) == "real":
            yield stack.enter_context(real_account(os.environ))
            return
        try:
            endpoint = stack.enter_context(private_localstack())
        except LocalStackUnavailable as error:
            left_out("LocalStack", str(error))
        yield Aws(endpoint=endpoint, region="eu-west-1", shares_files=ENDPOINT_VARIABLE not in os.environ)


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[str]:
    """The endpoint of a DynamoDB, which LocalStack has only with Java."""
    with private_dynamodb() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def terraform() -> str:
    """Where Terraform is: for tests that run it."""
    try:
        return binary()
    except TerraformUnavailable as error:
        left_out("Terraform", str(error))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server: a private one, or what ``TOWPATH_POSTGRES_URL`` names."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(private_cluster())
        except PostgresUnavailable as error:
            left_out("PostgreSQL", str(error))
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a new, empty PostgreSQL database."""
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture
def pooled_url(postgres_url: str) -> Iterator[str]:
    """The URL of the same new database by way of a PgBouncer in transaction mode."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(pooled(postgres_url))
        except PgBouncerUnavailable as error:
            left_out("PgBouncer", str(error))
        yield url


@pytest.fixture(scope="session")
def postgres_with_tables(postgres_server: str) -> Iterator[str]:
    """The name of a PostgreSQL database that has the tables and nothing else, to be copied."""
    with fresh_database(postgres_server) as url:
        with closing(Database(url)) as database:
            upgrade(database)
        yield str(make_url(url).database)


@pytest.fixture(scope="session")
def sqlite_with_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file that has the tables and nothing else, to be copied."""
    file = tmp_path_factory.mktemp("sqlite") / "tables.db"
    with closing(Database(f"sqlite:///{file}")) as database:
        upgrade(database)
    return file


@pytest.fixture
def postgres_tables_url(postgres_server: str, postgres_with_tables: str) -> Iterator[str]:
    """The URL of a new PostgreSQL database that has the tables."""
    with fresh_database(postgres_server, postgres_with_tables) as url:
        yield url


@pytest.fixture
def sqlite_tables_url(sqlite_with_tables: Path, tmp_path: Path) -> str:
    """The URL of a new SQLite file that has the tables."""
    return f"sqlite:///{shutil.copy(sqlite_with_tables, tmp_path / 'towpath.db')}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of a new database that has the tables, once for each kind of database."""
    kind = {"sqlite": "sqlite", "postgresql": "postgres"}[request.param]
    url: str = request.getfixturevalue(f"{kind}_tables_url")
    return url
