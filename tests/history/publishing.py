"""A publisher process of the run.

Each call is made of the seed and its number alone, so that a process that takes the place of a killed one goes on with
the next, and may ask again for one that was not answered, as a careful publisher does.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random

from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from local_transport import DatabaseTransport
from local_transport.connections import Database
from tests.history.joining import connected, recorder_of
from tests.history.plan import TOPIC, Plan
from tests.history.recording import Recorder
from towpath import NewMessage
from towpath.errors import TowpathError
from towpath.message import PublishResult

HOT = 20  # keys that every third message has
AGAIN_SECONDS = 0.2


def calls_before(folder: Path, number: int) -> tuple[int, int, int | None]:
    """The next call's index, how many messages were sent, and the index of a last call that has no answer."""
    sent: dict[int, int] = {}
    unanswered: dict[tuple[str, int], int] = {}
    for path in folder.glob(f"publisher{number}-*.jsonl"):
        for line in path.read_bytes().splitlines(keepends=True):
            event = json.loads(line) if line.endswith(b"\n") else {}
            if event.get("of") == "publish":
                sent[event["index"]] = max(sent.get(event["index"], 0), len(event["messages"]))
                unanswered[path.stem, event["call"]] = event["index"]
            elif event.get("what") == "answered":
                unanswered.pop((path.stem, event["call"]), None)
    last = max(sent, default=-1)
    return last + 1, sum(sent.values()), last if last in unanswered.values() else None


class Publisher:
    """Makes the calls of one publisher."""

    def __init__(self, plan: Plan, number: int, transport: DatabaseTransport, recorder: Recorder) -> None:
        self._plan = plan
        self._number = number
        self._transport = transport
        self._recorder = recorder
        self._database = Database(plan.url)  # the user's own
        self._made = 0

    def publish(self, first: int, sent: int, doubtful: int | None) -> None:
        """From the call ``first`` on, until this publisher has sent its part, of which ``sent`` are done."""
        if doubtful is not None and self._random(doubtful, "again").random() < 0.7:
            self._by_itself(doubtful, self.messages(doubtful))
        index, quota = first, self._plan.messages // self._plan.publishers
        while sent < quota:
            random, messages = self._random(index, "how"), self.messages(index)
            sent += len(messages)
            chance = random.random()
            if chance < 0.25:
                self._in_a_transaction(index, messages, random)
            elif chance < 0.29 and index > 0:
                sent -= len(messages)
                self._by_itself(index, self.messages(index - 1))
            else:
                self._by_itself(index, messages)
            time.sleep(random.random() * self._plan.pause_seconds)
            index += 1

    def _random(self, index: int, purpose: str) -> Random:
        return self._plan.random("publisher", self._number, index, purpose)

    def messages(self, index: int) -> list[NewMessage]:
        """The messages of a call, ids included."""
        random = self._random(index, "messages")
        count = 1 if random.random() < 0.4 else random.randint(2, 40)
        return [self._message(random, f"{self._number}-{index}-{position}") for position in range(count)]

    def _message(self, random: Random, name: str) -> NewMessage:
        chance, key = random.random(), f"key-{random.randrange(self._plan.keys)}"
        if random.random() < 0.33:
            key = f"key-{random.randrange(min(HOT, self._plan.keys))}"
        once = random.random() < 0.08
        return NewMessage(
            payload={"name": name},
            id=str(uuid.UUID(int=random.getrandbits(128), version=4)),
            partition_key=None if chance < 0.1 else "k" * 201 if chance < 0.11 else key,
            deduplication_key=f"once-{random.randrange(max(10, self._plan.messages // 50))}" if once else None,
            deduplication_ttl=timedelta(days=1) if once else None,
        )

    def _ask(self, index: int, messages: Sequence[NewMessage], transaction: str | None) -> int:
        facts = [(new.id, new.partition_key, new.deduplication_key) for new in messages]
        return self._recorder.ask("publish", index=index, transaction=transaction, messages=facts)

    def _answer(self, call: int, results: Sequence[PublishResult]) -> None:
        answers = [(r.status, r.id, None if r.error is None else r.error.code) for r in results]
        self._recorder.answer(call, answers=answers)

    def _by_itself(self, index: int, messages: Sequence[NewMessage]) -> None:
        """Publish in a transaction of Towpath's own, again until it is known what became of it."""
        while True:
            call = self._ask(index, messages, None)
            results = self._transport.publish(TOPIC, messages)
            self._answer(call, results)
            if not any(r.error is not None and r.error.code == "TransportUnavailable" for r in results):
                return
            time.sleep(AGAIN_SECONDS)

    def _in_a_transaction(self, index: int, messages: Sequence[NewMessage], random: Random) -> None:
        """Publish in a transaction of one's own, in a few calls; what the database refuses is rolled back."""
        self._made += 1
        transaction = f"{self._number}-{index}-{time.monotonic_ns()}"
        size = max(1, len(messages) // random.randint(1, 3))
        try:
            with self._database.translated(), self._database.engine.connect() as connection:
                for start in range(0, len(messages), size):
                    self._enlist(index, messages[start : start + size], transaction, connection)
                time.sleep(random.random() * (0.02 if self._plan.is_sqlite else 0.3))
                if random.random() < 0.35:
                    connection.rollback()
                    return
                call = self._recorder.ask("commit", transaction=transaction)
                connection.commit()
                self._recorder.answer(call)
        except (SQLAlchemyError, TowpathError):
            time.sleep(AGAIN_SECONDS)

    def _enlist(self, index: int, messages: Sequence[NewMessage], transaction: str, connection: Connection) -> None:
        call = self._ask(index, messages, transaction)
        self._answer(call, self._transport.publish(TOPIC, messages, connection=connection))


def main(folder: Path, number: int) -> None:
    plan = Plan.of(folder)
    before = calls_before(folder, number)
    recorder = recorder_of(folder, f"publisher{number}")
    with connected(plan.url, recorder) as transport:
        Publisher(plan, number, transport, recorder).publish(*before)
