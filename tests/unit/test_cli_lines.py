"""JSON Lines of ``towpath publish``: whole messages, positions, what a fault of the transport's does."""

import hashlib
import io
import json
import os
import re
import shutil
from dataclasses import replace

import pytest
from typer import BadParameter
from typer.testing import CliRunner

from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.cli.following import Followed
from towpath.cli.holding import InUse, held
from towpath.cli.interrupts import Interrupts
from towpath.cli.lines import Lines, messages
from towpath.cli.main import build_app
from towpath.cli.position import Position
from towpath.cli.progress import Progress
from towpath.cli.sending import Sending, Stopped
from towpath.message import PublishError, PublishResult, is_message_id, utc_now

BEGUN = Position.begin("orders", "sqlite:///x.db", utc_now, bytes)
UNAVAILABLE = PublishError(code="TransportUnavailable", message="no answer")


def numbered(text, kind="messages", **template):
    return list(messages(Lines(io.BytesIO(text.encode())), "x.jsonl", NewMessage(**template), kind))


# --- Whole messages ----------------------------------------------------------------------------------------------


def test_a_line_may_be_a_whole_message_and_options_are_what_it_lacks():
    line = {
        "payload": None,
        "partition_key": "ada",
        "attributes": {"kind": "a", "n": 1},
        "id": "01890000-0000-7000-8000-000000000001",
        "deduplication_key": "once",
        "expires_at": "2030-01-31T08:15:00Z",
    }
    first, second = numbered(f"{json.dumps(line)}\n{{}}\n", partition_key="bob", attributes={"kind": "b", "m": 2})
    assert first.message.attributes == {"kind": "a", "n": 1, "m": 2}
    assert (first.message.payload, first.message.partition_key) == (None, "ada")
    assert first.message.expires_at.isoformat() == "2030-01-31T08:15:00+00:00"
    assert second.message == NewMessage(partition_key="bob", attributes={"kind": "b", "m": 2})
    (claim,) = numbered('{"payload_ref": {"uri": "file:///x", "size_bytes": 1}}')
    assert (claim.message.payload_ref.uri, claim.message.payload_ref.size_bytes) == ("file:///x", 1)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("1", 'each line is an object, such as {"payload": 1}'),
        ('{"partition_kay": 1}', "did you mean 'partition_key'?"),
        ('{"expires_at": "soon"}', "expires_at 'soon' is no time with its offset"),
        ('{"expires_at": "2030-01-31T08:15:00"}', "is no time with its offset"),
        ('{"deliver_after": 5}', "deliver_after 5 is no time"),
        ('{"payload_ref": "file:///x"}', "payload_ref is an object of uri"),
        ('{"payload_ref": {"url": "file:///x"}}', "payload_ref is an object of uri"),
        ("{", "the line is not JSON"),
    ],
)
def test_a_line_that_is_no_message_is_told_with_its_number(line, told):
    _, bad, _ = numbered(f"{{}}\n{line}\n{{}}\n")
    assert bad.fault.code == "InvalidPayload"
    assert told in bad.fault.message
    assert (bad.source, bad.line) == ("x.jsonl, line 2: ", 2)


def test_a_line_that_is_longer_than_any_message_is_told_and_not_kept():
    class File(io.BytesIO):
        longest = 0

        def readline(self, size=-1):
            part = super().readline(size)
            self.longest = max(self.longest, len(part))
            return part

    text = b"1\n" + b"x" * 5_000_000 + b"\n" + b" " * 5_000_000 + b"\n" + b"3\n" + b"[" * 5_000_000
    file = File(text)
    lines = Lines(file)
    found = list(messages(lines, "x.jsonl", NewMessage(), "payloads"))
    assert [(one.line, one.fault and one.fault.code) for one in found] == [
        (1, None),
        (2, "PayloadTooLarge"),
        (3, "PayloadTooLarge"),
        (4, None),
        (5, "PayloadTooLarge"),
    ]
    assert "the line is longer than 2,088,960 bytes, and a message has 261,120 at most" in found[1].fault.message
    assert file.longest == 2_088_960
    assert (lines.read, lines.digest) == (len(text), hashlib.sha256(text).hexdigest())


# --- Positions ---------------------------------------------------------------------------------------------------


def test_a_line_has_the_same_id_every_time_and_no_other_line_has_it():
    ids = [BEGUN.id_of(line) for line in range(1, 1_000)]
    assert len(set(ids)) == 999
    assert all(map(is_message_id, ids))
    assert BEGUN.id_of(7) == ids[6]


def test_a_position_is_kept_and_read_back(tmp_path):
    file = tmp_path / "position"
    assert Position.load(file) is None
    position = BEGUN.after(100, "ab", (102, 103))
    position.save(file)
    assert Position.load(file) == position


