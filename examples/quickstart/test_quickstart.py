"""The quickstart's handler: what it makes of a document, and of what is none."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from quickstart.documents import summarise, write_result

from towpath import NewMessage, PayloadRef

DOCUMENT = Path(__file__).parent / "documents/macbeth-act-1.md"
KIND = {"kind": "text"}


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("QUICKSTART_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("QUICKSTART_DOCUMENTS", str(tmp_path))
    return tmp_path / "results"


def test_documents_are_summarised_and_what_is_none_is_set_aside(towpath_transport, towpath_work, results):
    messages = [
        NewMessage(payload_ref=PayloadRef.for_file(DOCUMENT), attributes=KIND),
        NewMessage(payload={"no": "document"}, attributes=KIND),
        NewMessage(payload={"no": "document"}, attributes={"kind": "picture"}),  # not for this subscription
    ]
    towpath_transport.publish("documents.process", messages)
    worked = towpath_work()
    assert worked.states == {"completed": 1, "dead": 1}
    assert [letter.reason for letter in worked.dead_letters] == [
        "the message has no payload_ref that says where the document is"
    ]
    assert json.loads((results / "macbeth-act-1.md.json").read_text())["words"] > 1_000


def test_a_document_that_is_not_there_may_come_yet(towpath_deliver):
    delivered = towpath_deliver("documents.convert", NewMessage(payload_ref=PayloadRef(uri="file:missing.md")))
    assert (delivered.state, delivered.delay) == ("retried", timedelta(seconds=1))


def test_a_document_that_was_changed_is_set_aside(towpath_deliver):
    reference = replace(PayloadRef.for_file(DOCUMENT), sha256="0" * 64)
    delivered = towpath_deliver("documents.convert", NewMessage(payload_ref=reference))
    assert (delivered.state, "its SHA-256 differs" in delivered.reason) == ("dead", True)


def test_what_is_no_text_is_set_aside(towpath_deliver, tmp_path):
    (tmp_path / "picture.md").write_bytes(b"\x89PNG")
    delivered = towpath_deliver("documents.convert", NewMessage(payload_ref=PayloadRef(uri="file:picture.md")))
    assert delivered.reason == "picture.md is not UTF-8 text: byte 0 cannot be read"


def test_the_function_answers_for_each_message_of_its_batch(towpath_lambda):
    function = towpath_lambda("documents.convert")
    function.send(
        NewMessage(payload_ref=PayloadRef.for_file(DOCUMENT)),
        NewMessage(payload_ref=PayloadRef(uri="file:missing.md")),
    )
    (invocation,) = function.run()
    assert (len(invocation.message_ids), len(invocation.failed)) == (2, 1)


def test_several_threads_may_be_at_the_same_document(results):
    summary = summarise("one.md", "# One")
    with ThreadPoolExecutor(8) as threads:
        for written in [threads.submit(write_result, summary) for _ in range(400)]:
            written.result()
    assert [file.name for file in results.iterdir()] == ["one.md.json"]
