"""What holds for every topology, and for everything that is none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.fakes.topologies import Document, json_texts, spoilt, toml_texts, topologies
from towpath.errors import InvalidTopology, Mistake
from towpath.manifest import Manifest, Queue
from towpath.resolve import resolve
from towpath.resolve.foresight import foresee
from towpath.topology import load_topology, parse_topology, read_topology, topology_schema, warnings_of

GOLDEN = Path(__file__).parent / "golden"
WRITTEN = (GOLDEN / "everything.toml").read_text(encoding="utf-8")
IN_JSON = json.dumps(
    {
        "name": "shop",
        "topics": {"orders": {"fair": True}, "ledger": {"transport": "database"}},
        "subscriptions": {
            "ship": {"topic": "orders", "handler": "a:b", "filter": {"kind": ["pdf", {"exists": False}]}}
        },
    },
    indent=1,
)

SCHEMA = Draft202012Validator(topology_schema())

File = Callable[[str, str], Path]


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> File:
    """Writes a text to the file of this name."""
    folder = tmp_path_factory.mktemp("topologies")

    def write(text: str, name: str) -> Path:
        (folder / name).write_bytes(text.encode())
        return folder / name

    return write


def mistakes_of(document: Document) -> tuple[Mistake, ...]:
    try:
        parse_topology(document)
    except InvalidTopology as error:
        return error.mistakes
    return ()


def mistakes_in(file: Path) -> tuple[Mistake, ...]:
    try:
        load_topology(file)
    except InvalidTopology as error:
        return error.mistakes
    return ()


# --- What is wrong is refused, and in no other way ---------------------------------------------------------------


@given(spoilt())
def test_whatever_a_document_holds_it_is_a_topology_or_is_refused_with_its_mistakes(document: Document) -> None:
    mistakes = mistakes_of(document)
    assert len(set(mistakes)) == len(mistakes)
    for mistake in mistakes:
        assert mistake.problem
        str(mistake).encode("utf-8")
        assert len(mistake.problem) < 1_000
    if not mistakes:
        topology = parse_topology(document)
        assert all(warning.path for warning in warnings_of(topology))
        assert all(mistake.path for mistake in foresee(topology).mistakes)
        assert [error.message for error in SCHEMA.iter_errors(document)] == []


@given(written=st.sampled_from([("t.toml", WRITTEN), ("t.json", IN_JSON)]).flatmap(lambda sound: _marred(*sound)))
@example(written=("t.toml", ""))
@example(written=("t.json", "{}"))
def test_whatever_a_file_holds_its_mistakes_are_on_lines_of_it(written: tuple[str, str], file: File) -> None:
    name, text = written
    mistakes = mistakes_in(file(text, name))
    assert all(mistake.line is None or 1 <= mistake.line <= text.count("\n") + 1 for mistake in mistakes)
    assert all(mistake.line is not None for mistake in mistakes if mistake.path)
    "".join(map(str, mistakes)).encode("utf-8")


@st.composite
def _marred(draw: st.DrawFn, name: str, text: str) -> tuple[str, str]:
    """A file's name, and its text with a few letters or lines taken out, doubled, or put where they do not belong."""
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            lines = text.split("\n")
            at = draw(st.integers(0, len(lines) - 1))
            lines[at : at + 1] = draw(st.sampled_from([[], [lines[at]] * 2, [lines[-at]]]))
            text = "\n".join(lines)
        else:
            at = draw(st.integers(0, max(0, len(text) - 1)))
            text = text[:at] + draw(st.sampled_from([*"[]{}=:.,\"'#\n\\\r\x00é0", "", '"""'])) + text[at + 1 :]
    return name, text


# --- Lines -------------------------------------------------------------------------------------------------------


