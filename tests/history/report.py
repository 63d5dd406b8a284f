"""A run in figures, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.history.chaos import Told
from tests.history.events import History
from tests.history.plan import Plan
from tests.history.view import View, Violation


def figures(plan: Plan, told: Told, history: History, violations: Sequence[Violation]) -> dict[str, Any]:
    """What is told of a run."""
    view = View(history)
    settles = Counter(settle.answer or "no answer" for settle in history.settles if settle.kind != "extend")
    renewals = Counter(settle.answer or "no answer" for settle in history.settles if settle.kind == "extend")
    again = sum(len(claims) - 1 for claims in view.claims_of.values())
    return {
        "seed": plan.seed,
        "database": "sqlite" if plan.is_sqlite else "postgresql",
        "seconds": {"storm": round(told.storm_seconds, 1), "quiet": round(told.quiet_seconds, 1)},
        "strikes": dict(told.strikes),
        "messages": dict(Counter(view.fates.values())),
        "publish calls": len(history.calls),
        "transactions of callers": len({c.transaction for c in history.calls if c.transaction is not None}),
        "keys": len({key for key in view.keys.values() if key is not None}),
        "claims": len(history.claims),
        "claims of what was handed out before": again,
        "handlers started": len(history.runs),
        "handlers killed": sum(run.ended_at is None for run in history.runs),
        "settles": dict(settles),
        "renewals": dict(renewals),
        "operator's orders": dict(Counter(order.kind for order in history.orders)),
        "deliveries ended": dict(Counter(ending.outcome for ending in history.endings)),
        "deliveries left": dict(Counter(history.open.values())),
        "processes that had to be killed at their end": told.stubborn,
        "violations": dict(Counter(violation.rule for violation in violations)),
    }


def table(facts: dict[str, Any]) -> str:
    """One line for each figure."""
    width = max(map(len, facts))
    return "\n".join(f"{name:<{width}}  {_told(value)}" for name, value in facts.items())


def _told(value: Any) -> str:
    if not isinstance(value, dict):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return ", ".join(f"{name} {count:,}" for name, count in sorted(value.items())) or "none"
