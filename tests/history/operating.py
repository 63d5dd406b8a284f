"""An operator process of the run; SIGTERM ends it.

It replays and drops dead letters, drops what waits or is with a worker, pauses, resumes, and sweeps. Once the run is
quiet it only frees ordered keys from their dead letters.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.history.joining import connected, recorder_of, told_to_end, until_answered
from tests.history.plan import SUBSCRIPTIONS, Plan, quiet
from tests.history.recording import Recorder
from towpath.errors import TransportUnavailable
from towpath.operating import Operator, Pace, Selection, Warrant

WARRANT = Warrant(actor="the run", reason="for the test")


class Acting:
    """One operator's choices."""

    def __init__(self, operator: Operator, recorder: Recorder, random: Random) -> None:
        self._operator = operator
        self._recorder = recorder
        self._random = random

    def act(self) -> None:
        """One thing at random."""
        chance, subscription = self._random.random(), self._random.choice(SUBSCRIPTIONS)
        if chance < 0.6:
            self.tend_dead_letters(subscription)
        elif chance < 0.9:
            self._drop_one(subscription)
        else:
            self._operator.pause(subscription, WARRANT)
            time.sleep(self._random.uniform(0.1, 0.6))
            until_answered(lambda: self._operator.resume(subscription, WARRANT))

    def tend_dead_letters(self, subscription: str) -> None:
        """Replay most and drop the others, one by one or many at a time."""
        dead = [entry.delivery_id for entry in self._operator.dead_letters(subscription, 50)]
        while dead:
            size = self._random.choice([1, 1, 1, 10])
            chosen, dead = dead[:size], dead[size:]
            if self._random.random() < 0.7:
                self._replay(chosen)
            else:
                self._discard(chosen)

    def _drop_one(self, subscription: str) -> None:
        state = self._random.choice(["leased", "leased", "pending"])
        page = self._operator.deliveries(Selection(subscription=subscription, state=state), 20)
        if page:
            self._discard([self._random.choice(page).delivery_id])

    def _replay(self, deliveries: Sequence[str]) -> None:
        number = self._recorder.ask("order", kind="replay", deliveries=deliveries)
        count = self._operator.replay(Selection(delivery_ids=tuple(deliveries)), WARRANT, Pace())
        self._recorder.answer(number, at_once=count, requested=0)

    def _discard(self, deliveries: Sequence[str]) -> None:
        number = self._recorder.ask("order", kind="discard", deliveries=deliveries)
        answer = self._operator.discard(Selection(delivery_ids=tuple(deliveries)), WARRANT, Pace())
        self._recorder.answer(number, at_once=answer.at_once, requested=answer.requested)


def main(folder: Path, name: str) -> None:
    told = told_to_end()
    plan = Plan.of(folder)
    random, recorder = plan.random(name), recorder_of(folder, name)
    with connected(plan.url, recorder) as transport:
        acting = Acting(transport.operator(), recorder, random)
        while not told.wait(random.uniform(0.1, 0.4)):
            try:
                if quiet(folder).exists():
                    for subscription in SUBSCRIPTIONS:
                        transport.operator().resume(subscription, WARRANT)
                    acting.tend_dead_letters("ordered")
                else:
                    acting.act()
                transport.sweep()
            except TransportUnavailable:
                continue
