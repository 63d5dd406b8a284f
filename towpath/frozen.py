"""Frozen dataclasses that take no time to define: their code is not written when a module is imported.

``@dataclass(frozen=True, slots=True)`` writes six methods as text, has them compiled, and makes its class twice. On a
small Lambda function that is a millisecond for each class, at every cold start.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, replace
from typing import Any, Final, cast, dataclass_transform

_SHARED: Final = "__record__"  # where a class keeps its ``_Shape``
_FEW_FIELDS: Final = 2  # up to which it is quicker to set each past the guard than to lift the guard for all
_set: Final = object.__setattr__


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Record(type):
    """The metaclass of what is declared as a dataclass is: fields by their annotations, and defaults.

    ``class Page(metaclass=Record)`` is what ``@dataclass(frozen=True, slots=True, kw_only=True)`` makes, to those who
    use it: frozen, with ``__slots__``, equality, hash and text by its fields; pickled and copied; and a dataclass to
    ``fields``, ``replace``, ``asdict`` and ``is_dataclass``. ``frozen=False`` and ``kw_only=False`` go behind the
    metaclass. Every annotation is a field (there are no ``ClassVar``), and ``__post_init__`` gets no ``InitVar``. A
    class below one has slots already, so ``slots=True`` is refused there.

    The first object of a class is made step by step. Its ``__init__`` is compiled for the second, so that what a
    process has one of (its settings, its parts) costs nothing either.
    """

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        frozen: bool = True,
        kw_only: bool = True,
    ) -> Record:
        """The class, with ``__slots__`` for its own fields."""
        own = dict.fromkeys(namespace.get("__annotations__", ()), MISSING)
        for each in own:
            own[each] = namespace.pop(each, MISSING)
        inherited = [getattr(base, _SHARED).defaults for base in reversed(bases) if isinstance(base, Record)]
        shape = _Shape({each: default for part in (*inherited, own) for each, default in part.items()}, frozen, kw_only)
        shared = _METHODS | (_FROZEN if frozen else {}) | (_GUARD if frozen and not inherited else {})
        shared["__match_args__"] = () if kw_only else tuple(shape.defaults)
        kind: Any = super().__new__(mcls, name, bases, {**shared, "__slots__": tuple(own), _SHARED: shape, **namespace})
        if "__init__" not in namespace:
            kind.__init__ = _first_initializer(kind, shape)
        return cast("Record", kind)

    @property
    def __signature__(cls) -> inspect.Signature:
        """What ``help`` and editors show, before and after ``__init__`` is compiled."""
        shape, hints = _shape(cls), _hints(cls)
        kind = inspect.Parameter.KEYWORD_ONLY if shape.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = []
        for name in shape.defaults:
            default = shape.default(name) if shape.factory(name) is MISSING else ...
            shown = inspect.Parameter.empty if default is MISSING else default
            parameters.append(inspect.Parameter(name, kind, default=shown, annotation=hints[name]))
        return inspect.Signature(parameters)


class _Shape:
    """What a class's methods have to know: its fields in order, each with its default, ``MISSING`` or a ``Field``."""

    __slots__ = ("defaults", "frozen", "kw_only")

    def __init__(self, defaults: dict[str, Any], frozen: bool, kw_only: bool) -> None:  # noqa: FBT001 - as dataclass has them
        self.defaults = defaults
        self.frozen = frozen
        self.kw_only = kw_only

    def required(self) -> Iterator[str]:
        return (name for name in self.defaults if self.default(name) is self.factory(name) is MISSING)

    def default(self, name: str) -> Any:
        given = self.defaults[name]
        return given.default if isinstance(given, Field) else given

    def factory(self, name: str) -> Any:
        given = self.defaults[name]
        return given.default_factory if isinstance(given, Field) else MISSING

    def compared(self) -> Iterator[str]:
        return (name for name, given in self.defaults.items() if not isinstance(given, Field) or given.compare)

    def shown(self) -> Iterator[str]:
        return (name for name, given in self.defaults.items() if not isinstance(given, Field) or given.repr)


def _shape(record: Any) -> _Shape:
    return cast("_Shape", record.__record__)


def _first_initializer(kind: Any, shape: _Shape) -> Callable[..., None]:
    """``__init__`` of the first object of ``kind``, until there is a compiled one.

    A class below, which may have an ``__init__`` of its own, calls it for an object of another class than ``kind``.
    """

    def make_first(self: Any, /, *args: Any, **values: Any) -> None:
        kind.__init__ = make_second
        if args or not shape.defaults.keys() >= values.keys() >= set(shape.required()):
            kind.__init__(self, *args, **values)  # it knows what to do, or to say
            return
        for name in shape.defaults:
            if name in values:
                value = values[name]
            else:
                factory = shape.factory(name)
                value = shape.default(name) if factory is MISSING else factory()
            _set(self, name, value)
        if hasattr(kind, "__post_init__"):
            self.__post_init__()

    def make_second(self: Any, /, *args: Any, **values: Any) -> None:
        kind.__init__ = _initializer(kind, shape)
        kind.__init__(self, *args, **values)

    return make_first


