"""A run from its file to its report; a chunk that is cut short and goes on; one with too many bad records."""

import json
from pathlib import Path

import chunks
import pytest
from chunks import chunks_of

from towpath import NewMessage
from towpath.operating import Pace, Selection, Warrant

CUSTOMERS = Path(__file__).with_name("customers.csv")


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


def written(folder):
    return sorted(path.stem for path in folder.glob("c*.json"))


def of_lines(file, *emails):
    file.write_text("\n".join(["id,email", *(f"c{number},{email}" for number, email in enumerate(emails))]))
    (message,) = chunks_of(file, "run-1")
    return message


def test_a_run_comes_to_its_report(towpath_transport, towpath_work, results):
    messages = list(chunks_of(CUSTOMERS, "run-1"))
    for expected in ("accepted", "duplicate"):  # a producer that was interrupted may begin anew
        assert {result.status for result in towpath_transport.publish("run.chunk", messages)} == {expected}
    assert towpath_work().states == {"completed": 6}
    report = json.loads((results / "run-1/report.json").read_text())
    assert (report["complete"], report["chunks"], report["gave_up"]) == (True, 3, 0)
    assert (report["converted"], report["bad"]) == (248, 2)
    assert report["results"]["2"]["bad"] == {"c130": "has no e-mail address"}
    assert len(written(results / "run-1")) == 248


def test_a_chunk_that_was_cut_short_goes_on_where_it_stopped(towpath_deliver, results):
    first, *_ = chunks_of(CUSTOMERS, "run-1")
    cut_short = towpath_deliver("chunk.convert", first, abort="shutdown", abort_after=2)
    assert (cut_short.state, cut_short.published) == ("released", ())
    assert cut_short.checkpoint == {"done": 40, "bad": {"c017": "has no e-mail address"}}
    for file in (results / "run-1").iterdir():
        file.unlink()
    delivered = towpath_deliver("chunk.convert", first, checkpoint=cut_short.checkpoint)
    assert delivered.state == "completed"
    assert written(results / "run-1") == [f"c{number:03d}" for number in range(41, 101)]
    assert delivered.published[0].message.payload["converted"] == 99


def test_a_worker_gives_the_checkpoint_to_the_next_attempt(towpath_transport, towpath_work, results, monkeypatch):
    """The disk is full at record 50: the next attempt begins with record 41, since which there was no heartbeat."""
    convert_record, tried = chunks.convert_record, []

    def on_a_full_disk(run, record_id, known):
        tried.append(record_id)
        if tried.count("c050") == 1 and record_id == "c050":
            raise OSError(28, "No space left on device")
        convert_record(run, record_id, known)

    monkeypatch.setattr(chunks, "convert_record", on_a_full_disk)
    towpath_transport.publish("run.chunk", list(chunks_of(CUSTOMERS, "run-1"))[:1])
    assert towpath_work().states == {"retried": 1}
    towpath_work.advance(10)
    assert towpath_work("chunk.convert").states == {"completed": 1}
    assert tried.index("c041", tried.index("c050")) == 50
    assert tried.count("c040") == 1


def test_too_many_bad_records_fail_the_chunk_and_are_reported(towpath_transport, towpath_work, tmp_path, results):
    message = of_lines(tmp_path / "bad.csv", "a@example.org", *["none"] * 20, "b@example.org")
    towpath_transport.publish("run.chunk", [message])
    worked = towpath_work()
    assert worked.states == {"dead": 1, "completed": 1}
    assert [letter.reason for letter in worked.dead_letters] == ["more than 10 records are bad, the first c1"]
    report = json.loads((results / "run-1/report.json").read_text())
    assert (report["gave_up"], report["converted"], report["bad"]) == (1, 1, 11)
    assert written(results / "run-1") == ["c0"]


def test_as_many_bad_records_as_are_allowed_are_left_out(towpath_deliver, tmp_path):
    message = of_lines(tmp_path / "bad.csv", "a@example.org", *["none"] * 10)
    assert towpath_deliver("chunk.convert", message).state == "completed"


def test_a_result_that_comes_again_counts_once(towpath_deliver, results):
    first, second, _ = chunks_of(CUSTOMERS, "run-1")
    tell = [towpath_deliver("chunk.convert", chunk).published[0].message for chunk in (first, second)]
    for result in (tell[0], tell[1], tell[0]):
        assert towpath_deliver("run.report", NewMessage(payload=result.payload)).state == "completed"
    report = json.loads((results / "run-1/report.json").read_text())
    assert (report["complete"], report["converted"]) == (False, 198)


def test_a_cancelled_chunk_stops_and_tells_nothing(towpath_deliver):
    first, *_ = chunks_of(CUSTOMERS, "run-1")
    delivered = towpath_deliver("chunk.convert", first, abort="cancelled", abort_after=1)
    assert (delivered.state, delivered.published) == ("discarded", ())


def test_an_attempt_that_comes_again_tells_its_result_under_the_same_id(towpath_deliver):
    first, *_ = chunks_of(CUSTOMERS, "run-1")
    again = NewMessage(id="0190a5d2-0000-7000-8000-000000000000", payload=first.payload)
    told = [towpath_deliver("chunk.convert", again).published[0].message.id for _ in range(2)]
    assert told[0] == told[1]


def test_a_replay_that_gets_further_takes_its_place_in_the_report(towpath_transport, towpath_work, tmp_path, results):
    message = of_lines(tmp_path / "bad.csv", *["none"] * 11)
    towpath_transport.publish("run.chunk", [message])
    assert towpath_work().states == {"dead": 1, "completed": 1}
    of_lines(tmp_path / "bad.csv", *["a@example.org"] * 11)
    warrant = Warrant(actor="ada", reason="the file is mended")
    assert towpath_transport.operator().replay(Selection(subscription="chunk.convert"), warrant, Pace()) == 1
    assert towpath_work().states == {"completed": 2}
    report = json.loads((results / "run-1/report.json").read_text())
    assert (report["complete"], report["gave_up"], report["converted"], report["bad"]) == (True, 0, 11, 0)
