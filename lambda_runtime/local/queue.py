"""An SQS queue in memory: receive counts, visibility, message groups, redrive, as SQS documents them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from aws_transport.settlement import SqsAttribute
from towpath import limits
from towpath.testing import LocalClock

Refusal = Literal["ReceiptHandleIsInvalid", "MessageNotInflight", "InvalidParameterValue"]
Redrive = Callable[["Sent"], None]

_DEDUPLICATION_SECONDS: Final = 300  # Amazon SQS developer guide, "Exactly-once processing in Amazon SQS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message as it was sent. A FIFO queue takes one ``deduplication_id`` once in five minutes."""

    body: str
    group_id: str | None = None
    deduplication_id: str | None = None
    attributes: Mapping[str, SqsAttribute] = field(default_factory=dict)
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    sent_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message as a receive hands it out. Times are seconds since 1970."""

    sent: Sent
    receipt: str
    receives: int
    sent_at: float
    first_received_at: float


@dataclass(slots=True, kw_only=True)
class _Held:
    sent: Sent
    sent_at: float
    visible_at: float
    receives: int = 0
    first_received_at: float = 0.0
    receipt: str = ""


class LocalQueue:
    """One queue. Usable from several threads.

    A received message hides for ``visibility_seconds``, or as long as ``hide`` says; while one of a FIFO group is
    hidden, none of the group is received. A message that was received ``max_receive_count`` times goes to ``redrive``
    at the next receive, with its id, as SQS's redrive policy moves it.
    """

    def __init__(
        self,
        clock: LocalClock,
        *,
        fifo: bool = False,
        visibility_seconds: float = 30,
        max_receive_count: int | None = None,
        redrive: Redrive | None = None,
    ) -> None:
        self.fifo = fifo
        self._clock = clock
        self._visibility_seconds = visibility_seconds
        self._max_receive_count = max_receive_count
        self._redrive = redrive
        self._messages: dict[str, _Held] = {}
        self._deduplicated: dict[str, float] = {}
        self._lock = threading.Lock()

    def send(self, *messages: Sent) -> None:
        """Send, in order. A repeat on a FIFO queue is taken and dropped."""
        with self._lock:
            now = self._clock.seconds()
            for sent in messages:
                if self.fifo and sent.group_id is None:
                    raise ValueError("a message for a FIFO queue needs a group_id")
                if self._is_repeat(sent, now):
                    continue
                sent_at = self._clock.now().timestamp() if sent.sent_at is None else sent.sent_at
                self._messages[sent.id] = _Held(sent=sent, sent_at=sent_at, visible_at=now)

    def receive(self, limit: int) -> list[Received]:
        """At most ``limit`` visible messages, which hide from now on."""
        with self._lock:
            now = self._clock.seconds()
            self._set_aside(now)
            received: list[Received] = []
            for held in self._visible(now):
                if len(received) == limit:
                    break
                received.append(self._hand_out(held, now))
            return received

    def delete(self, receipt: str) -> Refusal | None:
        """Delete the message, or say why not. An old receipt of a standard queue is taken and deletes nothing."""
        with self._lock:
            held = self._held_by(receipt)
            if held is None or held.receipt != receipt:
                return None
            if self.fifo and held.visible_at <= self._clock.seconds():
                return "ReceiptHandleIsInvalid"
            del self._messages[held.sent.id]
            return None

    def hide(self, receipt: str, seconds: int) -> Refusal | None:
        """Have the message become visible in so many seconds, or say why not."""
        if not 0 <= seconds <= limits.SQS_MAX_VISIBILITY_SECONDS:
            return "InvalidParameterValue"
        with self._lock:
            now = self._clock.seconds()
            held = self._held_by(receipt)
            if held is None or held.receipt != receipt or held.visible_at <= now:
                return "MessageNotInflight"
            held.visible_at = now + seconds
            return None

    @property
    def messages(self) -> Sequence[Sent]:
        """All that the queue holds, in the order of sending."""
        with self._lock:
            return [held.sent for held in self._messages.values()]

    def seconds_until_visible(self) -> float | None:
        """In how many seconds the next message can be received, 0 for at once; ``None`` when the queue is empty."""
        with self._lock:
            now = self._clock.seconds()
            return min((max(held.visible_at - now, 0.0) for held in self._messages.values()), default=None)

    def _is_repeat(self, sent: Sent, now: float) -> bool:
        if not self.fifo or sent.deduplication_id is None:
            return False
        if self._deduplicated.get(sent.deduplication_id, now) > now:
            return True
        self._deduplicated[sent.deduplication_id] = now + _DEDUPLICATION_SECONDS
        return False

    def _set_aside(self, now: float) -> None:
        most = self._max_receive_count
        if most is None or self._redrive is None:
            return
        for held in [h for h in self._messages.values() if h.visible_at <= now and h.receives >= most]:
            del self._messages[held.sent.id]
            self._redrive(held.sent)

    def _visible(self, now: float) -> list[_Held]:
        locked = {h.sent.group_id for h in self._messages.values() if h.visible_at > now} if self.fifo else set()
        return [h for h in self._messages.values() if h.visible_at <= now and h.sent.group_id not in locked]

    def _hand_out(self, held: _Held, now: float) -> Received:
        held.receives += 1
        held.first_received_at = held.first_received_at or self._clock.now().timestamp()
        held.receipt = f"{held.sent.id}#{held.receives}"
        held.visible_at = now + self._visibility_seconds
        return Received(
            sent=held.sent,
            receipt=held.receipt,
            receives=held.receives,
            sent_at=held.sent_at,
            first_received_at=held.first_received_at,
        )

    def _held_by(self, receipt: str) -> _Held | None:
        return self._messages.get(receipt.partition("#")[0])