@pytest.fixture
def publish(tmp_path, sqlite_with_tables):
    """Publishes lines to a topic of a database, in a file of their own."""
    url = f"sqlite:///{shutil.copy(sqlite_with_tables, tmp_path / 'x.db')}"
    with connect(url) as transport:
        transport.apply(on_database({"orders": {}, "mails": {}}, {"bill": {"topic": "orders"}}))

    def call(text, *options, topic="orders", name="x.jsonl"):
        (tmp_path / name).write_text(text)
        command = ["publish", topic, "--file", str(tmp_path / name), "--transport", url, *map(str, options)]
        return CliRunner().invoke(build_app(), command, env={"COLUMNS": "300", "NO_COLOR": "1"})

    return call


def told(result):
    return " ".join(re.sub("[│╭╰─╮╯]", " ", result.stderr).split())


def test_lines_that_are_added_are_published_by_the_same_command(publish, tmp_path):
    resume = ("--resume", tmp_path / "position")
    assert publish("1\n2\n", *resume).stdout == "2 accepted, 0 duplicate, 0 rejected\n"
    assert publish("1\n2\n3\n", *resume).stdout == "1 accepted, 0 duplicate, 0 rejected\n"
    assert publish("1\n2\n3\n", "--from-line", 3).stdout == "1 accepted, 0 duplicate, 0 rejected\n"


def test_a_bad_line_is_passed_and_not_told_again(publish, tmp_path):
    resume = ("--resume", tmp_path / "position")
    first = publish("1\n{\n3\n", *resume)
    assert (first.exit_code, first.stdout) == (1, "2 accepted, 0 duplicate, 1 rejected\n")
    again = publish("1\n{\n3\n", *resume)
    assert (again.exit_code, again.stdout) == (0, "0 accepted, 0 duplicate, 0 rejected\n")


@pytest.mark.parametrize("text", ["1\n5\n3\n", "1\n"])
def test_a_position_refuses_to_go_on_in_another_file(publish, tmp_path, text):
    resume = ("--resume", tmp_path / "position")
    publish("1\n2\n", *resume)
    result = publish(text, *resume)
    assert result.exit_code == 2
    assert "is of another file: the 2 lines that are published were others" in told(result)


def test_a_position_refuses_another_topic_and_what_is_none(publish, tmp_path):
    resume = ("--resume", tmp_path / "position")
    publish("1\n", *resume)
    assert "is of a publish to 'orders' on 'sqlite:///" in told(publish("1\n", *resume, topic="mails"))
    (tmp_path / "position").write_text("{}")
    result = publish("1\n", *resume)
    assert (result.exit_code, "is no position of a publish; name a new file" in told(result)) == (2, True)


@pytest.mark.parametrize(
    "damage",
    [
        {"lines": "1"},
        {"lines": -1},
        {"lines": True},
        {"answered": ["1"]},
        {"answered": 1},
        {"began_at": "soon"},
        {"began_at": "0001-01-01T00:00:00+23:00"},
        {"seed": 5},
        {"topic": None},
        {"more": 1},
    ],
)
def test_a_damaged_position_is_told(tmp_path, damage):
    file = tmp_path / "position"
    BEGUN.save(file)
    file.write_text(json.dumps(json.loads(file.read_text()) | damage))
    with pytest.raises(BadParameter, match="is no position of a publish; name a new file"):
        Position.load(file)


def test_a_position_that_is_no_json_is_told(tmp_path):
    (tmp_path / "position").write_text("[" * 100_000)
    with pytest.raises(BadParameter, match="is no position of a publish; name a new file"):
        Position.load(tmp_path / "position")


def test_what_a_damaged_position_names_cannot_command_the_terminal(tmp_path):
    replace(BEGUN, topic="\x1b[31mred").save(tmp_path / "position")
    with pytest.raises(BadParameter) as refused:
        Followed(Lines(io.BytesIO()), 1).keep(tmp_path / "position", BEGUN)
    assert "is of a publish to '\\x1b[31mred' on 'sqlite:///x.db'" in str(refused.value)


def test_two_publishes_do_not_go_by_one_position(publish, tmp_path):
    position = tmp_path / "position"
    with held(position, "publishing"):
        result = publish("1\n", "--resume", position)
        assert isinstance(result.exception, InUse)
        assert "another process is publishing with" in str(result.exception)
    (tmp_path / ".position.lock").touch()  # as a killed process leaves it
    assert publish("1\n", "--resume", position).stdout == "1 accepted, 0 duplicate, 0 rejected\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["position", "x.db", "x.jsonl"]


def test_what_a_killed_process_of_the_same_number_left_holds_nobody_up(tmp_path):
    (tmp_path / f".position.{os.getpid()}").write_text("half")
    BEGUN.save(tmp_path / "position")
    assert Position.load(tmp_path / "position") == BEGUN
    assert [file.name for file in tmp_path.iterdir()] == ["position"]


def test_a_position_in_another_folder_is_of_another_database(publish, tmp_path, monkeypatch):
    publish("1\n", "--resume", tmp_path / "position")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    here = ["publish", "orders", "--file", "x.jsonl", "--resume", "position"]
    assert CliRunner().invoke(build_app(), [*here, "--transport", "sqlite:///x.db"]).exit_code == 0
    monkeypatch.chdir(tmp_path / "other")
    there = ["publish", "orders", "--file", "../x.jsonl", "--resume", "../position"]
    result = CliRunner().invoke(build_app(), [*there, "--transport", "sqlite:///x.db"])
    assert "is of a publish to 'orders' on" in told(result)


