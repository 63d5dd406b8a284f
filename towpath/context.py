"""What a handler is given beside its message: who it is, how long it has, and whether to go on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from towpath import limits
from towpath.errors import Aborted, AbortReason
from towpath.frozen import Record
from towpath.json_values import json_fault
from towpath.message import ABSENT, Clock, JsonValue, NewMessage, PublishResult


class Progress(metaclass=Record):
    """What one heartbeat reports. ``checkpoint`` is ``ABSENT`` when the heartbeat leaves the last one as it is."""

    percent: float | None = None
    note: str = ""
    checkpoint: JsonValue = ABSENT


class AbortSignal:
    """Tells one running handler to stop. The first reason stands; setting it again changes nothing. Thread-safe."""

    __slots__ = ("_call", "_reason")
    _setting: Final = threading.Lock()  # one for all of them: each delivery has a signal, and few are ever set

    def __init__(self) -> None:
        self._reason: AbortReason | None = None
        self._call: Callable[[], None] | None = None

    @property
    def reason(self) -> AbortReason | None:
        """Why the handler must stop, or ``None`` while it may go on."""
        return self._reason

    def set(self, reason: AbortReason) -> None:
        """Ask the handler to stop."""
        with self._setting:
            is_first = self._reason is None
            if is_first:
                self._reason = reason
            call = self._call
        if is_first and call is not None:
            call()

    def then(self, call: Callable[[], None]) -> None:
        """Have ``call`` made when the handler is asked to stop, by whoever asks; at once when it was asked already."""
        with self._setting:
            self._call = call
            is_set = self._reason is not None
        if is_set:
            call()


class Log(Protocol):
    """The part of ``logging.LoggerAdapter`` that a handler is promised."""

    def debug(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at level DEBUG."""

    def info(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at level INFO."""

    def warning(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at level WARNING."""

    def error(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at level ERROR."""

    def exception(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at level ERROR with the current exception."""


Publish = Callable[[str, Sequence[NewMessage]], list[PublishResult]]


class Beat(Protocol):
    """Renews a running delivery's lease and keeps its progress; answers whether the handler may go on."""

    def __call__(self, progress: Progress) -> bool:
        """Report ``progress``; ``False`` when the lease is lost or the delivery cancelled."""


class Context(metaclass=Record):
    """The delivery that a handler works on. ``deadline`` is aware, in UTC; ``checkpoint`` is what an earlier
    attempt saved by ``heartbeat``, or ``None``.
    """

    subscription: str
    delivery_id: str
    attempt: int
    max_attempts: int
    is_replay: bool
    correlation_id: str
    deadline: datetime | None
    checkpoint: JsonValue
    log: Log
    _abort: AbortSignal
    _beat: Beat
    _publish: Publish
    _clock: Clock

    @property
    def aborted(self) -> bool:
        """Whether the handler should stop; ``check()`` raises when it should."""
        return self._abort.reason is not None

    @property
    def abort_reason(self) -> AbortReason | None:
        """``cancelled``, ``lease_lost``, ``max_processing``, ``shutdown``, or ``None`` while the handler may go on."""
        return self._abort.reason

    def check(self) -> None:
        """Raise ``Aborted`` when the lease is lost, the delivery cancelled, or the worker shuts down."""
        reason = self._abort.reason
        if reason is not None:
            raise Aborted(reason)

    def remaining(self) -> timedelta | None:
        """The time until ``deadline``, never negative; ``None`` when there is no deadline."""
        return None if self.deadline is None else max(timedelta(0), self.deadline - self._clock())

    def heartbeat(self, *, percent: float | None = None, note: str = "", checkpoint: JsonValue = ABSENT) -> bool:
        """Renew the lease and report progress; answers whether to go on.

        ``percent`` is 0 to 100, ``note`` at most 500 characters, ``checkpoint`` any JSON of at most 4,000 bytes,
        given back as ``context.checkpoint`` on the next attempt by transports with the capability
        ``keeps_progress``. Raises ``ValueError`` at once when one is anything else. On Lambda it makes no call.

        On shutdown the progress is still kept, for the attempt that goes on from it, and the answer is no. A handler
        that was aborted for another reason renews and reports nothing.
        """
        fault = _percent_fault(percent) or _note_fault(note) or _checkpoint_fault(checkpoint)
        if fault is not None:
            raise ValueError(fault)
        if self._abort.reason not in (None, "shutdown"):
            return False
        return self._beat(Progress(percent=percent, note=note, checkpoint=checkpoint)) and not self.aborted

    def publish(self, topic: str, *messages: NewMessage) -> list[PublishResult]:
        """Publish as part of handling: each message has this one's id as its causation, and carries its correlation and
        its trace on, unless it says its own.

        One result for each message, as a transport's ``publish`` answers: a rejected one raises nothing. A message is
        sent at once, and again when the handler is retried; give it an ``id`` or a ``deduplication_key`` where that
        matters.
        """
        return self._publish(topic, messages)


def _percent_fault(percent: object) -> str | None:
    if percent is None:
        return None
    if isinstance(percent, bool) or not isinstance(percent, int | float):
        return f"percent must be 0 to 100, not a {type(percent).__name__}"
    return None if 0 <= percent <= 100 else f"percent must be 0 to 100, not {percent}"


def _note_fault(note: object) -> str | None:
    if not isinstance(note, str):
        return f"note must be text, not a {type(note).__name__}"
    if len(note) > limits.NOTE_LENGTH:
        return f"note must be at most {limits.NOTE_LENGTH} characters, not {len(note)}"
    return None


def _checkpoint_fault(checkpoint: JsonValue) -> str | None:
    if checkpoint is ABSENT:
        return None
    fault = json_fault(checkpoint, "checkpoint")
    if fault is not None:
        return fault.text
    size = len(json.dumps(checkpoint, separators=(",", ":"), ensure_ascii=False).encode())
    if size > limits.CHECKPOINT_BYTES:
        return f"checkpoint must be at most {limits.CHECKPOINT_BYTES} bytes of JSON, not {size}"
    return None
