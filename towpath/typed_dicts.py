"""TypedDicts of ``typing``, made readable for pydantic, which refuses them before Python 3.12."""

from __future__ import annotations

import functools
import operator
import typing
from types import UnionType, new_class
from typing import Any


def readable(annotation: Any) -> Any:
    """``annotation`` with a copy by ``typing_extensions`` for each TypedDict of ``typing`` in it, however deep.

    Within other classes (dataclasses, models) they stay as they are, and pydantic says so. Raises ``NameError`` when
    one has an annotation that does not resolve.
    """
    return _copied(annotation, {})


def _copied(annotation: Any, copies: dict[Any, Any]) -> Any:
    """``copies`` has those that are made already, or under way: a TypedDict may be within itself."""
    if typing.is_typeddict(annotation):  # not so of those of typing_extensions
        return copies[annotation] if annotation in copies else _typed_dict(annotation, copies)
    origin, before = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None:
        return annotation
    generic = _copied(origin, copies)
    after = tuple(_copied(argument, copies) for argument in before)
    if generic is origin and all(new is old for new, old in zip(after, before, strict=True)):
        return annotation
    if origin is typing.Annotated:
        return typing.Annotated[(after[0], *annotation.__metadata__)]
    if origin is UnionType:
        return functools.reduce(operator.or_, after)
    return generic[after if len(after) > 1 else after[0]]


def _typed_dict(original: Any, copies: dict[Any, Any]) -> Any:
    """A TypedDict of the same name, keys and options. Which keys are required is told by their qualifiers too, which
    ``typing`` does not see where annotations are postponed.
    """
    import typing_extensions

    generic: Any = typing.Generic
    bases: list[Any] = [typing_extensions.TypedDict]
    if getattr(original, "__parameters__", ()):
        bases.append(generic[original.__parameters__])
    copy: Any = new_class(original.__name__, bases)
    copies[original] = copy
    copy.__module__, copy.__qualname__ = original.__module__, original.__qualname__
    if hasattr(original, "__pydantic_config__"):
        copy.__pydantic_config__ = original.__pydantic_config__
    hints = typing.get_type_hints(original, include_extras=True)
    copy.__annotations__ = {name: _copied(hint, copies) for name, hint in hints.items()}
    copy.__required_keys__, copy.__optional_keys__ = original.__required_keys__, original.__optional_keys__
    return copy