def test_a_position_that_cannot_be_kept_any_more_ends_it_and_tells_what_is_published(publish, tmp_path):
    resume = ("--resume", tmp_path / "kept" / "position")
    (tmp_path / "kept").mkdir()
    publish("1\n", *resume)
    (tmp_path / "kept" / f".position.{os.getpid()}").mkdir()  # it cannot be written from now on
    result = publish("1\n2\n3\n", *resume)
    assert (result.exit_code, result.stdout) == (1, "2 accepted, 0 duplicate, 0 rejected\n")
    assert "position cannot be written: " in result.stderr
    assert "the last call is not kept there, and is sent again under its ids" in result.stderr
    (tmp_path / "kept" / f".position.{os.getpid()}").rmdir()
    assert publish("1\n2\n3\n", *resume).stdout == "0 accepted, 2 duplicate, 0 rejected\n"


@pytest.mark.parametrize("options", [("--resume", "p"), ("--from-line", "2"), ("--lines", "messages")])
def test_what_is_for_lines_is_refused_for_one_payload(publish, options):
    assert publish("1\n", *options, name="x.json").exit_code == 2


def test_a_position_and_a_line_to_begin_with_exclude_each_other(publish, tmp_path):
    assert publish("1\n", "--resume", tmp_path / "p", "--from-line", "2").exit_code == 2


def test_a_topic_that_is_not_there_stops_it_at_the_first_call(publish):
    result = publish("1\n" * 500, topic="ordres")
    assert (result.exit_code, result.stdout) == (1, "0 accepted, 0 duplicate, 0 rejected\n")
    assert result.stderr.count("TopicNotFound") == 1
    assert "x.jsonl, line 1: TopicNotFound" in result.stderr
    assert "all is answered before line 1" in result.stderr


# --- Faults that pass --------------------------------------------------------------------------------------------


class Publisher:
    """Takes messages but for those with a payload in ``down``, so many times each."""

    def __init__(self, down):
        self.down = dict(down)
        self.calls = []

    def publish(self, topic, messages, *, connection=None):
        self.calls.append([message.payload for message in messages])
        return [self._result(message) for message in messages]

    def _result(self, message):
        left = self.down.get(message.payload, 0)
        self.down[message.payload] = left - 1
        message_id = message.id or f"id of {message.payload}"
        if left > 0:
            return PublishResult(id=message_id, status="rejected", error=UNAVAILABLE)
        return PublishResult(id=message_id, status="accepted")


def sent(publisher, text, position=None):
    """Publish the lines; answers what is known at the end, and the seconds that it paused."""
    lines, pauses = Lines(io.BytesIO(text)), []
    follower = Followed(lines, 1)
    if position is not None:
        follower.keep(position, BEGUN)
    sending = Sending(
        publisher=publisher,
        topic="orders",
        results=None,
        follower=follower,
        interrupts=Interrupts(),
        sleep=pauses.append,
    )
    try:
        found = follower.of(messages(lines, "x.jsonl", NewMessage(), "payloads"))
        sending.run(found, Progress(), of_lines=True)
    except Stopped as stop:
        return sending.tally, pauses, str(stop)
    return sending.tally, pauses, None


def test_what_does_not_get_through_is_tried_again_under_its_id():
    publisher = Publisher({2: 2})
    tally, pauses, stopped = sent(publisher, b"1\n2\n3\n")
    assert (tally.accepted, tally.rejected, stopped) == (3, 0, None)
    assert (publisher.calls, pauses) == ([[1, 2, 3], [2], [2]], [1.0, 2.0])


def test_an_outage_that_lasts_stops_it_and_it_goes_on_with_just_the_lines_that_are_left(tmp_path):
    position = tmp_path / "position"
    publisher = Publisher({2: 100, 4: 100})
    tally, pauses, stopped = sent(publisher, b"1\n2\n3\n4\n", position)
    assert (tally.accepted, pauses) == (2, [1.0, 2.0, 4.0])
    assert stopped == "x.jsonl, line 2: TransportUnavailable: no answer"
    assert Position.load(position).answered == (1, 3)
    publisher = Publisher({})
    tally, _, stopped = sent(publisher, b"1\n2\n3\n4\n5\n", position)
    assert (tally.accepted, stopped, publisher.calls) == (3, None, [[2, 4, 5]])


def test_what_is_answered_behind_the_first_line_that_is_left_is_told():
    lines = Lines(io.BytesIO(b"1\n2\n3\n4\n5\n"))
    follower = Followed(lines, 1)
    chunk = list(follower.of(messages(lines, "x.jsonl", NewMessage(), "payloads")))
    follower.answered(chunk, [1, 3])
    assert follower.told().startswith(
        "all is answered before line 2, and so are 2 lines behind it, which this command publishes again "
        "(--resume would not); go on with: "
    )
    follower.answered(chunk, [4])
    assert follower.told().startswith("all is answered before line 5; go on with: ")
