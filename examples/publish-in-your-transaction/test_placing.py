"""A row and its message: both after a commit, neither after a rollback; and an order that is confirmed once."""

import placing
import pytest
import sqlalchemy as sa
from placing import Order, OutOfStock, place
from sqlalchemy.orm import Session

from towpath import NewMessage


@pytest.fixture
def engine(towpath_transport, monkeypatch):
    """The shop's own connections to the database of ``towpath_transport``."""
    monkeypatch.setenv("SHOP_DATABASE", towpath_transport.url)
    placing.engine.cache_clear()
    placing.Base.metadata.create_all(placing.engine())
    yield placing.engine()
    placing.engine().dispose()


def order(**changes):
    return Order(**{"customer": "ada", "pieces": 3} | changes)


def states(engine):
    with Session(engine) as session:
        return list(session.scalars(sa.select(Order.state)))


def waiting(transport):
    return sum(stats.pending for stats in transport.operator().stats())


def test_an_order_and_its_message_come_with_one_commit_and_the_order_is_confirmed(
    towpath_transport, towpath_work, engine
):
    with Session(engine) as session, session.begin():
        place(session, towpath_transport, order(), in_stock=10)
    assert (states(engine), waiting(towpath_transport)) == (["placed"], 1)
    assert towpath_work().states == {"completed": 1}
    assert states(engine) == ["confirmed"]


def test_a_rollback_leaves_neither(towpath_transport, engine):
    with pytest.raises(OutOfStock), Session(engine) as session, session.begin():
        place(session, towpath_transport, order(pieces=11), in_stock=10)
    assert (states(engine), waiting(towpath_transport)) == ([], 0)


def test_a_message_that_is_refused_takes_the_order_with_it(towpath_transport, engine):
    with pytest.raises(ValueError, match="partition_key"), Session(engine) as session, session.begin():
        place(session, towpath_transport, order(customer=""), in_stock=10)
    assert (states(engine), waiting(towpath_transport)) == ([], 0)


def test_a_message_that_comes_again_confirms_nothing_twice(towpath_deliver, engine):
    with Session(engine) as session, session.begin():
        session.add(order(state="sent"))
    assert towpath_deliver("order.confirm", {"number": 1}, attempt=2).state == "completed"
    assert states(engine) == ["sent"]


def test_an_order_that_never_was_is_set_aside(towpath_transport, towpath_work, engine):
    towpath_transport.publish("order.placed", [NewMessage(payload={"number": 99})])
    assert [letter.reason for letter in towpath_work().dead_letters] == ["there is no order 99"]
