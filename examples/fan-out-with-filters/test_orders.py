"""Who gets which order, and that nobody's trouble is another one's."""

import orders
import pytest
from orders import Order, order_placed

from towpath.operating import Selection

ALL = {"order.invoice", "order.pack", "order.review"}


ORDERS = {
    Order(number=1, kind="book", total=40, country="FR"): {"order.invoice", "order.pack"},
    Order(number=2, kind="download", total=999): {"order.invoice"},
    Order(number=3, kind="download", total=1000): {"order.invoice", "order.review"},
    Order(number=4, kind="printer", total=1200, country="DE"): ALL,
    Order(number=5, kind="book", total=40): {"order.invoice"},
}


def test_each_order_goes_to_those_who_want_it(towpath_transport):
    results = towpath_transport.publish("order.placed", [order_placed(order) for order in ORDERS])
    for result, receivers in zip(results, ORDERS.values(), strict=True):
        deliveries = towpath_transport.operator().deliveries(Selection(message_id=result.id), 10)
        assert {delivery.subscription for delivery in deliveries} == receivers


def test_an_order_is_announced_once(towpath_transport):
    message = order_placed(Order(number=1, kind="book", total=40, country="FR"))
    results = [towpath_transport.publish("order.placed", [message])[0] for _ in range(2)]
    assert [result.status for result in results] == ["accepted", "duplicate"]


def test_a_warehouse_that_does_not_answer_holds_up_no_invoice(towpath_transport, towpath_work, monkeypatch):
    def away(message, context):
        raise ConnectionError("the warehouse does not answer")

    monkeypatch.setattr(orders, "pack", away)
    towpath_transport.publish("order.placed", [order_placed(Order(number=4, kind="book", total=1200, country="FR"))])
    assert towpath_work().states == {"completed": 2, "retried": 1}


@pytest.mark.parametrize("subscription", sorted(ALL))
def test_every_handler_takes_what_the_producer_writes(towpath_deliver, subscription):
    message = order_placed(Order(number=4, kind="printer", total=1200, country="DE"))
    assert towpath_deliver(subscription, message).state == "completed"
