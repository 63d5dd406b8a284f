"""A database transport with a small topology, on each kind of database."""

from collections.abc import Iterator

import pytest

from local_transport import DatabaseTransport
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
