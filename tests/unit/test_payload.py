"""Payloads of the handler's own type: pydantic models, dataclasses, TypedDicts, and what does not fit them."""

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from pathlib import Path
from re import Pattern
from typing import Annotated, Any, Literal, Optional
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic.dataclasses
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AnyUrl,
    Base64Bytes,
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    GetPydanticSchema,
    ImportString,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError, core_schema
from typing_extensions import TypedDict

from tests.fakes import plain_dicts
from towpath.errors import HandlerNotFound, InvalidPayload
from towpath.message import ABSENT
from towpath.payload import converter
from towpath.typed_dicts import readable


class Document(BaseModel):
    name: str
    pages: int = Field(ge=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    documents: list[Document]
    sent_at: datetime | None = None
    tags: tuple[str, ...] = field(default=())


class Loose(TypedDict):
    name: str
    pages: int


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Colour(Enum):
    RED = "red"


class Inner(BaseModel):
    model_config = ConfigDict(strict=True)
    number: int


@pydantic.dataclasses.dataclass(config=ConfigDict(strict=True))
class Point:
    x: int


PAGE = {"number": 1, "text": "a"}


def errors(payload_type: Any, value: object) -> tuple[str, ...]:
    with pytest.raises(InvalidPayload) as caught:
        converter(payload_type)(value)
    return caught.value.errors


@pytest.mark.parametrize("value", [None, 1, "text", {"a": [1]}, ABSENT])
def test_without_a_type_a_payload_passes_as_it_is(value):
    assert converter(None)(value) is value


def test_a_model_is_made_of_an_object():
    assert converter(Document)({"name": "a.pdf", "pages": 3}) == Document(name="a.pdf", pages=3)


def test_a_dataclass_is_made_of_an_object_with_all_that_it_holds():
    made = converter(Batch)(
        {"documents": [{"name": "a", "pages": 1}], "sent_at": "2026-01-31T08:15:00Z", "tags": ["x", "y"]}
    )
    assert made == Batch(
        documents=[Document(name="a", pages=1)], sent_at=datetime(2026, 1, 31, 8, 15, tzinfo=UTC), tags=("x", "y")
    )


def test_a_typed_dict_stays_a_dict():
    assert converter(Loose)({"name": "a", "pages": 1}) == {"name": "a", "pages": 1}


@pytest.mark.parametrize(
    ("payload_type", "value"),
    [(int, 3), (list[int], [1, 2]), (dict[str, Any], {"a": None}), (int | None, None), (str, "")],
)
def test_any_type_of_json_can_be_asked_for(payload_type, value):
    assert converter(payload_type)(value) == value


def test_a_discriminated_union_chooses_by_its_field():
    convert = converter(Annotated[Cat | Dog, Field(discriminator="kind")])
    assert isinstance(convert({"kind": "dog"}), Dog)


def test_constraints_of_an_annotation_are_kept():
    assert errors(Annotated[int, Field(gt=3)], 3) == ("payload: Input should be greater than 3",)


def test_every_error_is_told_with_its_place():
    assert errors(Batch, {"documents": [{"name": 1, "pages": 0}, {}], "tags": "x"}) == (
        "documents.0.name: Input should be a valid string",
        "documents.0.pages: Input should be greater than or equal to 1",
        "documents.1.name: Field required",
        "documents.1.pages: Field required",
        "tags: Input should be a valid array",
    )


@pytest.mark.parametrize("payload_type", [Document, Batch, Loose, int])
def test_errors_never_show_the_value(payload_type):
    assert "secret" not in "".join(errors(payload_type, "secret"))
    with pytest.raises(InvalidPayload) as caught:
        converter(payload_type)("secret")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("payload_type", [Document, int | None, Any, dict[str, Any]])
def test_an_absent_payload_fits_no_type(payload_type):
    assert errors(payload_type, ABSENT) == ("the message has no payload, and the handler's type asks for one",)


@pytest.mark.parametrize(
    ("payload_type", "value", "made"),
    [
        (datetime, "2026-01-31T08:15:00Z", datetime(2026, 1, 31, 8, 15, tzinfo=UTC)),
        (date, "2026-01-31", date(2026, 1, 31)),
        (timedelta, "PT90S", timedelta(seconds=90)),
        (UUID, "0190a5d2-0000-7000-8000-000000000000", UUID("0190a5d2-0000-7000-8000-000000000000")),
        (Decimal, "12.10", Decimal("12.10")),
        (Colour, "red", Colour.RED),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2], {1, 2}),
        (bytes, "abc", b"abc"),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (float, 3, 3.0),
        (Inner, {"number": 1}, Inner(number=1)),
        (Point, {"x": 1}, Point(x=1)),
    ],
    ids=str,
)
def test_a_strict_type_takes_what_json_has_for_it(payload_type, value, made):
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        field: payload_type

    assert converter(Strict)({"field": value}).field == made


