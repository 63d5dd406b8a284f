"""``towpath demo``: the main path on real documents - a worker on SQLite, then the same handler in a Lambda zip."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Protocol, TypeAlias, cast

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from towpath.cli.output import JsonFlag, print_failure, print_json, print_sentence, print_table, stderr
from towpath.envelope import Prepared, Sources, prepare
from towpath.errors import TowpathError, Unsupported
from towpath.limits import MAX_MESSAGE_BYTES
from towpath.manifest import Manifest
from towpath.message import JsonValue, NewMessage, PayloadRef, new_message_id, utc_now
from towpath.ports import Transport
from towpath.resolve import resolve, with_all_on_database
from towpath.topology import load_topology
from towpath.transports import TopologyStore, connect
from towpath.worker import Worker, WorkerOptions

_TOPIC = "documents.process"
_SUBSCRIPTION = "documents.convert"
_RESULTS = "QUICKSTART_RESULTS"  # the variable that tells the quickstart's handler where to write
_REHEARSED_FAILURES = 2
_LABELS = {"retried": "retried on purpose", "seconds": "seconds for all, without bundling"}

Folder: TypeAlias = Annotated[
    Path | None, typer.Argument(help="A folder of text files; default: the quickstart's documents.", show_default=False)
]
Project: TypeAlias = Annotated[
    Path | None, typer.Option("--project", help="The quickstart's folder, when it is not beside the package.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter, as both runs must agree on it."""

    document: str
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run over all messages came to. ``results`` is what the handler wrote, by document."""

    completed: int
    retried: int
    dead_letters: tuple[Letter, ...]
    results: Mapping[str, JsonValue]
    seconds: float

    def same_as(self, other: Run) -> bool:
        """Whether both runs gave the same results and the same failures."""
        return (self.results, self.dead_letters, self.retried) == (other.results, other.dead_letters, other.retried)


class Rehearsed(Protocol):
    """What became of messages that were fed to a function."""

    @property
    def completed(self) -> int:
        """How many it completed."""

    @property
    def retried(self) -> int:
        """How many attempts came again."""

    @property
    def dead_letters(self) -> Iterable[tuple[str, str, int]]:
        """The dead letters: body, reason, attempts."""


class ZipHarness(Protocol):
    """Bundles a handler and runs the zip; found by entry point, so that the command line imports no adapter."""

    def build(self, project: Path, manifest: Manifest, subscription: str, output: Path) -> Path:
        """Bundle the subscription's handler for this machine; answers the zip."""

    def rehearse(
        self,
        zip_path: Path,
        manifest: Manifest,
        bodies: Sequence[str],
        environment: Mapping[str, str],
        settled: Callable[[int], None],
    ) -> Rehearsed:
        """Feed ``bodies`` as SQS events to the zip under AWS's runtime client until each is settled."""


def demo(folder: Folder = None, *, project: Project = None, as_json: JsonFlag = False) -> None:
    """Publish a folder of text files and watch them being summarised, on SQLite and in a Lambda zip.

    One file fails twice before it succeeds, and one is damaged and ends as a dead letter. The results of both runs are
    compared.

    Example: towpath demo
    """
    quickstart = _quickstart(project)
    documents = _documents(folder or quickstart / "documents")
    work = Path(tempfile.mkdtemp(prefix="towpath-demo-"))
    damaged = _damaged_copy(documents[0], work)
    messages = _messages([*documents, damaged])
    logging.getLogger("towpath").setLevel(logging.CRITICAL)  # failures are shown in the tables at the end
    sys.path.insert(0, str(quickstart))
    database = _run_on_database(quickstart, messages, work, shown=not as_json)
    zipped = _run_in_zip(quickstart, messages, work, shown=not as_json)
    purpose = f"{documents[0].name} failed twice on purpose and then succeeded; {damaged.name} is broken on purpose."
    _report(database, zipped, work, purpose, as_json=as_json)
    if not database.same_as(zipped):
        print_failure(f"the two runs differ; compare the results under {work}")
        raise typer.Exit(1)


def _quickstart(project: Path | None) -> Path:
    quickstart = project or Path(__file__).parents[2] / "examples" / "quickstart"
    if not (quickstart / "topology.toml").is_file():
        raise Unsupported(
            f"there is no quickstart in {quickstart}; it comes with a clone of Towpath: say where with --project"
        )
    return quickstart.resolve()


