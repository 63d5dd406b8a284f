"""Payloads of the handler's own type: pydantic models, dataclasses, TypedDicts, and what does not fit them."""

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from towpath.errors import HandlerNotFound, InvalidPayload
from towpath.message import ABSENT
from towpath.payload import converter


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
        "tags: Input should be a valid tuple",
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

    assert errors(Strict, {"name": "a"}) == ("name: Value error, not today",)


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
try:
    converter(int, "app:process")
except HandlerNotFound as error:
    print(error)
"""
    assert in_a_fresh_process(source) == (
        "handler 'app:process': its payload type is validated by pydantic, which is not installed; install pydantic"
    )