@pytest.mark.parametrize(("payload_type", "value"), [(int, "1"), (str, 1), (bool, 1), (int, 1.0), (datetime, True)])
def test_a_strict_type_refuses_what_it_would_have_to_change(payload_type, value):
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        field: payload_type

    assert errors(Strict, {"field": value})


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**30), 10**30)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
@settings(max_examples=100)
def test_what_a_type_leaves_open_arrives_unchanged(value):
    made = LOOSE(value)
    assert made == value
    assert repr(made) == repr(value)  # 1 is not 1.0 or True, and -0.0 not 0.0


LOOSE = converter(Annotated[Any, "validated, and anything goes"])


@pytest.mark.parametrize("depth", [250, 500])
def test_a_foreign_payload_that_is_too_deep_for_a_type_does_not_fit(depth):
    value = 1
    for _ in range(depth):
        value = {"a": value}
    (told,) = errors(dict[str, Any], value)
    assert "nested too deep" in told or "recursion limit" in told


def test_null_is_a_payload_of_its_own():
    assert converter(int | None)(None) is None
    assert errors(Document, None)


def test_an_error_of_the_types_own_code_is_no_invalid_payload():
    class Careless(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def look_up(cls, value: str) -> str:
            raise KeyError(value)

    with pytest.raises(KeyError):
        converter(Careless)({"name": "a"})


def test_a_refusal_of_the_types_own_code_is_an_invalid_payload():
    class Strict(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def refuse(cls, value: str) -> str:
            raise ValueError("not today")

    assert errors(Strict, {"name": "a"}) == ("name: is refused by a validator of the type (value_error)",)


# --- What errors tell, and what not ------------------------------------------------------------------------------


class Tagged(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Zoned(BaseModel):
    zone: ZoneInfo


class Sized(BaseModel):
    size: ByteSize


class Careful(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def known(cls, value: str) -> str:
        raise ValueError(f"no customer '{value}' among 10")


class Asserted(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def known(cls, value: str) -> str:
        assert value == "us", f"{value} is not us"
        return value


class Partly(BaseModel):
    number: str

    @model_validator(mode="after")
    def known(self) -> "Partly":
        raise ValueError(f"no card ends in {self.number[-3:]}")


class Custom(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def known(cls, value: str) -> str:
        raise PydanticCustomError(
            "unknown", "not {most} nor {none} but {name}", {"most": 7, "none": "", "name": value[1:]}
        )


class CustomKind(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def known(cls, value: str) -> str:
        raise PydanticCustomError(f"no {value}", "no")


class Encoded(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    data: bytes


UtcOnly = Annotated[datetime, GetPydanticSchema(lambda _, handler: core_schema.datetime_schema(tz_constraint=0))]


@pytest.mark.parametrize(
    ("payload_type", "value", "told"),
    [
        (UUID, "secret", "payload: Input should be a valid UUID"),
        (Tagged, {"pet": {"kind": "secret"}}, "pet: 'kind' must be one of 'cat', 'dog'"),
        (Zoned, {"zone": "secret"}, "zone: is refused by a validator of the type (zoneinfo_str)"),
        (Sized, {"size": "7 secret"}, "size: is refused by a validator of the type (byte_size_unit)"),
        (Sized, {"size": "secret"}, "size: is refused by a validator of the type (byte_size)"),
        (Base64Bytes, "secret!", "payload: is refused by a validator of the type (base64_decode)"),
        (Careful, {"name": "secret"}, "name: is refused by a validator of the type (value_error)"),
        (Asserted, {"name": "secret"}, "name: is refused by a validator of the type (assertion_error)"),
        (Partly, {"number": "4111 222"}, "payload: is refused by a validator of the type (value_error)"),
        (Custom, {"name": "-secret"}, "name: is refused by a validator of the type (unknown)"),
        (CustomKind, {"name": "secret"}, "name: is refused by a validator"),
        (Encoded, {"data": "secret!"}, "data: Data should be valid base64"),
        (ImportString[Any], "secret.module", "payload: Invalid python path"),
        (Literal["a", "b"], "a b", "payload: Input should be 'a' or 'b'"),
        (
            dict[str, int],
            {"secret@example.org": "x"},
            "?: Input should be a valid integer, unable to parse string as an integer",
        ),
        (
            dict[str, int],
            {"pages": "x"},
            "pages: Input should be a valid integer, unable to parse string as an integer",
        ),
        (
            dict[str, int],
            {"4111111111111111": "x"},
            "?: Input should be a valid integer, unable to parse string as an integer",
        ),
        (
            dict[int, str],
            {"secret": "x"},
            "secret.[key]: Input should be a valid integer, unable to parse string as an integer",
        ),
        (
            list[int] | list[bool],
            ["secret"],
            "list[int].0: Input should be a valid integer, unable to parse string as an integer",
        ),
        (UtcOnly, "2026-01-31T08:15:00+01:00", "payload: Timezone offset of 0 required"),
    ],
)
def test_an_error_names_the_place_and_what_is_allowed_there_and_no_value(payload_type, value, told):
    assert errors(payload_type, value)[0] == told


SCALARS = (int, float, bool, date, datetime, time, timedelta, UUID, Decimal, Colour, IPv4Address, AnyUrl, Pattern, Path)


@pytest.mark.parametrize("payload_type", SCALARS, ids=lambda scalar: scalar.__name__)
@pytest.mark.parametrize("shaped", [lambda t: t, lambda t: list[t], lambda t: dict[str, t], lambda t: t | list[t]])
def test_no_type_shows_a_text_that_is_none_of_it(payload_type, shaped):
    secret = "(sécret-4711"
    for value in (secret, [secret], {"a": secret}, {secret: 1}, [[secret]]):
        told = told_of(shaped(payload_type), value)
        assert "cret" not in told
        assert "4711" not in told


def told_of(payload_type, value):
    try:
        converter(payload_type)(value)
    except InvalidPayload as error:
        return str(error)
    return ""


def test_of_many_errors_the_first_twenty_are_told_and_how_many_more_there_are():
    told = errors(list[int], ["x"] * 1_020)
    assert len(told) == 21
    assert told[19].startswith("19: ")
    assert told[20] == "and 1,000 more"
    assert len(errors(list[int], ["x"] * 20)) == 20
    assert errors(list[int], ["x"] * 21)[20] == "and 1 more"


def test_each_error_is_told_in_200_characters_at_most():
    choice = Literal[tuple(f"choice-{number}" for number in range(100))]
    assert [len(line) for line in errors(choice, "a")] == [200]
    assert len(errors(dict[str, int], {"a" * 60: "x"})[0]) > 60
    assert errors(dict[str, int], {"a" * 61: "x"})[0].startswith("?: ")


# --- TypedDicts --------------------------------------------------------------------------------------------------


def test_a_plain_typed_dict_is_validated():
    assert converter(plain_dicts.Page)({"number": 1, "text": "a"}) == {"number": 1, "text": "a"}
    assert errors(plain_dicts.Page, {"number": "one"}) == (
        "number: Input should be a valid integer, unable to parse string as an integer",
        "text: Field required",
    )


@pytest.mark.parametrize(
    ("payload_type", "good", "bad", "place"),
    [
        (list[plain_dicts.Page], [PAGE], [PAGE, {}], "1.number"),
        (dict[str, plain_dicts.Page], {"a": PAGE}, {"a": {}}, "a.number"),
        (plain_dicts.Page | None, None, {}, "number"),
        (
            Optional[plain_dicts.Page],  # noqa: UP045 - as people write it
            PAGE,
            {},
            "number",
        ),
        (tuple[plain_dicts.Page, ...], (PAGE,), [{}], "0.number"),
        (Annotated[list[plain_dicts.Page], Field(min_length=1)], [PAGE], [], "payload"),
        (plain_dicts.Book, {"title": "t", "pages": [PAGE]}, {"title": "t", "pages": [{}]}, "pages.0.number"),
        (
            plain_dicts.Part,
            {"name": "a", "parts": [{"name": "b", "parts": []}]},
            {"name": "a", "parts": [{}]},
            "parts.0.name",
        ),
        (plain_dicts.Boxed[plain_dicts.Page], {"inside": PAGE}, {"inside": {}}, "inside.number"),
        (plain_dicts.Boxed[int], {"inside": 1}, {"inside": "x"}, "inside"),
        (plain_dicts.Loose, {}, {"number": "x"}, "number"),
        (plain_dicts.Mixed, {"must": 1}, {"may": 1}, "must"),
        (plain_dicts.Mixed, {"must": 1, "may": 2, "might": 3}, {"must": 1, "might": "x"}, "might"),
        (plain_dicts.Holding, {"page": PAGE}, {"page": {}}, "page.number"),
        (plain_dicts.Closed, {"number": 1}, {"number": 1, "more": 2}, "more"),
    ],
    ids=str,
)
def test_plain_typed_dicts_work_wherever_they_stand(payload_type, good, bad, place):
    assert converter(payload_type)(good) == good
    assert errors(payload_type, bad)[0].startswith(f"{place}: ")


@pytest.mark.parametrize(
    "annotation", [int, list[Loose], dict[str, Document] | None, Literal["a"], Annotated[Loose, 1]]
)
def test_what_has_no_plain_typed_dict_in_it_stays_the_same(annotation):
    assert readable(annotation) is annotation
    assert readable(Loose) is Loose


def test_a_plain_typed_dict_with_a_name_that_is_not_defined_is_found_at_the_start():
    with pytest.raises(HandlerNotFound, match="its payload type cannot be validated: name 'Nowhere' is not defined"):
        converter(plain_dicts.Unresolved, "app:process")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes them from Python 3.12 on")
def test_a_plain_typed_dict_within_a_dataclass_is_refused_with_what_to_write():
    @dataclass
    class Shelf:
        page: plain_dicts.Page

    with pytest.raises(HandlerNotFound, match=r"use `typing_extensions\.TypedDict` instead"):
        converter(Shelf, "app:process")


class Opaque:
    """What pydantic knows nothing of."""


class Incomplete(BaseModel):
    other: "NowhereDefined"  # noqa: F821 - undefined on purpose


@pytest.mark.parametrize("payload_type", [Opaque, list[Opaque], "NowhereDefined", Incomplete, list["NowhereDefined"]])  # noqa: F821
def test_a_type_that_cannot_be_validated_is_found_at_the_start(payload_type):
    with pytest.raises(HandlerNotFound, match="handler 'app:process': its payload type cannot be validated") as caught:
        converter(payload_type, "app:process")
    assert caught.value.__cause__ is not None


def in_a_fresh_process(source: str) -> str:
    command = [sys.executable, "-c", source]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def test_pydantic_stays_unloaded_for_plain_json():
    source = "import sys; from towpath.payload import converter; converter(None); print('pydantic' in sys.modules)"
    assert in_a_fresh_process(source) == "False"


def test_without_pydantic_a_typed_handler_is_refused_with_the_repair():
    source = """
import sys
sys.modules["pydantic"] = None
from towpath.errors import HandlerNotFound
from towpath.payload import converter
from towpath.typed_dicts import readable
try:
    converter(int, "app:process")
except HandlerNotFound as error:
    print(error)
"""
    assert in_a_fresh_process(source) == (
        "handler 'app:process': its payload type is validated by pydantic, which is not installed; install pydantic"
    )