def _initializer(kind: Any, shape: _Shape) -> Callable[..., None]:
    """Compiled from text, as dataclasses' own is; nothing but names of fields goes into the text.

    What else the text names begins with ``__record_``, so that a field may be called anything.
    """
    scope: dict[str, Any] = {"__record_set": _set, "__record_kind": kind, "__record_factory": MISSING}
    parameters, values = [], {}
    for name in shape.defaults:
        value, factory = shape.default(name), shape.factory(name)
        default = f"__record_default_{name}"
        scope[default] = factory if value is MISSING else value
        is_optional = value is not MISSING or factory is not MISSING
        shown_default = "__record_factory" if factory is not MISSING else default
        parameters.append(f"{name}={shown_default}" if is_optional else name)
        values[name] = name if factory is MISSING else f"{default}() if {name} is __record_factory else {name}"
    if shape.frozen and len(values) > _FEW_FIELDS:
        scope["__record_open"] = _without_guard(kind)
    star = ["*"] if shape.kw_only and parameters else []
    lines = [*_assignments(values, frozen=shape.frozen), *["self.__post_init__()"] * hasattr(kind, "__post_init__")]
    body = "\n    ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(['self', *star, *parameters])}):\n    {body}\n", scope)  # noqa: S102 - own text
    made_function: Callable[..., None] = scope["__init__"]
    made_function.__qualname__ = f"{kind.__qualname__}.__init__"
    return made_function


def _assignments(values: Mapping[str, str], *, frozen: bool) -> list[str]:
    """Lines that set each field.

    To set an attribute of a frozen object takes four times as long as of an open one. So while it is made the object
    is of a class with the same slots and without the guard: nobody else has it yet. One of a class below may have other
    slots, and is to stay what it is.
    """
    plainly = [f"self.{name} = {value}" for name, value in values.items()]
    past_the_guard = [f"__record_set(self, {name!r}, {value})" for name, value in values.items()]
    if not frozen:
        return plainly
    if len(values) <= _FEW_FIELDS:
        return past_the_guard
    lifted = ['__record_set(self, "__class__", __record_open)', *plainly, "self.__class__ = __record_kind"]
    return [
        "if self.__class__ is __record_kind:",
        *[f"    {line}" for line in lifted],
        "else:",
        *[f"    {line}" for line in past_the_guard],
    ]


def _without_guard(kind: Any) -> type:
    kept = {name: kind.__dict__[name] for name in ("__slots__", "__orig_bases__") if name in kind.__dict__}
    return type.__new__(Record, kind.__name__, kind.__bases__, {**kept, "__setattr__": _set})


def _hints(kind: Any) -> dict[str, Any]:
    """The annotations of all fields, inherited ones first."""
    found: dict[str, Any] = {}
    for ancestor in reversed(kind.__mro__):
        if isinstance(ancestor, Record):
            found |= inspect.get_annotations(ancestor)
    return found


class _Declared:
    """What ``dataclasses`` looks for in a class: worked out when it looks, by itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, record: object, kind: Any) -> Any:
        shape, hints = _shape(kind), _hints(kind)
        namespace = {name: default for name, default in shape.defaults.items() if default is not MISSING}
        namespace |= {"__annotations__": hints, "__doc__": kind.__name__, "__module__": kind.__module__}
        is_frozen = shape.frozen and self._name == "__dataclass_params__"  # which two methods would be written for
        declare = dataclass(init=False, repr=False, eq=False, frozen=is_frozen, kw_only=shape.kw_only)
        found: Any = declare(type(kind.__name__, (), namespace))
        value = getattr(found, self._name)
        setattr(kind, self._name, value)
        return value


def _equal(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in _shape(self).compared())


def _hash(self: Any) -> int:
    return hash(tuple([getattr(self, name) for name in _shape(self).compared()]))


def _text(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in _shape(self).shown())
    return f"{type(self).__qualname__}({shown})"


def _refuse_change(_self: object, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _replaced(self: Any, /, **changes: Any) -> Any:
    return replace(self, **changes)


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in _shape(self).defaults]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(_shape(self).defaults, state, strict=True):
        _set(self, name, value)


_METHODS: Final[dict[str, Any]] = {
    "__eq__": _equal,
    "__hash__": None,
    "__repr__": _text,
    "__replace__": _replaced,  # which copy.replace asks for, from Python 3.13 on
    "__getstate__": _state,
    "__setstate__": _restore,
    "__dataclass_fields__": _Declared("__dataclass_fields__"),
    "__dataclass_params__": _Declared("__dataclass_params__"),
}
_FROZEN: Final[dict[str, Any]] = {
    "__hash__": _hash,
}
_GUARD: Final[dict[str, Any]] = {  # a class below has it already; there dataclasses' own decorator adds its own
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_deletion,
}
