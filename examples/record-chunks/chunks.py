"""Converts the customers of a file, chunk by chunk.

``python chunks.py customers.csv monday`` publishes the chunks of a run. Each is worked through by ``convert``, which
goes on where an earlier attempt stopped, gives up when too many records are bad, and tells its result; ``report``
gathers those of a run. What they write goes into the folder that the variable ``RESULTS`` names.
"""

import csv
import json
import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import towpath
from towpath import Complete, Context, FatalError, Message, NewMessage, Outcome, TransientError
from towpath.message import JsonValue

CHUNK_SIZE = 100  # ids of one message: some seconds of work, so that a worker that stops loses little
MOST_BAD = 10  # of a chunk; so many have one cause, and a person should look before the rest is tried
HEARTBEAT_EVERY = 20  # records


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some records of a run: chunk ``number`` of ``of``, from 1."""

    run: str
    source: str
    number: int
    of: int
    ids: list[str]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of a chunk. ``bad`` says of each record that could not be converted why; ``gave_up`` that there were
    too many of them.
    """

    run: str
    number: int
    of: int
    converted: int
    bad: dict[str, str] = field(default_factory=dict)
    gave_up: bool = False


class BadRecord(Exception):
    """This record can never be converted; the others can."""


# --- The producer ------------------------------------------------------------------------------------------------


def chunks_of(source: Path, run: str) -> Iterator[NewMessage]:
    """The messages of a run. Published twice, each chunk is there once: by its deduplication key."""
    ids = list(records(source))
    parts = [ids[start : start + CHUNK_SIZE] for start in range(0, len(ids), CHUNK_SIZE)]
    for number, part in enumerate(parts, 1):
        chunk = Chunk(run=run, source=str(source.resolve()), number=number, of=len(parts), ids=part)
        yield NewMessage(payload=asdict(chunk), deduplication_key=f"{run}-{number}", correlation_id=run)


def main(source: str, run: str) -> None:
    """Publish the chunks of a run, and say so."""
    with towpath.connect(os.environ["TOWPATH_TRANSPORT"]) as transport:
        results = transport.publish("run.chunk", list(chunks_of(Path(source), run)))
    rejected = [result.error.message for result in results if result.error is not None]
    if rejected:
        sys.exit(f"{len(rejected)} of {len(results)} chunks are not published: {rejected[0]}; run it again")
    sys.stdout.write(f"run {run}: {len(results)} chunks\n")


# --- A chunk -----------------------------------------------------------------------------------------------------


def convert(message: Message[Chunk], context: Context) -> Outcome:
    """Convert the chunk's records, one after another, from where an earlier attempt stopped.

    Each record's file is written whole and under its own name, so that to convert a record again does no harm: it
    happens to those after the last heartbeat, and to all where a transport keeps no checkpoints (AWS).
    """
    chunk = message.payload
    known = records(Path(chunk.source))
    start, bad = resumed(context.checkpoint)
    for done, record_id in enumerate(chunk.ids[start:], start):
        context.check()  # shutting down, cancelled, or another worker's by now
        if done % HEARTBEAT_EVERY == 0:
            context.heartbeat(
                percent=100 * done / len(chunk.ids),
                note=f"{done} of {len(chunk.ids)}, {len(bad)} bad",
                checkpoint={"done": done, "bad": bad},
            )
        try:
            convert_record(chunk.run, record_id, known)
        except BadRecord as error:
            bad[record_id] = str(error)
        if len(bad) > MOST_BAD:
            tell(Result(**of(chunk), converted=done + 1 - len(bad), bad=bad, gave_up=True), message, context)
            raise FatalError(f"more than {MOST_BAD} records are bad, the first {next(iter(bad))}")
    tell(Result(**of(chunk), converted=len(chunk.ids) - len(bad), bad=bad), message, context)
    return Complete()


def resumed(checkpoint: JsonValue) -> tuple[int, dict[str, str]]:
    """How many records are done, and which of them were bad."""
    return (checkpoint["done"], dict(checkpoint["bad"])) if checkpoint else (0, {})


def convert_record(run: str, record_id: str, known: dict[str, dict[str, str]]) -> None:
    """Write the customer as JSON. What only may pass, such as a disk that is full, is raised: the chunk comes again."""
    customer = known.get(record_id)
    if customer is None:
        raise BadRecord("is not in the file")
    name, at, domain = customer["email"].strip().lower().partition("@")
    if not (name and at and "." in domain):
        raise BadRecord("has no e-mail address")
    write(folder(run) / f"{record_id}.json", {"id": record_id, "email": f"{name}@{domain}"})


def tell(result: Result, message: Message[Any], context: Context) -> None:
    """Publish the chunk's result. Its id follows from the chunk's and from what it says, so that an attempt that comes
    again tells the same result once, and a replay tells what changed.
    """
    payload = asdict(result)
    result_id = str(uuid.uuid5(uuid.UUID(message.id), json.dumps(payload, sort_keys=True)))
    (told,) = context.publish("run.result", NewMessage(id=result_id, payload=payload, partition_key=result.run))
    if told.error is not None:
        raise TransientError(f"the result is not published: {told.error.message}")


def of(chunk: Chunk) -> dict[str, Any]:
    """What a result says of its chunk."""
    return {"run": chunk.run, "number": chunk.number, "of": chunk.of}


# --- The report --------------------------------------------------------------------------------------------------


def report(message: Message[Result], context: Context) -> None:
    """Add a chunk's result to its run's report, once, and say when the run is complete.

    Results of a run come one at a time (``exclusive``), so the file needs no lock. A result that comes again, or
    comes of a replay, takes its own place again.
    """
    result = message.payload
    file = folder(result.run) / "report.json"
    results = json.loads(file.read_text())["results"] if file.exists() else {}
    results[str(result.number)] = asdict(result)
    told = summary(result.run, result.of, list(results.values()))
    write(file, {**told, "results": results})
    if told["complete"]:
        context.log.info("run %s is complete: %d converted, %d bad", result.run, told["converted"], told["bad"])


def summary(run: str, of: int, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How the run stands."""
    return {
        "run": run,
        "complete": len(results) == of,
        "chunks": of,
        "gave_up": sum(result["gave_up"] for result in results),
        "converted": sum(result["converted"] for result in results),
        "bad": sum(len(result["bad"]) for result in results),
    }


# --- Files -------------------------------------------------------------------------------------------------------


def records(source: Path) -> dict[str, dict[str, str]]:
    """The customers of a CSV file by their ids, in the order of the file."""
    with source.open(newline="", encoding="utf-8") as lines:
        return {row["id"]: row for row in csv.DictReader(lines)}


def folder(run: str) -> Path:
    """Where a run's files lie."""
    return Path(os.environ.get("RESULTS", "results"), run)


def write(file: Path, content: JsonValue) -> None:
    """Put the file in its place in one step, whatever happens meanwhile."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.draft")
    draft.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
