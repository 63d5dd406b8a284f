"""A user's transaction that published and stays open for a minute, while others work: it runs beside other tests."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from types import TracebackType
from typing import Self

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport import DatabaseTransport
from local_transport.connections import Database
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.ports import Extension
from towpath.settlement import Completion, Settled

OPEN_SECONDS = 60
MODES = {"loose": "none", "single": "exclusive", "line": "ordered"}
KEYS = ("a", "b", None)
NOW = timedelta(0)


class OpenTransaction:
    """Opens the transaction at its start and commits it a minute later; meanwhile a round of work every two seconds.

    Whatever waited for the transaction would be given up before it ends, or never end: it stays open until the last
    round is over. So the answers of a round tell, and no clock has to.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="open-transaction")
        self._stop = threading.Event()
        self._rounds = 0

    def __enter__(self) -> Self:
        self._run = self._pool.submit(self._open_for_a_minute)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._pool.shutdown()

    def rounds_within(self, seconds: float) -> int:
        """How many rounds of work there were, once there were two; raises what went wrong."""
        deadline = time.monotonic() + seconds
        while self._rounds < 2 and time.monotonic() < deadline and not self._run.done():
            time.sleep(0.05)
        if self._run.done():
            self._run.result()
        return self._rounds

    def ended(self) -> tuple[float, int]:
        """For how long the transaction was open by the server's clock, and how many rounds there were; waits for it."""
        return self._run.result(timeout=240)

    def _open_for_a_minute(self) -> tuple[float, int]:
        with connect(self._url) as transport, closing(Database(self._url)) as database:
            topology = {name: {"topic": name, "partition_mode": mode} for name, mode in MODES.items()}
            transport.apply(on_database({name: {} for name in MODES}, topology))
            for name in MODES:
                _publish(transport, name, "waiting", KEYS * OPEN_SECONDS)
            with database.engine.begin() as connection:
                for name in MODES:
                    _publish(transport, name, "held back", KEYS, connection)
                while not self._is_over(connection):
                    for name in MODES:
                        _work(transport, name, self._rounds)
                    self._rounds += 1
                    self._stop.wait(2)
                open_for = _open_seconds(connection)
            for name in MODES:
                _check_what_comes_then(transport, name, self._rounds)
            return open_for, self._rounds

    def _is_over(self, connection: Connection) -> bool:
        return self._stop.is_set() or _open_seconds(connection) >= OPEN_SECONDS


def _open_seconds(connection: Connection) -> float:
    return float(connection.scalar(sa.text("SELECT extract(epoch FROM clock_timestamp() - now())")))


def _publish(
    transport: DatabaseTransport,
    name: str,
    text: str,
    keys: tuple[str | None, ...],
    connection: Connection | None = None,
) -> None:
    new = [NewMessage(payload=text, partition_key=key) for key in keys]
    results = transport.publish(name, new, connection=connection)
    assert {result.status for result in results} == {"accepted"}, results


def _work(transport: DatabaseTransport, name: str, number: int) -> None:
    """Claim, renew and settle what was published before, and publish more.

    An ordered key that the transaction published for is its own until it ends, so there others publish for others.
    """
    consumer = transport.consumer(name)
    held = consumer.receive(3, NOW)
    assert len(held) == 3, f"{name}: claims found {len(held)} in round {number}"
    assert consumer.extend([Extension(delivery=one) for one in held]) == [Settled(state="leased")] * 3
    assert consumer.complete([Completion(delivery=one) for one in held]) == [Settled(state="completed")] * 3
    _publish(transport, name, "meanwhile", ("z", None) if MODES[name] == "ordered" else ("a", "b", None))


def _check_what_comes_then(transport: DatabaseTransport, name: str, rounds: int) -> None:
    """What was held back comes, in its place: on an ordered key behind what had been published before."""
    consumer, found = transport.consumer(name), []
    while held := consumer.receive(100, NOW):
        found += [(json.loads(one.body)["payload"], json.loads(one.body).get("partition_key")) for one in held]
        consumer.complete([Completion(delivery=one) for one in held])
    assert sorted(key or "" for text, key in found if text == "held back") == ["", "a", "b"]
    meanwhile = 2 if MODES[name] == "ordered" else 3
    assert len(found) == 3 * OPEN_SECONDS + 3 + (meanwhile - 3) * rounds
    if MODES[name] == "ordered":
        for key in ("a", "b"):
            assert [text for text, of in found if of == key][-1] == "held back"
