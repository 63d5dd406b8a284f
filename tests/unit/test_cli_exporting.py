"""Exports of dead letters: what a file that is gone, damaged, of elsewhere or in use does to them."""

import json
import signal
from datetime import UTC, datetime

import pytest
from typer import BadParameter

from towpath.cli.exporting import CannotExport, Export
from towpath.cli.holding import InUse, held
from towpath.cli.interrupts import Interrupted
from towpath.operating import DeliveryEntry, Page, Selection

NOW = datetime(2026, 1, 31, tzinfo=UTC)
ENTRY = DeliveryEntry(
    delivery_id="1-1",
    subscription="bill",
    topic="orders",
    message_id="01890000-0000-7000-8000-000000000001",
    partition_key=None,
    state="dead",
    attempt=1,
    is_replay=False,
    cancel_requested=False,
    published_at=NOW,
    due_at=NOW,
    lease_expires_at=None,
    dead_since=NOW,
    expires_at=None,
    waits_for=None,
    reason="no use",
    error="",
    percent=None,
    note="",
    body="{}",
)


class Operator:
    """Has three pages of one dead letter; ``meanwhile`` is done with the page of that number."""

    def __init__(self, meanwhile=None):
        self.meanwhile = meanwhile or {}

    def deliveries(self, selection, limit, cursor=None):
        number = int(cursor or 0)
        self.meanwhile.get(number, lambda: None)()
        return Page(entries=(ENTRY,), cursor=str(number + 1) if number < 2 else None)


def fails():
    raise OSError(28, "No space left on device")


def exported(output, operator, *, resume=False, place="sqlite:///x.db", cursor=None):
    export = Export(Selection(), output, cursor, place)
    with export.begun(resume=resume):
        return export.run(operator)


@pytest.fixture
def output(tmp_path):
    """The file of an export that ended with its second page."""
    with pytest.raises(CannotExport, match=r"dead.jsonl.partial: No space left on device; nothing is lost: 1 dead"):
        exported(tmp_path / "dead.jsonl", Operator({1: fails}))
    return tmp_path / "dead.jsonl"


def test_an_export_goes_on_where_it_ended(output):
    assert exported(output, Operator(), resume=True) == 3
    assert len(output.read_text().splitlines()) == 3
    assert [file.name for file in output.parent.iterdir()] == ["dead.jsonl"]


def test_what_was_removed_is_not_filled_up_with_nothing(output):
    output.with_name("dead.jsonl.partial").unlink()
    with pytest.raises(BadParameter, match=r"lacks some of what dead.jsonl.position tells of; remove it"):
        exported(output, Operator(), resume=True)
    assert not output.exists()


def test_a_position_that_an_earlier_export_left_is_not_of_the_new_one(output):
    output.with_name("dead.jsonl.partial").unlink()
    with pytest.raises(CannotExport, match="0 dead letters are exported"):
        exported(output, Operator({0: fails}))
    assert exported(output, Operator(), resume=True) == 3
    assert [json.loads(line)["delivery_id"] for line in output.read_text().splitlines()] == ["1-1"] * 3


def test_an_export_from_elsewhere_is_not_gone_on_with(output):
    with pytest.raises(BadParameter, match="is of an export with other conditions, or from elsewhere"):
        exported(output, Operator(), resume=True, place="sqlite:///y.db")


@pytest.mark.parametrize("damage", [{"cursor": None}, {"entries": "1"}, {"bytes": -1}, {"bytes": True}])
def test_a_damaged_position_is_told(output, damage):
    position = output.with_name("dead.jsonl.position")
    position.write_text(json.dumps(json.loads(position.read_text()) | damage))
    with pytest.raises(BadParameter, match="is no position of an export; remove it"):
        exported(output, Operator(), resume=True)


@pytest.mark.parametrize("text", ["[]", '{"selection": {}}', "{", "[" * 100_000])
def test_what_is_no_position_is_told(output, text):
    output.with_name("dead.jsonl.position").write_text(text)
    with pytest.raises(BadParameter, match="is no position of an export; remove it"):
        exported(output, Operator(), resume=True)


def test_two_exports_do_not_write_one_file(output):
    with held(output, "exporting"), pytest.raises(InUse, match="another process is exporting with"):
        exported(output, Operator(), resume=True)


def test_a_file_that_came_meanwhile_is_left_alone(tmp_path):
    file = tmp_path / "dead.jsonl"
    with pytest.raises(CannotExport, match=r"dead.jsonl has come meanwhile, and is left alone; all is in"):
        exported(file, Operator({2: lambda: file.write_text("mine")}))
    assert file.read_text() == "mine"


def test_a_signal_with_the_last_page_finds_the_export_complete(tmp_path, capsys):
    def interrupt():
        signal.raise_signal(signal.SIGINT)

    assert exported(tmp_path / "dead.jsonl", Operator({2: interrupt})) == 3
    assert exported(None, Operator({2: interrupt})) == 3
    assert len(capsys.readouterr().out.splitlines()) == 3
    with pytest.raises(Interrupted, match=r"2 dead letters are exported; go on with: .* --cursor 2"):
        exported(None, Operator({1: interrupt}))
