"""Turning a JSON payload into the type that a handler's annotation asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from towpath.errors import HandlerNotFound, InvalidPayload
from towpath.message import ABSENT, JsonValue

Convert = Callable[[JsonValue], Any]


def converter(payload_type: Any, path: str = "") -> Convert:
    """How to make ``payload_type`` of a JSON value: the value itself for ``None``, else by pydantic's validation.

    pydantic is imported here and only for a type that needs it, so that a handler of plain JSON starts without it.
    The result raises ``InvalidPayload`` with one line for each error. Raises ``HandlerNotFound`` for the handler at
    ``path`` when the type cannot be validated.
    """
    if payload_type is None:
        return _as_it_is
    try:
        from pydantic import TypeAdapter, ValidationError
    except ModuleNotFoundError as error:
        problem = "its payload type is validated by pydantic, which is not installed; install pydantic"
        raise HandlerNotFound(path, problem) from error
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(payload_type)
        adapter.rebuild(raise_errors=True)  # else a name that is not defined would show only at the first message
    except Exception as error:
        problem = str(error).partition("\n")[0]
        raise HandlerNotFound(path, f"its payload type cannot be validated: {problem}") from error

    def convert(value: JsonValue) -> Any:
        if value is ABSENT:
            raise InvalidPayload(["the message has no payload, and the handler's type asks for one"])
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            raise InvalidPayload(
                [_line(item["loc"], item["msg"]) for item in error.errors(include_input=False)]
            ) from None

    return convert


def _as_it_is(value: JsonValue) -> JsonValue:
    return value


def _line(location: tuple[int | str, ...], problem: str) -> str:
    where = ".".join(str(part) for part in location) or "payload"
    return f"{where}: {problem}"
