"""What a claim costs with 1,000 and with 1,000,000 waiting deliveries, of 10 to 100,000 keys, free and 99 % blocked.

    make scale
    python -m benchmarks.scale --json figures.json [--plot figures.svg] [--quick] [--minutes 30]

Prints a table. Everything goes through the consumer that a worker uses: batches of 50 are claimed, the same number is
published to the same keys, so that the backlog stays, and the batch is completed. In brackets is how many times as
much that costs as with 1,000 deliveries, 10 or 1,000 keys and nothing blocked, measured in turn with it. Durability is
on. Figures are written after every case, and a case whose figures are in the file is not measured again: what was
interrupted, or ran out of its minutes, goes on.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.crowd import MODES, Crowd, Filling, key, prepare
from benchmarks.plot import scatter
from local_transport.lanes import lane_of
from local_transport.looks import Look
from tests.servers.postgres import fresh_database, private_cluster
from towpath import NewMessage, connect
from towpath.settlement import Completion, Settled

NOW = timedelta(0)
BATCH = 50
WARM = 12  # that do not count: the server plans a prepared statement anew until the tenth time or so
ROUNDS, POLLS = 3 * WARM, 100
SMALL = 1_000
DATABASES = ("postgresql", "sqlite")
BACKLOGS, KEYS = (1_000, 100_000, 1_000_000), (10, 1_000, 10_000, 100_000)
QUICK_BACKLOGS, QUICK_KEYS = (SMALL, 5_000), (10, 1_000)


def crowds(kind, backlogs, keys):
    """All of one database, those with few deliveries first."""
    for backlog in backlogs:
        for mode in MODES:
            for count in (1,) if mode == "none" else [count for count in keys if count <= backlog]:
                for blocked in (False, True):
                    if not blocked or (count > 10 if mode != "none" else backlog > SMALL):
                        yield _crowd(kind, mode, backlog, count, blocked)


def _crowd(kind, mode, backlog, keys, blocked):
    # Without partitions a "key" is no more than a share of the deliveries: one in a hundred is free.
    shares = 100 if mode == "none" and blocked else keys
    return Crowd(database=kind, mode=mode, backlog=backlog, keys=shares, blocked=blocked)


# --- One case ----------------------------------------------------------------------------------------------------


def measured(urls, crowd, seconds):
    """The figures of one crowd, and how many times as much it costs as a small one of the same batches.

    The two are measured in turn, batch for batch, each in a database of its own: what else runs on the machine slows
    both. Times are medians, in milliseconds; rates are for one second. ``pages`` are those of tables and indexes that
    a round reads, publishing included, whatever else runs.
    """
    with ExitStack() as ended:
        began = time.monotonic()
        large, small = (
            ended.enter_context(Place(url, one)) for url, one in zip(urls, (crowd, alike(crowd)), strict=True)
        )
        filled = time.monotonic() - began
        began = time.monotonic()
        while len(large.counts) < ROUNDS or time.monotonic() - began < seconds:
            large.round()
            small.round()
        for place in (large, small):
            place.let_nothing_be_due()
        for _ in range(POLLS):
            large.poll()
            small.poll()
        found, least = large.figures(), small.figures()
    compared = {f"{name}_factor": found[f"{name}_ms"] / least[f"{name}_ms"] for name in ("claim", "settle", "idle")}
    compared["pages_factor"] = found["pages"] / least["pages"] if least["pages"] else None
    return {**found, **compared, "small": least, "filled_in": filled, "load": os.getloadavg()[0]}


def alike(crowd):
    """A small crowd whose batches are as large."""
    keys = 1 if crowd.mode == "none" else SMALL if crowd.free >= BATCH else crowd.free
    return replace(crowd, backlog=SMALL, keys=keys, blocked=False)


class Place:
    """A crowd in a database of its own, and what was measured there."""

    def __init__(self, url, crowd):
        self._crowd = crowd
        self._transport = connect(url)
        self.filling = Filling(url)
        self._keys = {str(lane_of(key(number))): key(number) for number in range(crowd.free)}
        self.counts, self._times = [], {"claim": [], "settle": [], "idle": [], "look": []}
        self._pages = 0

    def __enter__(self):
        self.filling.fill(self._crowd)
        self._consumer = self._transport.consumer(self._crowd.mode)
        self._look = Look(self._transport._database)
        self._pages = self.filling.pages_read()
        return self

    def __exit__(self, *_):
        self._transport.close()
        self.filling.close()

    def round(self):
        """Claim a batch, publish as many to the same keys, complete the batch."""
        held = self._timed("claim", lambda: self._consumer.receive(BATCH, NOW))
        assert held, f"{self._crowd.name}: nothing was due"
        lanes = [one.lease_token.partition(".")[2] for one in held]
        new = [NewMessage(payload="x" * 80, partition_key=self._keys.get(lane)) for lane in lanes]
        assert {result.status for result in self._transport.publish(self._crowd.mode, new)} == {"accepted"}
        batch = [Completion(delivery=one) for one in held]
        answers = self._timed("settle", lambda: self._consumer.complete(batch))
        assert {type(answer) for answer in answers} == {Settled}
        self.counts.append(len(held))

    def let_nothing_be_due(self):
        """The rounds are over; what they have read is counted when their connections end."""
        self._transport._database.engine.dispose()
        time.sleep(0.1)
        self._pages = (self.filling.pages_read() - self._pages) / len(self.counts)
        self.filling.let_nothing_be_due()

    def poll(self):
        """A claim that finds nothing, and the look that all share who wait."""
        assert self._timed("idle", lambda: self._consumer.receive(BATCH, NOW)) == []
        self._timed("look", lambda: self._look.take([self._consumer._applied.id]))

    def figures(self):
        """What was measured, but for the first rounds."""
        times = {name: statistics.median(taken[WARM:]) for name, taken in self._times.items()}
        batch = statistics.median(self.counts)
        rates = {"claims": batch / times["claim"], "deliveries": batch / (times["claim"] + times["settle"])}
        return {
            "batch": batch,
            "pages": self._pages,
            **{f"{name}_ms": 1_000 * taken for name, taken in times.items()},
            **rates,
        }

    def _timed(self, name, act):
        start = time.perf_counter()
        answer = act()
        self._times[name].append(time.perf_counter() - start)
        return answer


# --- All ---------------------------------------------------------------------------------------------------------


def run(options, console):
    """The figures of all crowds by name, those from before included."""
    found = _from_before(options.json)
    deadline = time.monotonic() + 60 * options.minutes
    sizes = (QUICK_BACKLOGS, QUICK_KEYS) if options.quick else (options.backlogs, options.keys)
    seconds = 0.2 if options.quick else options.seconds
    with ExitStack() as ended:
        for kind in options.databases:
            missing = [c for c in crowds(kind, *sizes) if c.name not in found and c.mode in options.modes]
            if not missing:
                continue
            urls = [_made(kind, ended) for _ in range(2)]
            for url in urls:
                prepare(url)
            for crowd in missing:
                if time.monotonic() > deadline:
                    console.print("out of time; run it again with the same file to go on")
                    return found
                found[crowd.name] = _described(crowd) | measured(urls, crowd, seconds)
                console.print(f"{crowd.name}: {_told(found[crowd.name])}")
                if options.json:
                    options.json.write_text(json.dumps(found, indent=1) + "\n")
    return found


def _from_before(file):
    return json.loads(file.read_text()) if file is not None and file.exists() else {}


def _made(kind, ended):
    if kind == "sqlite":
        return f"sqlite:///{ended.enter_context(tempfile.TemporaryDirectory())}/scale.db"
    return ended.enter_context(fresh_database(ended.enter_context(private_cluster())))


def _described(crowd):
    names = ("database", "mode", "backlog", "keys", "blocked", "free")
    return {name: getattr(crowd, name) for name in names}


def _told(figures):
    return (
        f"claim {figures['claim_ms']:.2f} ms of {figures['batch']:.0f} (x {figures['claim_factor']:.2f}), settle "
        f"{figures['settle_ms']:.2f} ms (x {figures['settle_factor']:.2f}), idle {figures['idle_ms']:.2f} ms "
        f"(x {figures['idle_factor']:.2f}), look {figures['look_ms']:.2f} ms; "
        f"{figures['pages']:,.0f} pages; {figures['claims']:,.0f} claims/s; "
        f"filled in {figures['filled_in']:.0f} s, load {figures['load']:.1f}"
    )


def table(found):
    """All figures."""
    names = ("claim", "settle", "idle")
    titles = (*(f"{name} ms (x)" for name in names), "look ms", "pages (x)", "claims/s")
    drawn = Table("", "mode", "backlog", "keys", "due", *titles)
    for one in found.values():
        keys = "" if one["mode"] == "none" else f"{one['keys']:,}"
        cells = [f"{one['backlog']:,}", keys, "1 %" if one["blocked"] else "all"]
        cells += [f"{one[f'{name}_ms']:.2f} ({one[f'{name}_factor']:.2f})" for name in names]
        pages = f"{one['pages']:,.0f} ({one['pages_factor']:.2f})" if one["pages_factor"] else ""
        drawn.add_row(one["database"], one["mode"], *cells, f"{one['look_ms']:.2f}", pages, f"{one['claims']:,.0f}")
    return drawn


def drawn(found):
    """Claim cost against the backlog, a panel for each database and mode, a line for each number of keys."""
    panels = {}
    for one in found.values():
        lines = panels.setdefault(f"{one['database']}, {one['mode']}", {})
        of_keys = "" if one["mode"] == "none" else f"{one['keys']:,} keys"
        label = ", ".join(part for part in (of_keys, "99 % blocked" if one["blocked"] else "") if part) or "all due"
        lines.setdefault(label, []).append((one["backlog"], one["claim_factor"]))
    return scatter(panels, x="waiting deliveries", y="cost of a claim: 1 is with 1,000 waiting and none blocked")


def arguments():
    """What can be asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, help="where the figures are, and are written to")
    options.add_argument("--plot", type=Path, help="where to write a plot of them, as SVG")
    options.add_argument("--quick", action="store_true", help="few and small cases, to try it out")
    options.add_argument("--seconds", type=float, default=2.0, help="for each case")
    options.add_argument("--minutes", type=float, default=60.0, help="no further case is begun after so many")
    options.add_argument("--databases", nargs="*", default=list(DATABASES), choices=list(DATABASES))
    options.add_argument("--backlogs", nargs="*", type=int, default=BACKLOGS)
    options.add_argument("--keys", nargs="*", type=int, default=KEYS)
    options.add_argument("--modes", nargs="*", default=list(MODES), choices=list(MODES))
    return options


def main():
    chosen = arguments().parse_args()
    found = run(chosen, Console(stderr=True))
    Console(width=140).print(table(found))
    if chosen.plot:
        chosen.plot.write_text(drawn(found))


if __name__ == "__main__":
    main()
