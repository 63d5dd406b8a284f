"""TypedDicts of ``typing``, whose annotations are postponed, as a user's module has them."""

from __future__ import annotations

from typing import Generic, NotRequired, Required, TypedDict, TypeVar

ItemT = TypeVar("ItemT")


class Page(TypedDict):
    number: int
    text: str


class Book(TypedDict):
    title: str
    pages: list[Page]


class Part(TypedDict):
    name: str
    parts: list[Part]


class Boxed(TypedDict, Generic[ItemT]):
    inside: ItemT


class Loose(TypedDict, total=False):
    number: int


class Mixed(Loose):
    must: Required[int]
    may: NotRequired[int]
    might: NotRequired[int]


class Holding(TypedDict, total=False):
    page: Required[Page]
    other: NotRequired[Page]


class Closed(TypedDict):
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - as pydantic documents it
    number: int


class Unresolved(TypedDict):
    other: Nowhere  # noqa: F821 - undefined on purpose
