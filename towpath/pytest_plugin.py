"""pytest's fixtures for handlers. Nothing of Towpath is imported before a test uses one of them.

``towpath_deliver`` runs one delivery, ``towpath_transport`` is a database with the topology, ``towpath_work`` a worker
on it, ``towpath_lambda`` a Lambda function. These three go by ``towpath_clock``: each has ``advance(seconds)``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

if TYPE_CHECKING:
    from towpath.manifest import Manifest
    from towpath.message import JsonValue, NewMessage
    from towpath.testing import Delivered, LocalClock, LocalDatabase, LocalLambda, Worked
    from towpath.topology import Topology

_OPTION: Final = "towpath_topology"
_FILES: Final = ("topology.toml", "topology.json")
_ENVIRONMENT: Final = "test"


class Deliver(Protocol):
    """What ``towpath_deliver`` is."""

    def __call__(self, subscription: str, message: NewMessage | JsonValue = ..., **given: Any) -> Delivered:
        """``towpath.testing.deliver`` with the subscription's handler and rules; ``given`` are its other arguments."""


class Work(Protocol):
    """What ``towpath_work`` is."""

    def __call__(self, *subscriptions: str, **given: Any) -> Worked:
        """``towpath.testing.work_off`` on ``towpath_transport``; ``given`` are its other arguments."""

    def advance(self, seconds: float) -> None:
        """Move time on."""


class OpenFunction(Protocol):
    """What ``towpath_lambda`` is."""

    def __call__(self, subscription: str) -> LocalLambda:
        """The subscription's function behind its queue, as the topology would be deployed."""

    def advance(self, seconds: float) -> None:
        """Move time on."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of the configuration file that names the topology."""
    told = "the topology of Towpath's fixtures, from the folder of this file; default: the nearest topology.toml"
    parser.addini(_OPTION, told, type="string", default="")


@pytest.fixture(scope="module")
def towpath_topology(request: pytest.FixtureRequest) -> Iterator[Topology]:
    """The topology that the other fixtures go by; its folder is on the import path, as it is for ``towpath work``.

    It is the file that the option ``towpath_topology`` names, else the ``topology.toml`` or ``topology.json`` nearest
    to the test: in its folder or one above, up to pytest's root. A fixture of this name of your own takes its place.
    """
    from towpath.errors import InvalidTopology
    from towpath.topology import load_topology

    file = _topology_file(request.config, request.path)
    try:
        topology = load_topology(file)
    except InvalidTopology as error:
        pytest.fail(str(error), pytrace=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(file.parent))
        yield topology


def _topology_file(config: pytest.Config, test: Path) -> Path:
    named = str(config.getini(_OPTION))
    if named:
        return (config.inipath.parent if config.inipath is not None else config.rootpath) / named
    above = [folder for folder in test.parents if folder.is_relative_to(config.rootpath)]
    folders = above or [config.rootpath]
    for folder in folders:
        for name in _FILES:
            if (folder / name).is_file():
                return folder / name
    looked = " and above up to ".join(dict.fromkeys(str(folder) for folder in (folders[0], folders[-1])))
    pytest.fail(
        f"there is no {' or '.join(_FILES)} in {looked}; put it there, or name it with {_OPTION} = ... in pytest's "
        "configuration file",
        pytrace=False,
    )


@pytest.fixture
def towpath_clock() -> LocalClock:
    """The time that all of a test's fixtures go by: real, and moved on by ``advance(seconds)``."""
    from towpath.testing import LocalClock

    return LocalClock()


@pytest.fixture(scope="session")
def _towpath_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its tables, to be copied: making them takes longer than most tests."""
    from towpath.testing import local_database

    file = tmp_path_factory.mktemp("towpath") / "tables.db"
    local_database(file).close()
    return file


@pytest.fixture
def towpath_transport(
    towpath_topology: Topology, towpath_clock: LocalClock, _towpath_tables: Path, tmp_path: Path
) -> Iterator[LocalDatabase]:
    """The database transport on a SQLite file in ``tmp_path``, with the whole topology applied to it, wherever that
    puts its topics. ``advance(seconds)`` makes due what waits.
    """
    from towpath.testing import local_database

    file = Path(shutil.copy(_towpath_tables, tmp_path / "towpath.db"))
    with local_database(file, _on_database(towpath_topology), clock=towpath_clock) as transport:
        yield transport


def _on_database(topology: Topology) -> Manifest:
    from towpath.resolve import resolve, with_all_on_database

    return resolve(with_all_on_database(topology), _ENVIRONMENT)


@pytest.fixture
def towpath_work(towpath_transport: LocalDatabase) -> Work:
    """A worker on ``towpath_transport``: ``towpath_work()`` runs it until nothing is due, and answers what it did."""
    return _Work(towpath_transport)


class _Work:
    def __init__(self, transport: LocalDatabase) -> None:
        self._transport = transport
        self.advance = transport.advance

    def __call__(self, *subscriptions: str, **given: Any) -> Worked:
        from towpath.testing import work_off

        return work_off(self._transport, *subscriptions, **given)


@pytest.fixture
def towpath_deliver(towpath_topology: Topology) -> Deliver:
    """One delivery to a handler, without a transport: ``towpath_deliver("documents.convert", {"page": 1})``."""
    manifest = _on_database(towpath_topology)

    def deliver_to(subscription: str, *message: NewMessage | JsonValue, **given: Any) -> Delivered:
        from towpath.errors import SubscriptionNotFound
        from towpath.testing import deliver

        found = manifest.subscriptions.get(subscription)
        if found is None or found.handler is None:
            raise SubscriptionNotFound(subscription, f"with handlers there are {', '.join(manifest.subscriptions)}")
        return deliver(found.handler, *message, **{"policy": found.policy(subscription)} | given)

    return deliver_to


@pytest.fixture
def towpath_lambda(
    request: pytest.FixtureRequest, towpath_topology: Topology, towpath_clock: LocalClock
) -> OpenFunction:
    """A subscription's handler as a Lambda function: ``towpath_lambda("documents.convert")`` is a ``LocalLambda``.

    Queue, batches, time-outs and attempts are those that the topology deploys. What the handler publishes goes to
    ``towpath_transport``, where ``towpath_work`` finds it.
    """
    return _OpenFunction(request, towpath_topology, towpath_clock)


class _OpenFunction:
    def __init__(self, request: pytest.FixtureRequest, topology: Topology, clock: LocalClock) -> None:
        self._request = request
        self._topology = topology
        self._clock = clock
        self.advance = clock.advance

    def __call__(self, subscription: str) -> LocalLambda:
        from towpath.resolve import resolve
        from towpath.testing import lambda_settings, local_lambda

        settings = lambda_settings(resolve(self._topology, _ENVIRONMENT), subscription)
        transport: LocalDatabase = self._request.getfixturevalue("towpath_transport")
        handler = self._topology.subscriptions[subscription].handler or ""
        return local_lambda(handler, settings, publish=transport.publish, clock=self._clock)
