"""The long run: ``python -m tests.history --database postgresql --seed 1 --messages 50000``.

Prints progress, a table and a line of JSON. Exits 1 when a promise was broken, with each violation told and the history
kept. ``--check FOLDER`` checks a history that was kept.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from local_transport.connections import Database
from local_transport.schema import upgrade
from tests.history.chaos import Length, Told, run
from tests.history.checking import check
from tests.history.events import read
from tests.history.plan import Plan
from tests.history.report import figures, table
from tests.servers.postgres import Cluster, fresh_database, own_cluster

SHOWN = 50  # violations


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.history", description="A chaos run and its checks.")
    parser.add_argument("--database", choices=["postgresql", "sqlite"], default="postgresql")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="default: a random one")
    parser.add_argument("--messages", type=int, default=50_000, help="each goes to three subscriptions")
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--lease", type=int, default=3, help="seconds of a lease")
    parser.add_argument("--minutes", type=float, default=60, help="the storm ends after so many at the latest")
    parser.add_argument("--strikes", type=int, default=30, help="so many at least")
    parser.add_argument("--pause", type=float, default=8.0, help="seconds between two strikes, at most")
    parser.add_argument("--keep", action="store_true", help="keep the history of a good run too")
    parser.add_argument("--check", type=Path, help="check the history in this folder instead of running")
    options = parser.parse_args()
    if options.check is not None:
        return _judged(options.check, Plan.of(options.check), Told())
    folder = Path(tempfile.mkdtemp(prefix="towpath-history-"))
    print(f"seed {options.seed}, history in {folder}", flush=True)
    with _database(options.database, folder) as (url, cluster):
        plan = Plan(
            url=url,
            seed=options.seed,
            messages=options.messages,
            keys=options.keys,
            lease_seconds=options.lease,
        )
        length = Length(strikes=options.strikes, pause=options.pause, seconds=options.minutes * 60)
        told = run(plan, folder, length, cluster, _Progress().say)
    code = _judged(folder, plan, told)
    if code == 0 and not options.keep:
        shutil.rmtree(folder)
    return code


def _judged(folder: Path, plan: Plan, told: Told) -> int:
    history = read(folder)
    violations = check(history)
    facts = figures(plan, told, history, violations)
    print(table(facts))
    print(json.dumps(facts))
    for violation in violations[:SHOWN]:
        print(violation, file=sys.stderr)
    if violations:
        print(f"{len(violations)} violations; the history is in {folder}", file=sys.stderr)
    return 1 if violations else 0


@contextmanager
def _database(kind: str, folder: Path) -> Iterator[tuple[str, Cluster | None]]:
    """A new database with the tables, on a server of our own that may be restarted."""
    if kind == "sqlite":
        url = f"sqlite:///{folder / 'towpath.db'}?synchronous=NORMAL"  # a kill is no power cut
        _make_tables(url)
        yield url, None
        return
    with own_cluster(("-cmax_connections=300",)) as cluster, fresh_database(cluster.url) as url:
        _make_tables(url)
        yield url, cluster


def _make_tables(url: str) -> None:
    with closing(Database(url)) as database:
        upgrade(database)


class _Progress:
    """A line every ten seconds."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._said_at = 0.0

    def say(self, text: str) -> None:
        now = time.monotonic()
        if now - self._said_at > 10:
            self._said_at = now
            print(f"{now - self._started:6.0f} s  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
