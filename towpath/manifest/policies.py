"""IAM policies as data, with placeholders for what only a deployment knows."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One IAM statement. Resources and conditions may hold ``${partition}``, ``${region}``, ``${account}``."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The policies of people and programs outside the functions."""

    publisher: tuple[Statement, ...]
    worker: tuple[Statement, ...]
    operator: tuple[Statement, ...]
