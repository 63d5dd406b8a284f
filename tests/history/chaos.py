"""The run: processes that publish, work and operate on one database while they are killed, stalled and cut off.

A storm first: strikes fall while everything goes on. Then a quiet end, in which handlers succeed and nothing is struck,
until nothing waits. What is left then waits for ever. Nothing here is judged: the records are checked afterwards.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from local_transport import DatabaseTransport
from local_transport.connections import Database
from tests.history import holding, operating, publishing, working
from tests.history.members import Member, forking
from tests.history.plan import Plan, quiet
from tests.history.recording import Recorder
from tests.history.remains import record_remains
from tests.history.strikes import ON_FILES, ON_SERVERS, Strike, strikes
from tests.servers.postgres import Cluster
from towpath import connect
from towpath.errors import TransportUnavailable
from towpath.operating import SubscriptionStats

LOOK_SECONDS = 0.1
STATS_SECONDS = 2.0
NEARLY = 0.02  # of the deliveries still to come, when the storm may end
PROGRESS_SECONDS = 8.0  # that a strike waits for deliveries to end, at most
PATIENCE = 120.0  # seconds without any progress at the end, then what waits is stuck


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long the storm lasts: until so many strikes have fallen, and after them until all is published and nearly all
    is done, or the storm has raged for ``seconds``. Between two strikes is a pause of at most ``pause`` seconds, and
    so many ``deliveries`` end, where that does not take too long.
    """

    strikes: int
    pause: float
    deliveries: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Told:
    """What happened, for people."""

    strikes: Counter[str] = field(default_factory=Counter)
    storm_seconds: float = 0.0
    quiet_seconds: float = 0.0
    stats: list[SubscriptionStats] = field(default_factory=list)
    stubborn: int = 0


def run(
    plan: Plan, folder: Path, length: Length, cluster: Cluster | None = None, say: Callable[[str], None] = str
) -> Told:
    """Run ``plan`` on its database, which must have the tables, and leave its history in ``folder``.

    ``cluster`` is the server, when it may be restarted.
    """
    plan.save(folder)
    with connect(plan.url) as transport:
        transport.apply(plan.manifest())
        with _started(plan, folder) as members:
            storm = _Storm(plan, folder, transport, members, cluster)
            told = storm.rage(length, say)
            storm.calm(say)
            faults = [member.end() for member in members]
            told.stubborn = sum(member.stubborn for member in members)
            for text in filter(None, faults):
                storm.recorder.note("fault", text=text)
    record_remains(plan, folder)
    return told


@contextmanager
def _started(plan: Plan, folder: Path) -> Iterator[list[Member]]:
    """The members, all started; none is left at the end."""
    context = forking()

    def member(name: str, main: Callable[..., None], *arguments: Any) -> Member:
        by_itself = main is publishing.main
        return Member(
            name=name, main=main, arguments=arguments, folder=folder, context=context, ends_by_itself=by_itself
        )

    members = [member(f"worker{i}", working.main, f"worker{i}", n) for i, n in enumerate(plan.concurrency)]
    members += [member("holders", holding.main, "holders"), member("operator", operating.main, "operator")]
    members += [member(f"publisher{i}", publishing.main, i) for i in range(plan.publishers)]
    try:
        for member in members:
            member.start()
        yield members
    finally:
        for member in members:
            member.kill()


