"""Towpath: write a handler and a topology once; run it on AWS Lambda and on a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from towpath.context import Context
from towpath.errors import Aborted, FatalError, TowpathError, TransientError
from towpath.message import ABSENT, Message, NewMessage, PayloadRef, PublishError, PublishResult
from towpath.outcome import Complete, DeadLetter, Outcome, Retry

if TYPE_CHECKING:
    from towpath.transports import connect

__all__ = [
    "ABSENT",
    "Aborted",
    "Complete",
    "Context",
    "DeadLetter",
    "FatalError",
    "Message",
    "NewMessage",
    "Outcome",
    "PayloadRef",
    "PublishError",
    "PublishResult",
    "Retry",
    "TowpathError",
    "TransientError",
    "connect",
]


def __getattr__(name: str) -> Any:
    """``connect`` on first use: a Lambda function imports this package and never needs it."""
    if name == "connect":
        from towpath.transports import connect

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is to use, ``connect`` among it."""
    return sorted(__all__)
