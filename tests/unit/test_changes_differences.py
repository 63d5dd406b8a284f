"""Where two records differ: the deepest places, and none only where they are equal."""

from dataclasses import dataclass
from typing import Any

import pytest

from towpath.changes.differences import ABSENT, differences


@dataclass(frozen=True, kw_only=True)
class Named:
    name: str
    size: int = 1


@dataclass(frozen=True, kw_only=True)
class Held:
    one: Named | None = None
    several: tuple[Any, ...] = ()
    mapped: dict[str, Any] | None = None


def found(old: object, new: object) -> list[tuple[str, object, object]]:
    return [(".".join(d.path), d.old, d.new) for d in differences(old, new)]


A, B, C = Named(name="a"), Named(name="b"), Named(name="c")


def test_equal_records_do_not_differ() -> None:
    assert found(Held(one=A, mapped={"x": 1}), Held(one=Named(name="a"), mapped={"x": 1})) == []


def test_records_are_compared_field_by_field() -> None:
    assert found(Held(one=A), Held(one=Named(name="z", size=2))) == [("one.name", "a", "z"), ("one.size", 1, 2)]


def test_a_record_that_is_there_on_one_side_only_is_one_difference() -> None:
    assert found(Held(one=A), Held()) == [("one", A, None)]
    assert found(Held(), Held(one=A)) == [("one", None, A)]


def test_records_of_different_types_are_one_difference() -> None:
    assert found(A, Held()) == [("", A, Held())]


def test_mappings_are_compared_key_by_key() -> None:
    assert found(Held(mapped={"x": 1, "y": 2}), Held(mapped={"y": 3, "z": None})) == [
        ("mapped.x", 1, ABSENT),
        ("mapped.y", 2, 3),
        ("mapped.z", ABSENT, None),
    ]


def test_named_records_in_a_list_are_compared_by_name() -> None:
    bigger = Named(name="b", size=2)
    assert found(Held(several=(A, B)), Held(several=(bigger, C))) == [
        ("several.a", A, ABSENT),
        ("several.b.size", 1, 2),
        ("several.c", ABSENT, C),
    ]
    assert found(Held(several=()), Held(several=(A,))) == [("several.a", ABSENT, A)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("x", "y"), ("x", "z")),  # text has no name
        ((), ("x",)),
        ((A, A), (A, A, B)),  # names that do not tell apart
        ((A, B), (B, A)),  # another order alone
        ((A, "x"), (A, "y")),
    ],
)
def test_other_lists_differ_as_a_whole(old: tuple[Any, ...], new: tuple[Any, ...]) -> None:
    assert found(Held(several=old), Held(several=new)) == [("several", old, new)]


def test_what_is_absent_shows_as_nothing() -> None:
    assert repr(ABSENT) == "nothing"
