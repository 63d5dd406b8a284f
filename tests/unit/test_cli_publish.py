"""``towpath publish``: payloads, JSON Lines, attributes, and what is told of messages that are refused."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from towpath import ABSENT, Message, connect
from towpath.cli.main import build_app
from towpath.envelope import decode
from towpath.errors import UnknownTransport
from towpath.ports import Transport
from towpath.resolve import resolve
from towpath.topology import parse_topology

TOPOLOGY = {
    "name": "shop",
    "topics": {"orders.new": {"transport": "database", "max_payload_bytes": 2_000}},
    "subscriptions": {"orders.bill": {"topic": "orders.new", "handler": "app:process"}},
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('shop') / 'shop.db'}"


@pytest.fixture(scope="module")
def shop(url: str) -> Iterator[Transport]:
    """One database for all these tests: making one takes longer than most of them."""
    transport = connect(url)
    transport.apply(resolve(parse_topology(TOPOLOGY), "test"))
    yield transport
    transport.close()


@pytest.fixture
def publish(url: str, shop: Transport) -> Callable[..., Result]:
    def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
        command = ["publish", "orders.new", *map(str, arguments), "--transport", url]
        return CliRunner().invoke(build_app(), command, input=stdin, env={"COLUMNS": "200", "NO_COLOR": "1"})

    return run


@pytest.fixture
def arrived(shop: Transport) -> Callable[[], list[Message]]:
    """What was published since it was last asked for, as a consumer reads it."""
    consumer = shop.consumer("orders.bill")

    def read() -> list[Message]:
        return [decode(d.body, d, accept_foreign=False) for d in consumer.receive(500, timedelta(0))]

    read()
    return read


def refusal(result: Result) -> str:
    """The one sentence of a use that is wrong, without the frame that is drawn around it."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.stderr.replace("│", " ").split())


# --- One payload -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", ['{"a": [1.5, true]}', "null", '"ä \\ud83d\\ude00"'])
def test_a_payload_is_any_json(publish, arrived, payload):
    result = publish(payload)
    assert result.exit_code == 0
    assert result.stdout == "1 accepted, 0 duplicate, 0 rejected\n"
    (message,) = arrived()
    assert message.payload == json.loads(payload)
    assert (message.topic, message.partition_key, message.attributes) == ("orders.new", None, {})


def test_without_a_payload_a_message_has_none(publish, arrived):
    assert publish().exit_code == 0
    assert [message.payload for message in arrived()] == [ABSENT]


@pytest.mark.parametrize("payload", ["{", "", "{} {}", "[" * 100_000])
def test_a_payload_that_is_no_json_is_wrong_use(publish, arrived, payload):
    assert "PAYLOAD is not JSON" in refusal(publish(payload))
    assert arrived() == []


def test_a_bare_word_is_told_how_to_be_quoted(publish):
    assert "text needs its own quotes, as in '\"hello\"'" in refusal(publish("hello"))


@pytest.mark.parametrize("payload", ["{number:1}", "{'number': 1}", "{ number : 1}"])
def test_an_object_that_lost_its_quotes_is_shown_with_them(publish, payload):
    assert """did you mean '{"number": 1}'?""" in refusal(publish(payload))


@pytest.mark.parametrize("payload", ["{", "a b", "{number: one}", "{'a': 'it's'}"])
def test_what_nobody_can_guess_has_no_hint(publish, payload):
    assert "did you mean" not in refusal(publish(payload))


@pytest.mark.parametrize("payload", ["NaN", "[Infinity]", "1e400", '"\\ud800"'])
def test_a_payload_that_json_does_not_have_is_rejected(publish, arrived, payload):
    result = publish(payload)
    assert result.exit_code == 1
    assert "error: InvalidPayload: payload" in result.stderr
    assert result.stdout == "0 accepted, 0 duplicate, 1 rejected\n"
    assert arrived() == []


def test_a_payload_over_the_limit_is_rejected_in_one_sentence(publish, arrived):
    result = publish(json.dumps("x" * 2_000))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: PayloadTooLarge: the message is 2,")
    assert "payload_ref" in result.stderr
    assert result.stderr.count("\n") == 1
    assert arrived() == []