def _documents(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    if not found:
        raise typer.BadParameter(f"there are no files in {folder}")
    return found


def _damaged_copy(document: Path, work: Path) -> Path:
    """The first half of a document, and then a byte that no UTF-8 text has."""
    content = document.read_bytes()
    damaged = work / f"damaged-{document.name}"
    damaged.write_bytes(content[: len(content) // 2] + b"\xff")
    return damaged


def _messages(documents: Sequence[Path]) -> list[NewMessage]:
    """One message for each document, with a claim check to it; the first rehearses failures."""
    ordinary: dict[str, str | float] = {"kind": "text"}
    first = ordinary | {"rehearse_failures": _REHEARSED_FAILURES}
    return [
        NewMessage(
            id=new_message_id(utc_now(), os.urandom),
            payload_ref=PayloadRef.for_file(path),
            attributes=first if i == 0 else ordinary,
        )
        for i, path in enumerate(documents)
    ]


# --- The worker on SQLite --------------------------------------------------------------------------------------


def _run_on_database(quickstart: Path, messages: Sequence[NewMessage], work: Path, *, shown: bool) -> Run:
    started = time.monotonic()
    results = work / "results-sqlite"
    os.environ[_RESULTS] = str(results)
    transport = connect(f"sqlite:///{work / 'demo.db'}")
    try:
        cast(TopologyStore, transport).apply(_manifest(quickstart, on_database=True))
        _publish(transport, messages)
        with _progress("SQLite worker", len(messages), shown=shown) as advance:
            retried = _work_until_settled(transport, len(messages), advance)
        letters = transport.operator().dead_letters(_SUBSCRIPTION, len(messages))
        return Run(
            completed=len(messages) - len(letters),
            retried=retried,
            dead_letters=_letters((letter.body, letter.reason, letter.attempts) for letter in letters),
            results=_written(results),
            seconds=time.monotonic() - started,
        )
    finally:
        transport.close()


def _manifest(quickstart: Path, *, on_database: bool) -> Manifest:
    topology = load_topology(quickstart / "topology.toml")
    return resolve(with_all_on_database(topology) if on_database else topology, "demo")


def _publish(transport: Transport, messages: Sequence[NewMessage]) -> None:
    for result in transport.publish(_TOPIC, messages):
        if result.error is not None:
            raise TowpathError(f"{result.error.code}: {result.error.message}")


def _work_until_settled(transport: Transport, messages: int, advance: Callable[[int], None]) -> int:
    """Work until nothing is open; answers how many attempts were retried."""
    worker = Worker(transport, [_SUBSCRIPTION], WorkerOptions(concurrency=4))
    running = threading.Thread(target=worker.run, daemon=True)
    running.start()
    settled = 0
    while settled < messages and running.is_alive():
        time.sleep(0.05)
        (stats,) = transport.operator().stats()
        now = messages - stats.pending - stats.leased
        advance(now - settled)
        settled = now
    worker.stop()
    running.join()
    return worker.counts.states.get("retried", 0)


# --- The zip under AWS's runtime client ------------------------------------------------------------------------


def _run_in_zip(quickstart: Path, messages: Sequence[NewMessage], work: Path, *, shown: bool) -> Run:
    harness = _zip_harness()
    manifest = _manifest(quickstart, on_database=False)
    if shown:
        stderr().print("bundling the handler ...")
    zip_path = harness.build(quickstart, manifest, _SUBSCRIPTION, work / "dist")
    started = time.monotonic()
    results = work / "results-lambda"
    with _progress("Lambda zip", len(messages), shown=shown) as advance:
        rehearsed = harness.rehearse(zip_path, manifest, _bodies(messages), {_RESULTS: str(results)}, advance)
    return Run(
        completed=rehearsed.completed,
        retried=rehearsed.retried,
        dead_letters=_letters(rehearsed.dead_letters),
        results=_written(results),
        seconds=time.monotonic() - started,
    )


def _zip_harness() -> ZipHarness:
    found = entry_points(group="towpath.harnesses", name="zip")
    try:
        return cast(ZipHarness, next(iter(found)).load())
    except (StopIteration, ModuleNotFoundError) as error:
        raise Unsupported("the demo bundles a Lambda zip: install towpath[bundling,lambda]") from error


def _bodies(messages: Sequence[NewMessage]) -> list[str]:
    """The envelopes that SNS would deliver to the queue."""
    sources = Sources(clock=utc_now, random_bytes=os.urandom)
    prepared = [prepare(_TOPIC, message, MAX_MESSAGE_BYTES, sources) for message in messages]
    return [envelope.body for envelope in prepared if isinstance(envelope, Prepared)]


# --- What is shown ---------------------------------------------------------------------------------------------


def _letters(found: Iterable[tuple[str, str, int]]) -> tuple[Letter, ...]:
    letters = [
        Letter(document=Path(json.loads(body)["payload_ref"]["uri"]).name, reason=reason, attempts=attempts)
        for body, reason, attempts in found
    ]
    return tuple(sorted(letters, key=lambda letter: letter.document))


def _written(results: Path) -> dict[str, JsonValue]:
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))}


@contextmanager
def _progress(what: str, total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error; gives what moves it on."""
    if not shown:
        yield lambda _: None
        return
    columns = (TextColumn(f"{what:<14}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr()) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda count: progress.advance(bar, count)


def _report(database: Run, zipped: Run, work: Path, purpose: str, *, as_json: bool) -> None:
    same = database.same_as(zipped)
    if as_json:
        print_json({"same": same, "sqlite": _run_json(database), "lambda": _run_json(zipped), "folder": str(work)})
        return
    print_table(("", "SQLite worker", "Lambda zip"), _rows(database, zipped), title="What the two runs came to")
    failures = ((letter.document, letter.attempts, letter.reason) for letter in database.dead_letters)
    print_table(("document", "attempts", "reason"), failures, title="Dead letters")
    verdict = "the same results and the same failures" if same else "different results"
    print_sentence(f"Both runs: {verdict}. The results are in {work}, which stays until you remove it.")
    print_sentence(purpose)
    if same:
        print_sentence("Next: README, 'The quickstart by hand'.")


def _rows(database: Run, zipped: Run) -> Iterator[tuple[str, object, object]]:
    theirs = _figures(zipped)
    return ((_LABELS.get(name, name), figure, theirs[name]) for name, figure in _figures(database).items())


def _run_json(run: Run) -> dict[str, JsonValue]:
    figures = {name.replace(" ", "_"): figure for name, figure in _figures(run).items()}
    return figures | {"dead_letters": [asdict(letter) for letter in run.dead_letters]}


def _figures(run: Run) -> dict[str, float]:
    summaries = list(run.results.values())
    return {
        "messages": run.completed + len(run.dead_letters),
        "completed": run.completed,
        "retried": run.retried,
        "dead letters": len(run.dead_letters),
        "words": sum(summary["words"] for summary in summaries),
        "headings": sum(len(summary["headings"]) for summary in summaries),
        "links": sum(len(summary["links"]) for summary in summaries),
        "seconds": round(run.seconds, 1),
    }
