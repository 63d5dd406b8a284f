"""Servers that tests share: each is started when a test first asks for it, and stopped at the end."""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest

from local_transport.connections import Database
from local_transport.schema import upgrade
from tests.servers.localstack import Aws, LocalStackUnavailable, private_localstack
from tests.servers.pgbouncer import PgBouncerUnavailable, pooled
from tests.servers.postgres import PostgresUnavailable, fresh_database, private_cluster


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
def aws() -> Iterator[Aws]:
    """LocalStack, or what ``TOWPATH_AWS_ENDPOINT`` names; see ``tests/localstack/README.md``."""
    with ExitStack() as stack:
        try:
            endpoint = stack.enter_context(private_localstack())
        except LocalStackUnavailable as error:
            left_out("LocalStack", str(error))
        yield Aws(endpoint=endpoint, region="eu-west-1")


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


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new database that has the tables, once for each kind of database."""
    url: str = f"sqlite:///{tmp_path}/towpath.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    database = Database(url)
    upgrade(database)
    database.close()
    return url
