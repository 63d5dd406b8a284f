"""Records are to their users what ``dataclass(frozen=True, slots=True, kw_only=True)`` makes."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pytest

from towpath.frozen import Record

T = TypeVar("T")


class Point(metaclass=Record):
    """A point with more fields than are set one by one."""

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)


class Box(Generic[T], metaclass=Record):
    content: T
    size: int = 1
    name: str = ""


class Pair(metaclass=Record, kw_only=False):
    left: int
    right: int = 0


class Open(metaclass=Record, frozen=False):
    count: int = 0


class Wider(Open, metaclass=Record, frozen=False):
    extra: int = 5


class Nothing(metaclass=Record):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)


def three(kind: Any, *args: Any, **values: Any) -> list[Any]:
    """Objects as each of the three ways to make one makes them: step by step, compiling, compiled."""
    return [kind(*args, **values) for _ in range(3)]


def fresh() -> Any:
    return Record("Fresh", (), {"__annotations__": {"x": int, "y": int, "z": int}, "y": 2, "z": 3})


def test_the_first_objects_of_a_class_and_all_later_ones_are_alike():
    first, second, third = three(fresh(), x=1)
    assert first == second == third
    assert (third.x, third.y, third.z) == (1, 2, 3)
    assert type(first) is type(second) is type(third)


@pytest.mark.parametrize("place", range(3))
def test_no_field_can_be_assigned_or_deleted(place):
    made = three(fresh(), x=1)[place]
    for change in (lambda: setattr(made, "x", 5), lambda: setattr(made, "new", 5), lambda: delattr(made, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert made.x == 1
    assert not hasattr(made, "__dict__")


@pytest.mark.parametrize("place", range(3))
def test_wrong_arguments_are_refused_in_pythons_words(place):
    kind = fresh()
    for _ in range(place):
        kind(x=1)
    with pytest.raises(TypeError, match=r"missing 1 required keyword-only argument: 'x'"):
        kind()
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'w'"):
        kind(x=1, w=1)
    with pytest.raises(TypeError, match=r"positional argument"):
        kind(1)
    assert kind(x=1).x == 1


def test_each_object_has_a_default_of_its_own_where_a_factory_makes_it():
    made = three(Point, x=1)
    made[0].tags.append("mine")
    assert [one.tags for one in made] == [["mine"], [], []]


def test_equality_hash_and_text_go_by_the_fields_that_count():
    assert Point(x=1, note="a") == Point(x=1, note="b") != Point(x=2)
    assert Point(x=1) != Twin(x=1)
    assert hash(Pair(1, 2)) == hash(Pair(1, 2))
    assert repr(Point(x=1)) == repr(Twin(x=1)).replace("Twin", "Point")
    assert repr(Nothing()) == "Nothing()"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open())


def test_it_is_a_dataclass_to_those_who_ask():
    assert dataclasses.is_dataclass(Point)
    for found, wanted in zip(dataclasses.fields(Point), dataclasses.fields(Twin), strict=True):
        assert all(
            getattr(found, name) == getattr(wanted, name)
            for name in ("name", "type", "default", "default_factory", "init", "compare", "repr", "kw_only")
        )
    assert dataclasses.replace(Point(x=1), y=7) == Point(x=1, y=7)
    assert dataclasses.asdict(Point(x=1)) == dataclasses.asdict(Twin(x=1))
    assert Point.__dataclass_params__.frozen
    assert not Open.__dataclass_params__.frozen
    assert [one.name for one in dataclasses.fields(Wider())] == ["count", "extra"]


def test_it_is_copied_and_pickled():
    for made in (Point(x=1, tags=["a"]), Box(content=[1]), Pair(1), Wider(count=3), Nothing()):
        assert copy.copy(made) == copy.deepcopy(made) == pickle.loads(pickle.dumps(made)) == made


def test_a_generic_one_takes_its_parameter():
    assert Box[int](content=1) == Box(content=1)
    assert three(Box[str], content="a")[2].content == "a"


def test_positional_ones_match_by_position_and_others_by_name_only():
    match Pair(1, right=2):
        case Pair(left, right):
            assert (left, right) == (1, 2)
    assert Pair.__match_args__ == ("left", "right")
    assert Point.__match_args__ == ()


def test_an_open_one_can_be_changed_and_a_class_below_has_all_fields():
    made = three(Wider, count=1)[2]
    made.count, made.extra = 8, 9
    assert made == Wider(count=8, extra=9) != Open(count=8)


def test_its_compiled_signature_names_the_fields():
    three(Point, x=1)
    assert list(inspect.signature(Point).parameters) == ["x", "y", "tags", "note"]


def test_a_frozen_class_may_have_one_below_it_declared_either_way():
    class Plain(Point):
        extra: int = 5

    @dataclass(frozen=True, kw_only=True)
    class Decorated(Point):
        extra: int = 5

    for kind in (Plain, Decorated):
        made = three(kind, x=1, extra=6)[2]
        assert (made.x, made.y, made.extra) == (1, 2, 6)
        assert made == kind(x=1, extra=6) != kind(x=1)
        assert dataclasses.replace(made, x=3).x == 3
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.extra = 7


def test_the_signature_is_told_before_the_first_object_and_after():
    class Fresh(metaclass=Record, kw_only=False):
        left: int
        right: int = 0

    assert str(inspect.signature(Fresh)) == "(left: int, right: int = 0)"
    three(Fresh, 1)
    assert str(inspect.signature(Fresh)) == "(left: int, right: int = 0)"
    assert str(inspect.signature(Point)) == "(*, x: int, y: int = 2, tags: list[str] = Ellipsis, note: str = '')"


class Titled(Point):
    """Made of something else than its fields."""

    def __init__(self, title: str) -> None:
        super().__init__(x=len(title), note=title)


class Later(Pair):
    """As above, of a class whose few fields are set one by one."""

    def __init__(self, minutes: int) -> None:
        super().__init__(60 * minutes)


@pytest.mark.parametrize("made_before", range(4))
def test_a_class_below_may_be_made_its_own_way(made_before):
    above = fresh()

    class Own(above):  # type: ignore
        def __init__(self, text: str) -> None:
            super().__init__(x=len(text))

    for _ in range(made_before):
        above(x=1)
    for made in three(Own, "text"):
        assert type(made) is Own
        assert (made.x, made.y, made.z) == (4, 2, 3)
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.x = 5
    assert [type(made) for made in three(above, x=1)] == [above] * 3


def test_a_class_below_that_is_made_its_own_way_is_copied_and_pickled():
    for made in (*three(Titled, "a"), *three(Later, 2)):
        assert copy.copy(made) == pickle.loads(pickle.dumps(made)) == made
        assert type(copy.copy(made)) is type(made)


def test_what_is_to_be_done_after_its_fields_are_set_is_done():
    class Checked(Point):
        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x is negative")

    @dataclass(frozen=True, kw_only=True)
    class Decorated(Point):
        def __post_init__(self) -> None:
            self.tags.append("made")

    for _ in range(3):
        with pytest.raises(ValueError, match="x is negative"):
            Checked(x=-1)
        assert Decorated(x=1).tags == ["made"]


def test_a_field_may_be_called_as_what_makes_it():
    names = ("kind", "set", "open_kind", "FACTORY", "default_kind", "shape", "values", "args")
    named = Record("Named", (), {"__annotations__": dict.fromkeys(names, int), "kind": 7})
    for made in three(named, **{name: place for place, name in enumerate(names) if name != "kind"}):
        assert [getattr(made, name) for name in names] == [7, 1, 2, 3, 4, 5, 6, 7]


def test_the_standard_librarys_copy_with_changes_knows_it():
    assert Point(x=1).__replace__(y=7) == Point(x=1, y=7)
