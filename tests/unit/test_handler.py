"""Finding handlers by path, and reading from their signatures what they want."""

import functools
import itertools
import re
import sys
import textwrap
from collections.abc import Callable
from typing import Annotated, Any, Optional, Protocol, TypeVar, Union

import pytest
from typing_extensions import TypeAliasType

from towpath import Context, Message
from towpath.errors import HandlerNotFound
from towpath.handler import Handler, inspected, is_handler_path, load

NUMBERS = itertools.count()


@pytest.fixture
def module(tmp_path, monkeypatch) -> Callable[[str], str]:
    """Writes source text as a module that can be imported, and answers its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(source: str) -> str:
        name = f"written_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        return name

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("written_"):
            del sys.modules[name]


def named(found: object) -> str:
    """For the name of a test: without addresses, so that every process collects the same names."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(found))


def refusal(path_or_function: Any) -> str:
    with pytest.raises(HandlerNotFound) as caught:
        load(path_or_function) if isinstance(path_or_function, str) else inspected(path_or_function)
    return str(caught.value)


class Report:
    """A payload type."""


# --- Paths -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["app:process", "app.documents:process", "a_1.b:Thing.method", "_a:_b", "aä:bö"])
def test_a_handler_path_is_a_module_and_names_within_it(path):
    assert is_handler_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "app",
        "app:",
        ":process",
        "app.process",
        "app:process()",
        "app:a:b",
        "a..b:c",
        "a.:c",
        "1a:b",
        "a:1b",
        "a b:c",
        "a:b\n",
        "a/b:c",
    ],
)
def test_anything_else_is_no_handler_path(path):
    assert not is_handler_path(path)
    assert refusal(path) == f"handler {path!r}: must have the form 'package.module:function'"


def test_a_function_is_loaded_by_its_path(module):
    name = module("def process(message, context): return 'ran'")
    handler = load(f"{name}:process")
    assert (handler.path, handler.payload_type) == (f"{name}:process", None)
    assert handler.function(None, None) == "ran"


def test_a_method_of_a_module_level_object_is_loaded_by_its_path(module):
    name = module(
        """
        class Converter:
            def __init__(self): self.ran = "ran"
            def convert(self, message, context): return self.ran
        class Shelf: converter = Converter()
        converter = Converter()
        """
    )
    assert load(f"{name}:converter.convert").function(None, None) == "ran"
    assert load(f"{name}:Shelf.converter.convert").function(None, None) == "ran"


def test_static_and_class_methods_are_handlers(module):
    name = module(
        """
        class Converter:
            @staticmethod
            def still(message, context): return "static"
            @classmethod
            def made(cls, message, context): return cls.__name__
        """
    )
    assert load(f"{name}:Converter.still").function(None, None) == "static"
    assert load(f"{name}:Converter.made").function(None, None) == "Converter"


def test_a_module_that_is_not_there_is_told_apart_from_one_that_it_needs(module):
    name = module("import surely_not_installed")
    assert refusal("nowhere.at_all:f") == "handler 'nowhere.at_all:f': there is no module 'nowhere' on the import path"
    assert refusal(f"{name}:f") == f"handler '{name}:f': importing {name!r} needs the module 'surely_not_installed'"


def test_a_missing_submodule_is_named_in_full():
    assert (
        refusal("towpath.nothing:f")
        == "handler 'towpath.nothing:f': there is no module 'towpath.nothing' on the import path"
    )


def test_a_path_into_a_module_that_is_no_package_is_told(module):
    name = module("")
    assert f"there is no module '{name}.inner'" in refusal(f"{name}.inner:f")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("raise RuntimeError('no database')", "RuntimeError: no database"),
        ("from towpath import nothing_like_it", "ImportError: cannot import name"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
    ],
)
def test_a_module_that_fails_while_it_is_imported_is_told_with_its_error(module, source, why):
    name = module(source)
    assert f"importing {name!r} raised {why}" in refusal(f"{name}:f")


def test_a_name_that_is_not_in_the_module_is_told(module):
    name = module("class A: pass")
    assert refusal(f"{name}:process") == f"handler '{name}:process': {name!r} has no 'process'"
    assert refusal(f"{name}:A.process") == f"handler '{name}:A.process': {name!r} has no 'A.process'"


def test_a_name_that_raises_when_it_is_read_is_told_with_its_error(module):
    name = module(
        """
        class Settings:
            @property
            def process(self): raise RuntimeError("no database")
        settings = Settings()
        def __getattr__(name): raise ValueError(f"nothing like {name}")
        """
    )
    assert refusal(f"{name}:settings.process").endswith("reading 'settings.process' raised RuntimeError: no database")
    assert refusal(f"{name}:other").endswith("reading 'other' raised ValueError: nothing like other")


