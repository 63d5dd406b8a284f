"""Finding a handler by its import path, and reading from its signature what it wants."""

from __future__ import annotations

import functools
import importlib
import inspect
import typing
from collections.abc import Callable
from types import SimpleNamespace, UnionType
from typing import Any, Final

from towpath.context import Context
from towpath.errors import HandlerNotFound
from towpath.frozen import Record
from towpath.message import Message
from towpath.patterns import Pattern

HANDLER_PATH: Final = Pattern(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_UNIONS: Final = (typing.Union, UnionType)


class Handler(metaclass=Record):
    """A loaded handler. ``payload_type`` is the annotation's ``T`` of ``Message[T]``, or ``None`` for plain JSON."""

    path: str
    function: Callable[[Message[Any], Any], Any]
    payload_type: object


def is_handler_path(text: str) -> bool:
    """Whether ``text`` has the form ``package.module:name`` (``:name.name`` for a method of an object)."""
    module, _, names = text.partition(":")
    if text.isascii() and all(part.isidentifier() for part in (*module.split("."), *names.split("."))):
        return True  # as each is that a topology has; to compile the pattern for it would take a cold start's time
    return HANDLER_PATH.fullmatch(text) is not None


def load(path: str) -> Handler:
    """Import the handler that ``path`` names. Raises ``HandlerNotFound`` with the reason when that cannot work."""
    if not is_handler_path(path):
        raise HandlerNotFound(path, "must have the form 'package.module:function'")
    module_name, _, names = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            raise HandlerNotFound(path, f"there is no module {error.name!r} on the import path") from error
        raise HandlerNotFound(path, f"importing {module_name!r} needs the module {error.name!r}") from error
    except (Exception, SystemExit) as error:  # a script without a main guard ends with sys.exit()
        problem = f"importing {module_name!r} raised {type(error).__name__}: {error}"
        raise HandlerNotFound(path, problem) from error
    try:
        for name in names.split("."):
            found = getattr(found, name)
    except AttributeError as error:
        raise HandlerNotFound(path, f"{module_name!r} has no {names!r}") from error
    except Exception as error:  # a property, or a module's own __getattr__
        raise HandlerNotFound(path, f"reading {names!r} raised {type(error).__name__}: {error}") from error
    try:
        return inspected(found, path)
    except HandlerNotFound:
        raise
    except Exception as error:  # attributes that the object makes up, and fails to
        raise HandlerNotFound(path, f"looking at {names!r} raised {type(error).__name__}: {error}") from error


def inspected(function: Any, path: str = "") -> Handler:
    """The handler that ``function`` is. Raises ``HandlerNotFound`` when it cannot take (message, context)."""
    path = path or f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', function)}"
    if inspect.isclass(function):
        raise HandlerNotFound(path, "is a class; name a function, or a method of an object that is made of it")
    if not callable(function):
        raise HandlerNotFound(path, f"is a {type(function).__name__}, not a function")
    parameters = _parameters(path, function)
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004 - not asked whether it is there
    if any(inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in (function, called)):
        raise HandlerNotFound(path, "is a generator; a handler returns an outcome and yields nothing")
    if len(parameters) > 1:
        _check_context(path, function, parameters[1])
    return Handler(path=path, function=function, payload_type=_payload_type(path, function, parameters[0]))


def _parameters(path: str, function: Any) -> list[str]:
    """The names of the parameters that take the message and the context; one name for a starred one."""
    names = "what it takes cannot be read"
    try:
        signature = inspect.signature(function)
        names = f"it takes ({', '.join(signature.parameters)})"
        signature.bind(None, None)
    except (TypeError, ValueError) as error:
        raise HandlerNotFound(path, f"must take two arguments, (message, context); {names}") from error
    return [p.name for p in signature.parameters.values() if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]


def _payload_type(path: str, function: Any, parameter: str) -> object:
    try:
        annotation = _annotation(_innermost(function), parameter)
    except NameError as error:
        repair = "import or define it where it is there at run time too, outside `if TYPE_CHECKING`"
        raise HandlerNotFound(path, f"its annotations cannot be read: {error}; {repair}") from error
    except Exception as error:
        raise HandlerNotFound(path, f"its annotations cannot be read: {error}") from error
    annotation = getattr(annotation, "__value__", annotation)  # of a name made by a type statement
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if annotation is None or annotation is Any or annotation is Message:
        return None
    if typing.get_origin(annotation) is not Message:
        raise HandlerNotFound(path, f"its first argument {_refused(annotation)}")
    (payload_type,) = typing.get_args(annotation)
    return None if payload_type is Any else payload_type


def _check_context(path: str, function: Any, parameter: str) -> None:
    """Refuse a second argument that is meant for something else than the context, so far as its annotation tells."""
    try:
        annotation = _annotation(_innermost(function), parameter)
    except Exception:  # noqa: BLE001 - it may be there for type checkers only
        return
    if _excludes_context(annotation):
        raise HandlerNotFound(path, f"its second argument is the Context, not {_named(annotation)}")


def _excludes_context(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    wanted = annotation if origin in (None, typing.Annotated, *_UNIONS) else origin
    if wanted is Any or not isinstance(wanted, type):
        return False
    return typing.Protocol not in wanted.__bases__ and not issubclass(Context, wanted)


def _refused(annotation: Any) -> str:
    members = typing.get_args(annotation) if typing.get_origin(annotation) in _UNIONS else ()
    if members and all(Message in (member, typing.get_origin(member)) for member in members):
        return "is a choice of messages; write Message[A | B], a message with a choice of payloads"
    return f"must be annotated Message or Message[T], not {_named(annotation)}"


def _named(annotation: Any) -> str:
    return annotation.__qualname__ if inspect.isclass(annotation) else str(annotation)


def _innermost(function: Any) -> Any:
    """The function whose annotations count: inside partials, decorators and objects that can be called."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.isroutine(function):
            return function
        else:
            function = type(function).__call__


def _annotation(function: Any, parameter: str) -> Any:
    """What ``parameter`` is annotated with, resolved; ``None`` when it is not. The other annotations need not resolve:
    those for type checkers only (``if TYPE_CHECKING``) never do.
    """
    annotations = getattr(function, "__annotations__", {})
    if parameter not in annotations:
        return None
    alone = SimpleNamespace(__annotations__={parameter: annotations[parameter]})
    names = getattr(function, "__globals__", {})
    return typing.get_type_hints(alone, globalns=names, include_extras=True)[parameter]
