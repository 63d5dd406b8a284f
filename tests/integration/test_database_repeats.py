"""A settle whose answer was lost is asked for again by the same worker, and is told the truth."""

import logging
import os
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest
import sqlalchemy as sa

from local_transport.applied import TopologyReader
from local_transport.connections import Database
from local_transport.consumer import DatabaseConsumer, Means
from local_transport.settles import Settles
from local_transport.tables import delivery, delivery_detail, history, tally
from local_transport.wakeups import Wakeups
from tests.servers.clock import advance
from towpath import NewMessage
from towpath.errors import TransportUnavailable
from towpath.settlement import Completion, DeadLettering, Discard, Failed, Failure, LeaseLost, Release, Retrial, Settled

NOW = timedelta(0)
FAILURE = Failure(type="ValueError", message="not a number")
SETTLES = {
    "complete": (lambda held: Completion(delivery=held), "completed"),
    "retry": (lambda held: Retrial(delivery=held, delay=NOW, failure=FAILURE), "pending"),
    "dead_letter": (lambda held: DeadLettering(delivery=held, reason="bad"), "dead"),
    "discard": (lambda held: Discard(delivery=held, reason="Expired"), "discarded"),
    "release": (lambda held: Release(delivery=held), "pending"),
}


class Unreliable(Database):
    """A database whose connection is lost around the changes of settles."""

    when = "never"

    @contextmanager
    def changing(self):
        if self.when == "before":
            raise TransportUnavailable("the connection was lost")
        with super().changing() as connection:
            yield connection
        if self.when == "after":
            raise TransportUnavailable("the connection was lost")


@pytest.fixture
def unreliable(transport, database_url):
    with closing(Unreliable(database_url)) as database:
        yield database


@pytest.fixture
def consumer(unreliable):
    log = logging.getLogger("test")
    with closing(Wakeups(unreliable, log, os.urandom)) as wakeups:
        means = Means(
            database=unreliable, reader=TopologyReader(), settles=Settles(unreliable), wakeups=wakeups, log=log
        )
        yield DatabaseConsumer(means, "convert")


@pytest.fixture
def held(transport, consumer):
    transport.publish("documents", [NewMessage(payload=1)])
    (received,) = consumer.receive(1, NOW)
    return received


def settled(consumer, how, *held):
    return getattr(consumer, how)([SETTLES[how][0](one) for one in held])


def contents(database):
    with database.reading() as connection:
        return [connection.execute(sa.select(table)).all() for table in (delivery, delivery_detail, history, tally)]


@pytest.mark.parametrize("how", SETTLES)
def test_what_was_made_although_the_answer_was_lost_is_settled_and_not_made_twice(unreliable, consumer, held, how):
    unreliable.when = "after"
    (answer,) = settled(consumer, how, held)
    assert isinstance(answer, Failed)
    unreliable.when = "never"
    before = contents(unreliable)
    assert settled(consumer, how, held) == [Settled(state=SETTLES[how][1])]
    assert contents(unreliable) == before
    assert settled(consumer, how, held) == [LeaseLost()]  # that is known by now


@pytest.mark.parametrize("how", SETTLES)
def test_what_was_not_made_is_made_when_it_is_asked_for_again(unreliable, consumer, held, how):
    unreliable.when = "before"
    assert isinstance(settled(consumer, how, held)[0], Failed)
    unreliable.when = "never"
    assert settled(consumer, how, held) == [Settled(state=SETTLES[how][1])]


@pytest.mark.parametrize(
    ("how", "others"), [*((how, how) for how in SETTLES), ("retry", "release"), ("complete", "discard")]
)
def test_what_somebody_else_made_of_it_meanwhile_is_a_lost_lease(
    transport, unreliable, consumer, held, how, others, database_url
):
    unreliable.when = "before"
    assert isinstance(settled(consumer, how, held)[0], Failed)
    unreliable.when = "never"
    advance(database_url, 3_600)
    other = transport.consumer("convert")
    (current,) = other.receive(1, NOW)
    assert settled(other, others, current) == [Settled(state=SETTLES[others][1])]
    assert settled(consumer, how, held) == [LeaseLost()]


def test_what_is_asked_for_as_something_else_is_a_lost_lease(unreliable, consumer, held):
    unreliable.when = "after"
    settled(consumer, "retry", held)
    unreliable.when = "never"
    assert settled(consumer, "release", held) == [LeaseLost()]


def test_while_nobody_can_say_what_became_of_it_that_is_the_answer(unreliable, consumer, held):
    unreliable.when = "after"
    settled(consumer, "complete", held)
    unreliable.when = "before"
    assert isinstance(settled(consumer, "complete", held)[0], Failed)
    unreliable.when = "never"
    assert settled(consumer, "complete", held, held) == [Settled(state="completed")] * 2
