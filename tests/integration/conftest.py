"""A database transport with a small topology, on each kind of database."""

from collections.abc import Iterator

import pytest

from local_transport import DatabaseTransport
from tests.servers.open_transaction import OpenTransaction
from tests.servers.postgres import fresh_database
from tests.servers.topologies import on_database
from towpath import connect

TOPICS = {"documents": {}, "quiet": {"status": "disabled"}}
SUBSCRIPTIONS = {
    "convert": {"topic": "documents", "lease_seconds": 60, "max_attempts": 3, "backoff": {"base_seconds": 10}},
    "archive": {"topic": "documents", "filter": {"kind": ["pdf", {"prefix": "doc"}]}},
}


@pytest.fixture
def transport(database_url: str) -> Iterator[DatabaseTransport]:
    """Topic ``documents`` with the subscriptions ``convert`` (everything) and ``archive`` (some kinds)."""
    opened: DatabaseTransport = connect(database_url)
    opened.apply(on_database(TOPICS, SUBSCRIPTIONS))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def open_minute(postgres_server: str, postgres_with_tables: str) -> Iterator[OpenTransaction]:
    """A transaction that publishes and stays open for a minute from here on, beside the tests that follow."""
    with fresh_database(postgres_server, postgres_with_tables) as url, OpenTransaction(url) as opened:
        yield opened


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "late: a test of something that has run beside the others: it comes after them")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("late") is not None)