def test_count_publishes_the_payload_so_many_times(publish, arrived):
    assert publish('{"a": 1}', "--count", "250").stdout == "250 accepted, 0 duplicate, 0 rejected\n"
    messages = arrived()
    assert [message.payload for message in messages] == [{"a": 1}] * 250
    assert len({message.id for message in messages}) == 250


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_count_is_at_least_one(publish, count):
    assert "--count" in refusal(publish("1", "--count", count))


def test_the_key_is_the_partition_key(publish, arrived):
    publish("1", "--key", "tenant-acme")
    assert [message.partition_key for message in arrived()] == ["tenant-acme"]


def test_a_repeated_deduplication_key_is_a_duplicate(publish, arrived):
    assert publish("1", "--dedup-key", "once").stdout == "1 accepted, 0 duplicate, 0 rejected\n"
    result = publish("1", "--dedup-key", "once")
    assert result.exit_code == 0
    assert result.stdout == "0 accepted, 1 duplicate, 0 rejected\n"
    assert len(arrived()) == 1


# --- Attributes ------------------------------------------------------------------------------------------------


FORMS = {
    "text=pdf": "pdf",
    "equals=a=b": "a=b",
    "digits=7": "7",
    "mark=:=": ":=",
    "int:=7": 7,
    "float:=-1.5e3": -1500.0,
    "largest:=1000000000": 10**9,
    'list:=["a", "b"]': ("a", "b"),
    "empty:=[]": (),
    'quoted:="7"': "7",
}


def test_attributes_are_text_or_json(publish, arrived):
    assert publish("1", *(part for form in FORMS for part in ("--attribute", form))).exit_code == 0
    (message,) = arrived()
    wanted = {form.partition("=")[0].removesuffix(":"): value for form, value in FORMS.items()}
    assert {name: (type(value), value) for name, value in message.attributes.items()} == {
        name: (type(value), value) for name, value in wanted.items()
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["kind"], "--attribute 'kind' must be NAME=TEXT or NAME:=JSON"),
        (["n:=seven"], "--attribute n is not JSON"),
        (["kind=a", "kind=b"], '--attribute kind is given twice; a list is written kind:=\'["a", "b"]\''),
        (["kind=a", "kind:=1"], "--attribute kind is given twice"),
    ],
)
def test_an_attribute_in_another_form_is_wrong_use(publish, arrived, given, told):
    assert told in refusal(publish("1", *(part for pair in given for part in ("--attribute", pair))))
    assert arrived() == []


@pytest.mark.parametrize(
    "given",
    ["=x", "kind=", "a:b=x", "towpath-x=1", "n:=true", "n:=2e9", "n:=NaN"],
)
def test_an_attribute_that_breaks_the_contract_is_rejected_in_one_sentence(publish, arrived, given):
    result = publish("1", "--attribute", given)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: InvalidAttributes: attribute ")
    assert result.stderr.count("\n") == 1
    assert arrived() == []


# --- JSON Lines ------------------------------------------------------------------------------------------------


def test_each_line_of_standard_input_is_a_payload(publish, arrived):
    result = publish("-", "--key", "k", "-a", "kind=pdf", stdin='{"a": 1}\n\n  \n"two"\r\n3')
    assert result.stdout == "3 accepted, 0 duplicate, 0 rejected\n"
    messages = arrived()
    assert [message.payload for message in messages] == [{"a": 1}, "two", 3]
    assert {(message.partition_key, message.attributes["kind"]) for message in messages} == {("k", "pdf")}


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_only_a_line_feed_ends_a_line(publish, arrived, tmp_path, separator):
    lines = tmp_path / "lines.jsonl"
    lines.write_text(f'"a{separator}b"\n"c"\n', encoding="utf-8")
    assert publish("--file", lines).exit_code == 0
    assert publish("-", stdin=f'"d{separator}e"\n').exit_code == 0
    assert [message.payload for message in arrived()] == [f"a{separator}b", "c", f"d{separator}e"]


