"""``docs/reference/contracts.md`` says of messages, limits and codes what the code does."""

import dataclasses
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from towpath import limits
from towpath.envelope import Origin, decode, encode
from towpath.message import RETRYABLE_CODES, Message, NewMessage, PayloadRef, PublishCode

PAGE = (Path(__file__).parents[2] / "docs/reference/contracts.md").read_text(encoding="utf-8")


def rows(heading: str, first: str) -> dict[str, list[str]]:
    """The table under ``heading`` whose first column is ``first``: the other cells of each row, by its name."""
    table = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0].split(f"\n| {first} |")[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {row[0].strip("`"): row[1:] for row in cells}


# --- Messages --------------------------------------------------------------------------------------------------

FIELDS = rows("Message", "field")


@pytest.mark.parametrize(("column", "kind"), [(0, NewMessage), (1, Message)])
def test_every_field_of_a_message_is_told_with_whether_it_must_be_there(column, kind):
    told = {name: cells[column] for name, cells in FIELDS.items() if cells[column] != "–"}
    missing = dataclasses.MISSING
    assert told == {
        field.name: "required" if field.default is missing and field.default_factory is missing else "optional"
        for field in dataclasses.fields(kind)
    }


def test_every_field_of_a_claim_check_is_told():
    assert list(rows("Message", "claim check")) == [field.name for field in dataclasses.fields(PayloadRef)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FIELDS["topic"][2], [limits.TOPIC_NAME_LENGTH]),
        (FIELDS["payload"][2], [limits.PAYLOAD_INTEGER_DIGITS, limits.PAYLOAD_DEPTH]),
        (FIELDS["partition_key"][2], [1, limits.PARTITION_KEY_LENGTH]),
        (FIELDS["attributes"][2], [limits.ATTRIBUTES]),
        (FIELDS["correlation_id"][2], [1, limits.CORRELATION_ID_LENGTH]),
        (FIELDS["deduplication_key"][2], [1, limits.DEDUPLICATION_KEY_LENGTH]),
        (
            FIELDS["deduplication_ttl"][2],
            [limits.DEDUPLICATION_TTL_SECONDS[0], limits.DEDUPLICATION_TTL_SECONDS[1] // 86_400],
        ),
        (rows("Message", "claim check")["size_bytes"][0], [0, limits.CLAIM_CHECK_BYTES]),
    ],
    ids=["topic", "payload", "partition_key", "attributes", "correlation_id", "key", "ttl", "size_bytes"],
)
def test_every_bound_in_a_rule_is_the_codes(text, told):
    words = re.sub(r"`[^`]*`|\[[^]]*\]\([^)]*\)|UTF-8", "", text)
    assert [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", words)] == told


def test_the_bounds_of_attributes_are_the_codes():
    (told,) = re.findall(r"^An attribute's name is .*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    text = " ".join(told.split())
    assert f"name is 1 to {limits.ATTRIBUTE_NAME_LENGTH} of" in text
    assert f"text of 1 to {limits.ATTRIBUTE_VALUE_LENGTH} characters" in text
    assert f"a number within ±1e9 that is 0 or not nearer to it than {limits.SQS_SMALLEST_NUMBER}," in text
    assert float("1e9") == limits.ATTRIBUTE_NUMBER
    assert f"a list of at most {limits.ATTRIBUTE_LIST_LENGTH} such texts" in text


# --- Envelopes -------------------------------------------------------------------------------------------------


def test_the_example_of_an_envelope_has_every_field_and_is_one():
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    record = json.loads(example)
    assert record.keys() == {field.name for field in dataclasses.fields(Message)} - {"payload_ref"} | {"schema"}
    message = decode(example, Origin(message_id="none", topic="none", received_at=datetime(2026, 1, 1, tzinfo=UTC)))
    assert encode(message) == json.dumps(record, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize(
    ("number", "unit"),
    [
        (limits.MAX_MESSAGE_BYTES, "bytes, or the topic's"),
        (limits.PAYLOAD_INTEGER_DIGITS, "digits, more than"),
        (limits.FOREIGN_DEPTH, "arrays and objects within one another"),
    ],
)
def test_every_bound_of_reading_is_the_codes(number, unit):
    assert f"{number:,} {unit}" in " ".join(PAGE.split("\n## Envelope\n")[1].split("\n## ")[0].split())


# --- Limits ----------------------------------------------------------------------------------------------------


def shown(value: float | tuple[int, int]) -> str:
    if isinstance(value, tuple):
        return f"{value[0]:,} to {value[1]:,}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.0e}".replace("e+0", "e")


@pytest.mark.parametrize(("name", "cells"), list(rows("Limits", "limit").items()))
def test_every_limit_is_the_codes(name, cells):
    assert cells[0] == shown(getattr(limits, name))
    assert cells[1]


def test_every_limit_of_a_message_is_told():
    begin = ("ATTRIBUTE", "PAYLOAD_", "DEDUPLICATION_", "CLAIM_", "FOREIGN_", "PARTITION_KEY", "CORRELATION_", "TOPIC_")
    known = {name for name in vars(limits) if name.startswith(begin)} - {"PAYLOAD_ERRORS"}
    assert known <= rows("Limits", "limit").keys()


# --- Codes -----------------------------------------------------------------------------------------------------


def test_every_code_of_page_two_exists_and_is_retryable_as_it_says():
    told = {code: cells[0] for code, cells in rows("Publishing", "code").items()}
    assert list(told.items()) == [(code, "yes" if code in RETRYABLE_CODES else "no") for code in get_args(PublishCode)]


def test_every_field_to_publish_has_a_code_for_its_fault():
    told = " ".join(cells[1] for cells in rows("Publishing", "code").values())
    for field in dataclasses.fields(NewMessage):
        assert f"`{field.name}`" in told