def test_an_interrupt_while_a_module_is_imported_passes_through(module):
    with pytest.raises(KeyboardInterrupt):
        load(f"{module('raise KeyboardInterrupt')}:process")


@pytest.mark.parametrize("missing", ["None", "''"])
def test_a_module_that_hides_which_module_it_lacks_is_told_all_the_same(module, missing):
    name = module(f"raise ModuleNotFoundError('hidden', name={missing})")
    assert f"importing {name!r} needs the module" in refusal(f"{name}:f")


def test_a_module_is_not_taken_for_another_whose_name_it_begins_with(module):
    name = module("raise ModuleNotFoundError(name=__name__[:-1])")
    assert refusal(f"{name}:f").endswith(f"importing {name!r} needs the module {name[:-1]!r}")


def test_the_cause_of_a_failed_import_is_kept(module):
    name = module("1 / 0")
    with pytest.raises(HandlerNotFound) as caught:
        load(f"{name}:f")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.path == f"{name}:f"


# --- What can be called ----------------------------------------------------------------------------------------


def plain(message, context):
    """Takes the two."""


def with_default(message, context, extra=1):
    """Takes the two, and has a default."""


def any_number(*args, **kwargs):
    """Takes all."""


def keyword_default(message, context, *, verbose=False):
    """Takes the two, and an option."""


def positional_only(message, context, /):
    """Takes the two by position."""


class Convertible:
    """An object that can be called."""

    def __call__(self, message: Message[Report], context: Context) -> None:
        """Takes the two."""


@pytest.mark.parametrize(
    "function",
    [plain, with_default, any_number, keyword_default, positional_only, Convertible(), lambda m, c: None],
    ids=named,
)
def test_whatever_takes_message_and_context_is_a_handler(function):
    assert inspected(function).function is function


def takes_one(message):
    """Takes one."""


def takes_three(message, context, third):
    """Takes three."""


def needs_keyword(message, context, *, verbose):
    """Needs an option."""


def keywords_only(*, message, context):
    """Takes the two by name."""


@pytest.mark.parametrize(
    ("function", "taken"),
    [
        (takes_one, "(message)"),
        (takes_three, "(message, context, third)"),
        (needs_keyword, "(message, context, verbose)"),
        (keywords_only, "(message, context)"),
        (lambda: None, "()"),
        (Convertible.__call__, "(self, message, context)"),
        (functools.partial(plain, context=None), "(message, context)"),
        (functools.partial(plain, None), "(context)"),
    ],
    ids=named,
)
def test_whatever_cannot_be_called_with_two_arguments_is_refused_with_what_it_takes(function, taken):
    assert refusal(function).endswith(f"must take two arguments, (message, context); it takes {taken}")


class Unreadable:
    """A callable of which Python cannot say what it takes."""

    __signature__ = "none"

    def __call__(self, message, context):
        """Takes the two."""


@pytest.mark.parametrize("function", [Unreadable(), dict.update, min], ids=named)
def test_what_cannot_say_what_it_takes_is_refused(function):
    assert "must take two arguments, (message, context); " in refusal(function)
    assert refusal(Unreadable()).endswith("; what it takes cannot be read")


@pytest.mark.parametrize(("thing", "kind"), [(7, "int"), (None, "NoneType"), ("text", "str"), (functools, "module")])
def test_what_is_no_function_is_refused(module, thing, kind):
    with pytest.raises(HandlerNotFound, match=f"is a {kind}, not a function"):
        inspected(thing)


@pytest.mark.parametrize("thing", [Convertible, Report, dict])
def test_a_class_is_refused_with_what_to_name(thing):
    assert refusal(thing).endswith("is a class; name a function, or a method of an object that is made of it")


def test_an_unbound_method_is_refused(module):
    name = module("class A:\n def process(self, message, context): pass")
    assert refusal(f"{name}:A.process").endswith("it takes (self, message, context)")


def yields(message, context):
    yield


async def yields_async(message, context):
    yield


class Yields:
    """A callable whose call is a generator."""

    def __call__(self, message, context):
        yield


@pytest.mark.parametrize("function", [yields, yields_async, functools.partial(yields), Yields()], ids=named)
def test_a_generator_is_refused(function):
    assert "is a generator" in refusal(function)


def test_a_handler_without_a_path_is_named_by_module_and_name():
    assert inspected(plain).path == f"{__name__}:plain"
    assert inspected(plain, "app:process").path == "app:process"
    assert refusal(takes_one).startswith(f"handler '{__name__}:takes_one'")
    assert "Convertible" in inspected(Convertible()).path


