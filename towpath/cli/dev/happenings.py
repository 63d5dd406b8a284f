"""What can happen while ``towpath dev`` runs: values that the session hears of, and that both displays show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from towpath.operating import DeliveryEntry, SubscriptionStats
from towpath.transports import Applied


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What became of a delivery. ``state`` is ``completed``, ``retried``, ``released``, ``dead``, ``discarded``,
    ``lease_lost`` or ``failed``. ``again_in`` is in seconds. ``traceback`` is the handler's, and empty for what it
    raised on purpose.
    """

    time: str
    subscription: str
    delivery_id: str
    message_id: str
    attempt: int | None
    state: str
    milliseconds: float | None
    partition_key: str | None
    reason: str
    again_in: float | None
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A line that a handler or the worker logged, such as that a handler does not load."""

    time: str
    level: str
    logger: str
    text: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A line that a handler printed."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The workers' process has started, and with it ``topology``'s handlers are imported anew."""

    topology: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The workers' process has ended, with what it said of why: a sentence, and a traceback where there is one.

    ``died`` says that it was ended by something else, such as a handler that exits; then it is started anew.
    """

    code: int
    sentence: str = ""
    traceback: str = ""
    died: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Files of the project have changed."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyApplied:
    """The topology is what the database has now; ``warnings`` are of what is allowed and probably not wanted."""

    applied: Applied
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The topology cannot be applied, for all the reasons in ``problem``; the database keeps the last good one."""

    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the session did at somebody's wish, or could not do."""

    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How every subscription stands, and some of the deliveries that are with workers."""

    stats: tuple[SubscriptionStats, ...]
    running: tuple[DeliveryEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed:
    """A key was pressed."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """Somebody wants an end: SIGINT, SIGTERM, SIGHUP, or a terminal that is gone."""


Told: TypeAlias = Moved | Logged | Printed | Started | Ended | Changed | TopologyApplied | Refused | Said | Counted
Happening: TypeAlias = Told | Pressed | Interrupted