@pytest.mark.parametrize("from_file", [True, False])
def test_bad_lines_do_not_hold_up_the_good_ones(publish, arrived, tmp_path, from_file):
    deep = b"[" * 100_000
    text = b'1\n{"a":\n2\n\xff\xfe\n3\nNaN\n"' + b"x" * 2_000 + b'"\n' + deep + b"\n4\n"
    if from_file:
        (tmp_path / "lines.jsonl").write_bytes(text)
    result = publish("--file", tmp_path / "lines.jsonl") if from_file else publish("-", stdin=text)
    name = "lines.jsonl" if from_file else "standard input"
    assert result.exit_code == 1
    assert result.stdout == "4 accepted, 0 duplicate, 5 rejected\n"
    told = result.stderr.splitlines()
    places = [line.split(": ")[1] for line in told]
    assert places == [f"{name}, line {n}" for n in (2, 4, 6, 7, 8)]
    assert "InvalidPayload: the line is not JSON" in told[0]
    assert "InvalidPayload: payload is nan" in told[2]
    assert "PayloadTooLarge" in told[3]
    assert [message.payload for message in arrived()] == [1, 2, 3, 4]


def test_nothing_but_bad_lines_publishes_nothing(publish, arrived):
    result = publish("-", stdin="{\n{\n")
    assert (result.exit_code, result.stdout) == (1, "0 accepted, 0 duplicate, 2 rejected\n")
    assert arrived() == []


def test_no_lines_are_no_mistake(publish):
    result = publish("-", stdin="\n")
    assert (result.exit_code, result.stdout) == (0, "0 accepted, 0 duplicate, 0 rejected\n")


def test_lines_are_published_in_calls_of_a_hundred_and_answered_in_order(publish, arrived):
    lines = [json.dumps(i) if i % 7 else "{" for i in range(250)]
    result = publish("-", "--json", stdin="\n".join(lines))
    assert result.exit_code == 1
    results = json.loads(result.stdout)
    assert [one["status"] for one in results] == ["accepted" if i % 7 else "rejected" for i in range(250)]
    assert [message.payload for message in arrived()] == [i for i in range(250) if i % 7]


# --- Files -----------------------------------------------------------------------------------------------------


def test_a_json_file_is_one_payload(publish, arrived, tmp_path):
    file = tmp_path / "order.json"
    file.write_text('{\n  "a": [1,\n 2]\n}\n', encoding="utf-8")
    assert publish("--file", file, "--count", "2").exit_code == 0
    assert [message.payload for message in arrived()] == [{"a": [1, 2]}] * 2


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe\x00", b"{}\n{}"])
def test_a_file_that_is_no_json_is_wrong_use(publish, tmp_path, content):
    file = tmp_path / "order.json"
    file.write_bytes(content)
    assert f"{file.name}isnotJSON" in refusal(publish("--file", file)).replace(" ", "")


@pytest.mark.parametrize("name", ["none.json", "none.jsonl", "."])
def test_a_file_that_cannot_be_read_is_wrong_use(publish, tmp_path, name):
    assert "cannot be read: " in refusal(publish("--file", tmp_path / name))


