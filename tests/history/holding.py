"""Careless holders, a process of the run; SIGTERM ends them.

Each thread claims without a worker, and does what no worker would: it sits on deliveries until their leases are over,
or until somebody else holds them or their keys, settles and renews all the same, and settles twice.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random

import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.tables import delivery, lane
from tests.history.joining import connected, recorder_of, told_to_end, until_answered
from tests.history.plan import SUBSCRIPTIONS, Plan, quiet
from tests.history.recording import ObservedConsumer, ObservedTransport, Recorder, token_of
from towpath.errors import TransportUnavailable
from towpath.ports import Extension
from towpath.settlement import (
    CancelAcknowledgement,
    CancelRequested,
    Completion,
    DeadLettering,
    Delivery,
    Failed,
    Release,
    Retrial,
    SettleResult,
)
from towpath.settlement import Failure as Reason

WAIT = timedelta(seconds=0.2)


class Holder:
    """One thread's claims of one subscription after the other."""

    def __init__(self, plan: Plan, recorder: Recorder, consumers: list[ObservedConsumer], random: Random) -> None:
        self._plan = plan
        self._recorder = recorder
        self._consumers = consumers
        self._random = random
        self._database = Database(plan.url)

    def hold(self, over: Callable[[], bool]) -> None:
        """Go on until it is ``over``; what is held then runs out."""
        for consumer in itertools.cycle(self._consumers):
            if over():
                return
            try:
                deliveries = consumer.receive(self._random.randint(1, 3), WAIT)
            except TransportUnavailable:
                time.sleep(0.2)
                continue
            if deliveries:
                self._misuse(consumer, deliveries)

    def _misuse(self, consumer: ObservedConsumer, deliveries: list[Delivery]) -> None:
        started = [self._recorder.note("started", delivery=d.id, token=token_of(d)) for d in deliveries]
        chance = self._random.random()
        if chance < 0.05:  # longer than a lease, and than the back-off after it
            time.sleep(self._plan.lease_seconds * self._random.uniform(0.8, 2.2))
        elif chance < 0.12:
            self._outlive(deliveries[0])
        for held, at in zip(deliveries, started, strict=True):
            self._recorder.note("ended", delivery=held.id, token=token_of(held), started_at=at)
        if self._random.random() < 0.2:
            consumer.extend([Extension(delivery=held) for held in deliveries])
        answers = self._settle(consumer, deliveries)
        if self._random.random() < 0.1 or any(isinstance(answer, Failed) for answer in answers):
            answers = self._settle(consumer, deliveries)
        asked = [d for d, answer in zip(deliveries, answers, strict=True) if isinstance(answer, CancelRequested)]
        if asked:
            consumer.acknowledge_cancel([CancelAcknowledgement(delivery=held) for held in asked])

    def _outlive(self, held: Delivery) -> None:
        """Wait until somebody else holds the delivery, or its key: the worst moment to settle."""
        until = time.monotonic() + 2 * self._plan.lease_seconds + 2
        ordinal, subscription_id = (int(part) for part in held.id.split("-"))
        token, _, key = held.lease_token.partition(".")
        own = (delivery.c.message_ordinal == ordinal, delivery.c.subscription_id == subscription_id)
        taken = sa.exists().where(*own, delivery.c.lease_token > int(token))
        if key:
            own = (lane.c.subscription_id == subscription_id, lane.c.lane == int(key))
            taken = sa.or_(taken, sa.exists().where(*own, lane.c.held_ordinal != ordinal))
        while time.monotonic() < until:
            try:
                with self._database.reading() as connection:
                    if connection.scalar(sa.select(taken)):
                        return
            except TransportUnavailable:
                time.sleep(0.2)
            time.sleep(0.005)

    def _settle(self, consumer: ObservedConsumer, deliveries: list[Delivery]) -> list[SettleResult]:
        chance = self._random.random()
        if chance < 0.8:
            return consumer.complete([Completion(delivery=held) for held in deliveries])
        if chance < 0.9:
            return consumer.release([Release(delivery=held) for held in deliveries])
        failure = Reason(type="Careless", message="for the test")
        if chance < 0.97:
            none = timedelta(0)
            return consumer.retry([Retrial(delivery=held, delay=none, failure=failure) for held in deliveries])
        return consumer.dead_letter(
            [DeadLettering(delivery=delivery, reason="for the test") for delivery in deliveries]
        )


def main(folder: Path, name: str) -> None:
    told = told_to_end()
    plan, recorder = Plan.of(folder), recorder_of(folder, name)
    transport = ObservedTransport(connected(plan.url, recorder), recorder)
    consumers = [until_answered(lambda name=name: transport.consumer(name)) for name in SUBSCRIPTIONS]

    def over() -> bool:
        return told.is_set() or quiet(folder).exists()

    holders = [Holder(plan, recorder, consumers, plan.random(name, i)) for i in range(plan.holders)]
    threads = [threading.Thread(target=holder.hold, args=(over,)) for holder in holders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.wait()
    transport.close()