@given(written=toml_texts(topologies()))
def test_toml_that_says_it_in_any_way_gives_the_same_topology_and_the_line_of_every_key(
    written: tuple[Document, str, dict[Any, int]], file: File
) -> None:
    document, text, lines = written
    read = read_topology(file(text, "written.toml"))
    assert read.topology == parse_topology(document)
    assert {path: read.line_of(told(path)) for path in lines} == lines


@given(written=json_texts(topologies()))
def test_json_with_blanks_anywhere_gives_the_same_topology_and_the_line_of_every_key(
    written: tuple[Document, str, dict[Any, int]], file: File
) -> None:
    document, text, lines = written
    read = read_topology(file(text, "written.json"))
    assert read.topology == parse_topology(document)
    assert {path: read.line_of(told(path)) for path in lines} == lines


def told(path: tuple[str | int, ...]) -> str:
    steps = [
        f"[{key}]" if isinstance(key, int) else f'."{key}"' if "." in key or not key else f".{key}" for key in path
    ]
    return "".join(steps).removeprefix(".")


# --- What is accepted can be deployed ----------------------------------------------------------------------------


@given(topologies())
def test_a_topology_that_keeps_the_rules_is_accepted_comes_back_equal_and_is_valid_under_the_schema(
    document: Document,
) -> None:
    topology = parse_topology(document)
    assert parse_topology(topology.model_dump(by_alias=True)) == topology
    assert parse_topology(topology.model_dump(by_alias=True, exclude_unset=True)) == topology
    assert [error.message for error in SCHEMA.iter_errors(document)] == []


@given(topologies())
def test_what_is_accepted_becomes_what_aws_takes(document: Document) -> None:
    topology = parse_topology(document)
    if foresee(topology, ["prod"]).mistakes:
        return
    manifest = resolve(topology, "prod")
    _check_mappings(manifest)
    for subscription in manifest.subscriptions.values():
        if subscription.aws is None:
            assert subscription.host == "worker"
            continue
        own, dead, failed = (
            subscription.aws.queue,
            subscription.aws.dead_letter_queue,
            subscription.aws.delivery_failure_queue,
        )
        for queue in (own, dead, failed):
            _check_queue(queue)
        topic = manifest.topics[subscription.topic].aws
        assert topic is not None
        assert own.fifo == dead.fifo
        assert failed.fifo == topic.fifo
        assert topic.fifo or not own.fifo  # SNS refuses a FIFO queue on a standard topic
        assert not (topic.fifo and topic.fair)
        assert subscription.partition_mode != "ordered"


def _check_queue(queue: Queue) -> None:
    """Amazon SQS API reference, SetQueueAttributes and CreateQueue."""
    assert 0 <= queue.visibility_timeout_seconds <= 43_200
    assert 60 <= queue.message_retention_seconds <= 1_209_600
    assert queue.max_receive_count is None or 1 <= queue.max_receive_count <= 1_000
    assert len(queue.name) <= 80
    assert queue.name.endswith(".fifo") == queue.fifo


def _check_mappings(manifest: Manifest) -> None:
    """AWS Lambda API reference, CreateEventSourceMapping; developer guide, "Using Lambda with Amazon SQS"."""
    for subscription in manifest.subscriptions.values():
        if subscription.aws is None or subscription.aws.function is None:
            continue
        function, mapping, queue = (
            subscription.aws.function,
            subscription.aws.event_source_mapping,
            subscription.aws.queue,
        )
        assert mapping is not None
        assert queue.visibility_timeout_seconds >= 6 * function.timeout_seconds + mapping.batch_window_seconds
        assert 1 <= mapping.batch_size <= (10 if queue.fifo else 10_000)
        assert mapping.batch_window_seconds == 0 if queue.fifo else 0 <= mapping.batch_window_seconds <= 300
        assert mapping.batch_size <= 10 or mapping.batch_window_seconds >= 1
        assert mapping.maximum_concurrency is None or 2 <= mapping.maximum_concurrency <= 1_000
        assert (
            subscription.max_processing_seconds is None
            or subscription.max_processing_seconds <= function.timeout_seconds
        )