def test_a_claim_check_is_published_for_each_file(publish, arrived, tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    assert publish("--ref", tmp_path / "a.txt", "--ref", tmp_path / "b.txt").exit_code == 0
    first, second = arrived()
    assert (first.payload_ref.uri, second.payload_ref.size_bytes) == ((tmp_path / "a.txt").as_uri(), 5)
    assert first.payload is ABSENT


def test_a_claim_check_to_a_missing_file_is_wrong_use(publish, arrived, tmp_path):
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    assert "cannot be read: No such file" in refusal(publish("--ref", tmp_path / "a.txt", "--ref", tmp_path / "none"))
    assert arrived() == []


@pytest.mark.parametrize(
    "arguments",
    [("1", "--file", "f.json"), ("1", "--ref", "f"), ("--file", "f.json", "--ref", "f"), ("-", "--file", "f")],
)
def test_there_is_one_source_of_payloads(publish, arguments):
    assert "give one of PAYLOAD, --file and --ref" in refusal(publish(*arguments))


@pytest.mark.parametrize("arguments", [("-",), ("--file", "f.jsonl"), ("--ref", "f")])
def test_a_count_goes_with_one_payload_only(publish, arguments):
    assert "--count repeats one payload" in refusal(publish(*arguments, "--count", "2", stdin="1\n"))


# --- Answers ---------------------------------------------------------------------------------------------------


def test_as_json_every_result_has_id_status_and_error(publish, arrived):
    result = publish("1", "--json")
    ((only,), (message,)) = json.loads(result.stdout), arrived()
    assert only == {"id": message.id, "status": "accepted", "error": None, "subscriptions": 1}


def test_as_json_a_rejection_has_code_message_and_whether_to_retry(publish):
    result = publish("1", "-a", "kind=", "--json")
    assert result.exit_code == 1
    ((only,),) = [json.loads(result.stdout)]
    assert only == {
        "id": None,
        "status": "rejected",
        "error": {
            "code": "InvalidAttributes",
            "message": "attribute 'kind' must be 1 to 256 characters long, not 0",
            "retryable": False,
        },
        "subscriptions": None,
    }


def test_an_unknown_topic_is_told_in_one_sentence(url, shop):
    result = CliRunner().invoke(build_app(), ["publish", "orders.nwe", "1", "--transport", url])
    assert result.exit_code == 1
    assert "error: TopicNotFound: " in result.stderr
    assert "orders.nwe" in result.stderr
    assert "did you mean 'orders.new'?" in result.stderr
    assert result.stdout == "0 accepted, 0 duplicate, 1 rejected\n"


def test_what_looks_like_markup_is_shown_as_it_is(publish):
    assert "[/red]" in refusal(publish("1", "--attribute", "[/red]"))


@pytest.mark.parametrize("url", ["nowhere", "ftp://host"])
def test_an_unknown_transport_is_told(url):
    result = CliRunner().invoke(build_app(), ["publish", "t", "1", "--transport", url])
    assert isinstance(result.exception, UnknownTransport)  # told by the root command, exit 1


def test_without_a_transport_the_variable_is_named(monkeypatch):
    monkeypatch.delenv("TOWPATH_TRANSPORT", raising=False)
    assert "--transport" in refusal(CliRunner().invoke(build_app(), ["publish", "t", "1"]))


def test_the_transport_may_come_from_the_environment(url, arrived):
    result = CliRunner().invoke(build_app(), ["publish", "orders.new", "1"], env={"TOWPATH_TRANSPORT": url})
    assert result.exit_code == 0
    assert len(arrived()) == 1


def test_a_message_that_no_subscription_wants_is_told(tmp_path):
    url = f"sqlite:///{tmp_path / 'quiet.db'}"
    wants_pdf = {"topic": "orders.new", "handler": "app:process", "filter": {"kind": ["pdf"]}}
    with connect(url) as transport:
        transport.apply(resolve(parse_topology(TOPOLOGY | {"subscriptions": {"orders.bill": wants_pdf}}), "test"))
    command = ["publish", "orders.new", "1", "--count", "2", "--transport", url]
    told = "2 accepted (for no subscription: there is none whose filter matches), 0 duplicate, 0 rejected\n"
    assert CliRunner().invoke(build_app(), command).stdout == told
    wanted = CliRunner().invoke(build_app(), [*command, "-a", "kind=pdf"])
    assert wanted.stdout == "2 accepted, 0 duplicate, 0 rejected\n"


# --- On a terminal ---------------------------------------------------------------------------------------------


def on_a_terminal(*arguments: str, stdin: bytes = b"") -> list[str]:
    """The lines that a person sees on standard error, without what was erased."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "200"}
    command = [sys.executable, "-m", "towpath", "publish", *arguments]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=theirs, env=environment
    )
    os.close(theirs)
    process.communicate(stdin, timeout=60)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(ours, 65_536):
            shown += part
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "\n").split("\n")


def test_a_failure_of_a_single_message_is_not_mixed_with_progress(url, shop):
    lines = on_a_terminal("orders.new", "1", "-a", "kind=", "--transport", url)
    assert [line.partition(" attribute")[0] for line in lines if line] == ["error: InvalidAttributes:"]


def test_failures_among_many_messages_stand_on_lines_of_their_own(url, shop):
    lines = on_a_terminal("orders.new", "-", "--transport", url, stdin=b"{\n1\n{\n")
    assert [line[:31] for line in lines if "error" in line] == [
        "error: standard input, line 1: ",
        "error: standard input, line 3: ",
    ]
    assert any("published" in line for line in lines)