# --- async -----------------------------------------------------------------------------------------------------


async def waits(message, context):
    """A coroutine function."""


class Waits:
    """A callable whose call is a coroutine function."""

    async def __call__(self, message, context):
        """Waits."""

    async def method(self, message, context):
        """Waits."""


@pytest.mark.parametrize(
    "function",
    [waits, Waits(), Waits().method, functools.partial(waits), functools.partial(Waits()), functools.lru_cache(waits)],
    ids=named,
)
def test_a_coroutine_function_is_a_handler_in_every_shape(function):
    assert inspected(function).function is function


# --- The payload type ------------------------------------------------------------------------------------------


def wants(annotation: object) -> Callable[..., None]:
    def process(message, context):
        """Wants what its annotation says."""

    process.__annotations__["message"] = annotation
    return process


def payload_type(function: Any) -> object:
    return inspected(function).payload_type


AnyT = TypeVar("AnyT")


@pytest.mark.parametrize("annotation", [Message, Message[Any], Any])
def test_an_annotation_without_a_type_means_plain_json(annotation):
    assert payload_type(wants(annotation)) is None


@pytest.mark.parametrize(
    "annotation", [Report, int, list[int], dict[str, Any], int | None, Annotated[int, "positive"], AnyT]
)
def test_the_payload_type_is_what_message_is_parametrised_with(annotation):
    assert payload_type(wants(Message[annotation])) == annotation


def test_the_annotations_of_a_type_are_not_lost():
    assert payload_type(wants(Message[list[Annotated[int, "positive"]]])) == list[Annotated[int, "positive"]]


def test_an_annotated_message_counts_as_the_message():
    assert payload_type(wants(Annotated[Message[Report], "a note"])) is Report


@pytest.mark.parametrize(
    ("annotation", "named"),
    [
        (int, "int"),
        (dict, "dict"),
        (Report, "Report"),
        (None, "NoneType"),
        (Message | None, "towpath.message.Message | None"),
        (list[Message], "list[towpath.message.Message]"),
        (Context, "Context"),
        ("int", "int"),
    ],
)
def test_a_first_argument_of_another_type_is_refused(annotation, named):
    told = f"its first argument must be annotated Message or Message[T], not {named}"
    assert refusal(wants(annotation)).endswith(told)


@pytest.mark.parametrize("annotation", [Message[int] | Message[str], Union[Message[int], Message]])  # noqa: UP007
def test_a_choice_of_messages_is_refused_with_what_to_write(annotation):
    assert refusal(wants(annotation)).endswith(
        "is a choice of messages; write Message[A | B], a message with a choice of payloads"
    )


def test_a_name_that_a_type_statement_makes_counts_as_what_it_stands_for():
    assert payload_type(wants(TypeAliasType("Letter", Message[Report]))) is Report


# --- The second argument ---------------------------------------------------------------------------------------


def takes(annotation: object) -> Callable[..., None]:
    def process(message, context):
        """Takes what its annotation says."""

    process.__annotations__["context"] = annotation
    return process


class Stops(Protocol):
    """What a handler may ask of its context."""

    def check(self) -> None:
        """Raise when it must stop."""


@pytest.mark.parametrize(
    "annotation",
    [Context, Any, object, None, Stops, Context | None, Optional[Context], Annotated[Context, "mine"], "Nowhere"],  # noqa: UP045
    ids=named,
)
def test_a_second_argument_that_may_be_the_context_is_accepted(annotation):
    function = takes(annotation)
    if annotation is None:
        del function.__annotations__["context"]
    assert inspected(function)


@pytest.mark.parametrize(
    ("annotation", "named"),
    [
        (int, "int"),
        (Message, "Message"),
        (Message[int], "towpath.message.Message[int]"),
        (dict[str, Any], "dict[str, typing.Any]"),
        (Report, "Report"),
    ],
)
def test_a_second_argument_of_another_type_is_refused(annotation, named):
    assert refusal(takes(annotation)).endswith(f"its second argument is the Context, not {named}")


def test_swapped_arguments_are_refused():
    def swapped(context: Context, message: Message[int]):
        """Takes the two the wrong way round."""

    assert "its second argument is the Context, not towpath.message.Message[int]" in refusal(swapped)


def test_other_arguments_may_have_any_type():
    def process(message, context, retries: int = 3, *rest: str, verbose: bool = False, **more: int):
        """Has more arguments, all optional."""

    def starred(message: Message[Report], *rest: object, **more: int):
        """Takes the context among the rest."""

    def both(*both: Message[Report], verbose: bool = False):
        """Takes both in one, and has an option."""

    def all_of_them(*all_of_them: Message[Report], **more: int):
        """Takes whatever there is."""

    assert inspected(process).payload_type is None
    assert [payload_type(function) for function in (starred, both, all_of_them)] == [Report] * 3


