"""Turning a JSON payload into the type that a handler's annotation asks for."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

from towpath import limits
from towpath.errors import HandlerNotFound, InvalidPayload
from towpath.message import ABSENT, JsonValue
from towpath.patterns import Pattern

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Convert = Callable[[JsonValue], Any]

_LINE: Final = 200  # characters of one error
# A field's name, or pydantic's name for a member of a union, such as "list[int]"; other keys are somebody's data.
_NAME = Pattern(r"[^\W\d][\w.-]{0,59}(\[[\w\[\](), |.-]{0,60}\])?|\[key\]")
# What these say has a value after the first comma or colon.
_WITH_VALUES: Final = ("bytes_invalid_encoding", "import_error", "timezone_offset", "uuid_parsing")
_OF_VALIDATORS: Final = ("assertion_error", "value_error")
_KIND = Pattern(r"[a-z0-9_]{1,60}")


def converter(payload_type: Any, path: str = "") -> Convert:
    """How to make ``payload_type`` of a JSON value: the value itself for ``None``, else by pydantic's validation.

    Validated as JSON and not as Python's values, so that a strict type takes what JSON has for it: a list for a tuple,
    text for a time or a UUID. pydantic is imported here and only for a type that needs it, so that a handler of plain
    JSON starts without it. The result raises ``InvalidPayload`` with a line for each error, of which none shows a
    value of the payload. Raises ``HandlerNotFound`` for the handler at ``path`` when the type cannot be validated.
    """
    if payload_type is None:
        return _as_it_is
    adapter = _adapter(payload_type, path)
    from pydantic import ValidationError
    from pydantic_core import PydanticSerializationError, to_json

    def convert(value: JsonValue) -> Any:
        if value is ABSENT:
            raise InvalidPayload(["the message has no payload, and the handler's type asks for one"])
        try:
            return adapter.validate_json(to_json(value))
        except ValidationError as error:
            raise InvalidPayload(_lines(error.errors())) from None
        except PydanticSerializationError:  # a foreign message, since ours are not so deep
            raise InvalidPayload(["the payload is nested too deep for a type; take it as it is (Message)"]) from None

    return convert


def _as_it_is(value: JsonValue) -> JsonValue:
    return value


def _adapter(payload_type: Any, path: str) -> TypeAdapter[Any]:
    try:
        from pydantic import TypeAdapter
    except ModuleNotFoundError as error:
        problem = "its payload type is validated by pydantic, which is not installed; install pydantic"
        raise HandlerNotFound(path, problem) from error
    try:
        if sys.version_info < (3, 12):
            from towpath.typed_dicts import readable

            payload_type = readable(payload_type)
        adapter: TypeAdapter[Any] = TypeAdapter(payload_type)
        adapter.rebuild()  # else a name that is not defined would show only at the first message
    except Exception as error:
        problem, _, _ = str(error).partition("\n")
        raise HandlerNotFound(path, f"its payload type cannot be validated: {problem}") from error
    return adapter


def _lines(errors: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first errors, in few words; how many more there are."""
    lines = [f"{_place(error['loc'])}: {_problem(error)}"[:_LINE] for error in errors[: limits.PAYLOAD_ERRORS]]
    more = len(errors) - len(lines)
    return [*lines, f"and {more:,} more"] if more else lines


def _place(location: Sequence[int | str]) -> str:
    parts = (str(part) if isinstance(part, int) or _NAME.fullmatch(part) else "?" for part in location)
    return ".".join(parts) or "payload"


def _problem(error: Mapping[str, Any]) -> str:
    """What is wrong, without the value. Pydantic's own words show it in few cases; what validators of the type say may
    hold any part of the payload in any form, so that only the kind of their error is told.
    """
    from pydantic_core.core_schema import ErrorType

    kind, told = error["type"], str(error["msg"])
    if kind == "union_tag_invalid":
        known = error["ctx"]
        return f"{known['discriminator']} must be one of {known['expected_tags']}"
    if kind in _WITH_VALUES:
        return re.split("[,:]", told)[0]
    if kind in get_args(ErrorType) and kind not in _OF_VALIDATORS:
        return told
    return f"is refused by a validator of the type ({kind})" if _KIND.fullmatch(kind) else "is refused by a validator"
