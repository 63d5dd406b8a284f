"""Towpath: write a handler and a topology once; run it on AWS Lambda and on a database."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know the name; importing typing for it takes longer than all else here

if TYPE_CHECKING:
    from towpath.context import Context
    from towpath.errors import Aborted, FatalError, TowpathError, TransientError
    from towpath.message import ABSENT, Message, NewMessage, PayloadRef, PublishError, PublishResult
    from towpath.outcome import Complete, DeadLetter, Outcome, Retry
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

if not TYPE_CHECKING:  # to a type checker a wrong name is a mistake
    _HOMES = {
        "context": ["Context"],
        "errors": ["Aborted", "FatalError", "TowpathError", "TransientError"],
        "message": ["ABSENT", "Message", "NewMessage", "PayloadRef", "PublishError", "PublishResult"],
        "outcome": ["Complete", "DeadLetter", "Outcome", "Retry"],
        "transports": ["connect"],
    }

    def __getattr__(name: str) -> object:
        """A public name on its first use: importing this package takes no time, whatever of it is needed."""
        from importlib import import_module

        for home, names in _HOMES.items():
            if name in names:
                found = globals()[name] = getattr(import_module(f"towpath.{home}"), name)
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        """What there is to use."""
        return sorted(__all__)