def test_the_names_of_the_arguments_do_not_matter():
    def process(m: Message[Report], c):
        """Names them in short."""

    assert payload_type(process) is Report


def test_a_starred_argument_has_a_type_too():
    def process(*both: Message[Report]):
        """Takes any number."""

    assert payload_type(process) is Report


class Tool:
    """Has methods."""

    def method(self, message: Message[Report], context: Context) -> None:
        """A method."""

    @classmethod
    def made(cls, message: Message[Report], context: Context) -> None:
        """A class method."""


def typed(message: Message[Report], context: Context, scale: float = 1) -> None:
    """A typed function."""


def scaled(scale: float, message: Message[Report], context: Context) -> None:
    """A function with an argument before the message."""


def logged(function):
    """A decorator that says what it wraps."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Logged:
    """A decorator that is an object, and keeps what it wraps as ``func``, as many do."""

    def __init__(self, func):
        functools.update_wrapper(self, func)
        self.func = func

    def __call__(self, *args, **kwargs):
        return self.func(*args, **kwargs)


class Renamed:
    """A callable that happens to have an attribute ``func``, which is none of our business."""

    def __init__(self):
        self.func = wants(int)

    def __call__(self, message: Message[Report], context: Context) -> None:
        """Takes the two."""


@pytest.mark.parametrize(
    "function",
    [
        Convertible(),
        Tool().method,
        Tool.made,
        functools.partial(typed, scale=2),
        functools.partial(scaled, 2),
        functools.partial(Tool().method),
        functools.partial(Convertible()),
        functools.partial(functools.partial(scaled, 2)),
        logged(typed),
        logged(logged(typed)),
        logged(Tool().method),
        functools.lru_cache(typed),
        Logged(typed),
        functools.partial(logged(scaled), 2),
        Renamed(),
    ],
    ids=named,
)
def test_the_type_is_found_through_methods_partials_and_decorators(function):
    assert payload_type(function) is Report


def test_a_decorated_coroutine_function_keeps_its_type():
    @functools.wraps(waits)
    def wrapper(message: Message[Report], context: Context):
        return waits(message, context)

    assert inspected(wrapper).function is wrapper


def test_postponed_annotations_are_read(module):
    name = module(
        """
        from __future__ import annotations
        from towpath import Context, Message, Outcome
        class Batch: pass
        def process(message: Message[Batch], context: Context) -> Outcome | None: pass
        async def quoted(message: "Message[Batch]", context: "Context"): pass
        def listed(message: Message[list[Batch]], context): pass
        """
    )
    batch = load(f"{name}:process").payload_type
    assert batch.__name__ == "Batch"
    assert load(f"{name}:quoted").payload_type is batch
    assert load(f"{name}:listed").payload_type == list[batch]


def test_only_the_messages_annotation_has_to_resolve(module):
    name = module(
        """
        from __future__ import annotations
        from typing import TYPE_CHECKING
        from towpath import Message
        if TYPE_CHECKING:
            from towpath import Context, Outcome
        def process(message: Message[int], context: Context) -> Outcome: pass
        def untyped(message, context: Context) -> Outcome: pass
        """
    )
    assert load(f"{name}:process").payload_type is int
    assert load(f"{name}:untyped").payload_type is None


def test_a_payload_type_that_does_not_resolve_is_refused(module):
    name = module(
        """
        from __future__ import annotations
        from towpath import Message
        def process(message: Message[Batch], context): pass
        def broken(message: "Message[", context): pass
        """
    )
    assert refusal(f"{name}:process").endswith(
        "its annotations cannot be read: name 'Batch' is not defined; "
        "import or define it where it is there at run time too, outside `if TYPE_CHECKING`"
    )
    assert "its annotations cannot be read: " in refusal(f"{name}:broken")


def test_a_loaded_handler_is_a_value():
    assert inspected(plain) == Handler(path=f"{__name__}:plain", function=plain, payload_type=None)


class Evasive:
    """Can be called, and raises at every look."""

    def __call__(self, message, context):
        return None

    @property
    def __signature__(self):
        raise RuntimeError("no look")


evasive = Evasive()


def test_an_object_that_raises_when_it_is_looked_at_is_refused():
    with pytest.raises(HandlerNotFound, match="looking at 'evasive' raised RuntimeError: no look"):
        load(f"{__name__}:evasive")
