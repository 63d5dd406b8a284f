"""Whether a handler's source asks for pydantic."""

from pathlib import Path

import pytest

from bundling.annotations import require_pydantic
from bundling.errors import UnusableProject


def written(tree: Path, source: str, name: str = "shop.py") -> Path:
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text(source)
    return tree


@pytest.mark.parametrize(
    ("signature", "payload_type"),
    [
        ("def ship(message: Message[Order], context: Context)", "Message[Order]"),
        ("async def ship(message: Message[Order], context)", "Message[Order]"),
        ("def ship(message: 'Message[list[Order]]', context, /)", "Message[list[Order]]"),
        ("def ship(message: towpath.Message[dict], context)", "towpath.Message[dict]"),
        ("def ship(message: Annotated[Message[Order], 1], context)", "Message[Order]"),
    ],
)
def test_a_message_of_a_type_needs_pydantic_among_the_dependencies(
    tmp_path: Path, signature: str, payload_type: str
) -> None:
    tree = written(tmp_path, f"@logged\n{signature}: ...\n")
    with pytest.raises(UnusableProject) as caught:
        require_pydantic(tree, "shop:ship")
    assert str(caught.value) == (
        f"shop:ship takes {payload_type}, whose payload pydantic validates; add pydantic to the project's dependencies"
    )
    (tree / "pydantic").mkdir()
    require_pydantic(tree, "shop:ship")


@pytest.mark.parametrize(
    "source",
    [
        "def ship(message: Message, context): ...",
        "def ship(message: Message[Any], context): ...",
        "def ship(message: typing.Any, context): ...",
        "def ship(message, context): ...",
        "def ship(message: 'not an expression', context): ...",
        "def ship(*arguments): ...",
        "def other(message: Message[Order], context): ...",
        "from shop.shipping import ship",
        "def ship(",
    ],
)
def test_plain_json_and_what_the_source_does_not_show_need_nothing(tmp_path: Path, source: str) -> None:
    require_pydantic(written(tmp_path, source), "shop:ship")


def test_the_handlers_module_may_be_a_package(tmp_path: Path) -> None:
    tree = written(tmp_path, "def ship(message: Message[Order], context): ...", "shop/__init__.py")
    with pytest.raises(UnusableProject, match=r"takes Message\[Order\]"):
        require_pydantic(tree, "shop:ship")


def test_a_module_without_source_needs_nothing(tmp_path: Path) -> None:
    require_pydantic(tmp_path, "shop.compiled:ship")