class _Storm:
    def __init__(
        self, plan: Plan, folder: Path, transport: DatabaseTransport, members: list[Member], cluster: Cluster | None
    ) -> None:
        self.recorder = Recorder(folder / "run.jsonl")
        self._plan = plan
        self._folder = folder
        self._transport = transport
        self._members = members
        self._cluster = cluster
        self._stalls: list[tuple[float, Member]] = []
        self._told = Told()
        self._looked_at = 0.0
        self._ended_before = 0

    def rage(self, length: Length, say: Callable[[str], None]) -> Told:
        """Strike until it has been long enough."""
        started = time.monotonic()
        weights = dict(ON_FILES if self._plan.is_sqlite else ON_SERVERS)
        if self._cluster is None:
            weights.pop("restart", None)
        for strike in strikes(self._plan.random("strikes"), weights, self._plan.lease_seconds):
            self._wait(strike.pause * length.pause, say)
            self._let_end(length.deliveries, say)
            raged = time.monotonic() - started
            if self._told.strikes.total() >= length.strikes and (raged >= length.seconds or self._is_nearly_done()):
                break
            self._strike(strike, say)
        self._told.storm_seconds = time.monotonic() - started
        return self._told

    def calm(self, say: Callable[[str], None]) -> None:
        """Let everything come to an end, for as long as that goes on."""
        started = progressed = time.monotonic()
        quiet(self._folder).touch()
        self._end_stalls(float("inf"))
        last: object = None
        while time.monotonic() - progressed < PATIENCE:
            self._wait(5 * LOOK_SECONDS, say)
            stats = self._stats()
            published = all(member.finished for member in self._members if member.ends_by_itself)
            if published and stats and not any(_is_left(row) for row in stats):
                break
            state = [(row.pending, row.leased, row.dead, row.completed, row.discarded) for row in stats or []]
            if stats and state != last:
                last, progressed = state, time.monotonic()
        self._told.quiet_seconds = time.monotonic() - started

    def _wait(self, seconds: float, say: Callable[[str], None]) -> None:
        """Wait, and see to the members meanwhile."""
        until = time.monotonic() + seconds
        while True:
            self._end_stalls(time.monotonic())
            for member in self._members:
                if fault := member.tend():
                    self.recorder.note("fault", text=fault)
            if time.monotonic() - self._looked_at > STATS_SECONDS:
                self._looked_at = time.monotonic()
                self._stats()
                say(self._progress())
            if (left := until - time.monotonic()) <= 0:
                return
            time.sleep(min(left, LOOK_SECONDS))

    def _let_end(self, deliveries: int, say: Callable[[str], None]) -> None:
        """Wait until so many more have ended since this was called last."""
        until = time.monotonic() + PROGRESS_SECONDS
        while (ended := self._ended()) < self._ended_before + deliveries and time.monotonic() < until:
            self._wait(LOOK_SECONDS, say)
        self._ended_before = ended

    def _ended(self) -> int:
        self._stats()
        return sum((row.completed or 0) + (row.discarded or 0) for row in self._told.stats)

    def _end_stalls(self, now: float) -> None:
        for at, member in [stall for stall in self._stalls if stall[0] <= now]:
            member.go_on()
            self._stalls.remove((at, member))

    def _stats(self) -> list[SubscriptionStats] | None:
        try:
            self._told.stats = self._transport.operator().stats()
        except TransportUnavailable:
            return None
        return self._told.stats

    def _progress(self) -> str:
        rows = [
            f"{row.subscription}: {row.pending} wait, {row.leased} held, {row.dead} dead, "
            f"{(row.completed or 0) + (row.discarded or 0)} ended"
            for row in self._told.stats
        ]
        return f"{self._told.strikes.total()} strikes; {'; '.join(rows)}"

    def _is_nearly_done(self) -> bool:
        stats = self._stats()
        if not stats or not all(member.finished for member in self._members if member.ends_by_itself):
            return False
        waiting = sum(row.pending + row.leased for row in stats)
        return waiting <= NEARLY * len(stats) * self._plan.messages

    # Strikes

    def _strike(self, strike: Strike, say: Callable[[str], None]) -> None:
        self._told.strikes[strike.kind] += 1
        self.recorder.note("strike", kind=strike.kind, share=strike.share, seconds=strike.seconds)
        match strike.kind:
            case "kill":
                self._chosen(strike, ("worker", "worker", "holders", "publisher"), say).kill()
            case "stall":
                member = self._chosen(strike, ("worker", "worker", "holders", "publisher"), say)
                member.stall()
                self._stalls.append((time.monotonic() + strike.seconds, member))
            case "drain":
                self._chosen(strike, ("worker",), say).drain()
            case "disconnect":
                self._disconnect(strike.share)
            case "restart":
                self._restart(strike)
            case "lock":
                self._lock(strike.seconds)

    def _chosen(self, strike: Strike, kinds: tuple[str, ...], say: Callable[[str], None]) -> Member:
        """Whom it strikes: one that is at work, which is waited for; where none of the kind is, a worker."""
        kind = kinds[int(strike.share * 997) % len(kinds)]
        while True:
            at_work = [member for member in self._members if member.is_at_work]
            chosen = [m for m in at_work if m.name.startswith(kind)]
            chosen = chosen or [m for m in at_work if m.name.startswith("worker")]
            if chosen:
                return chosen[int(strike.share * len(chosen))]
            self._wait(LOOK_SECONDS, say)

    def _disconnect(self, share: float) -> None:
        """Cut some of the connections, whatever they are doing."""
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND random() < %s"
        with psycopg.connect(self._plan.url, autocommit=True) as connection:
            connection.execute(f"{query} AND datname = current_database()", [0.2 + 0.8 * share])

    def _restart(self, strike: Strike) -> None:
        """Stop the server, half the time as a crash would, and start it after a while."""
        assert self._cluster is not None
        self._cluster.stop(signal.SIGQUIT if strike.share < 0.5 else signal.SIGINT)
        time.sleep(strike.seconds)
        self._cluster.start()

    def _lock(self, seconds: float) -> None:
        """Keep everybody from writing, as a slow transaction of somebody's would."""
        with closing(Database(self._plan.url)) as database, suppress(TransportUnavailable), database.writing():
            time.sleep(seconds)


def _is_left(row: SubscriptionStats) -> bool:
    """Whether something waits, or is held up for an operator."""
    return row.pending > 0 or row.leased > 0 or (row.subscription == "ordered" and row.dead > 0)
