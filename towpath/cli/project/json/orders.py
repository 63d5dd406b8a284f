"""Ships orders, which come as plain JSON."""

from typing import Any

from towpath import Complete, Context, FatalError, Message, Outcome, Retry


def ship(message: Message[Any], context: Context) -> Outcome:
    """Ship one order. What is no order is set aside at once, with the reason for whoever looks after it."""
    order = message.payload
    if not isinstance(order, dict) or not isinstance(order.get("number"), int):
        raise FatalError("an order needs a number")
    if order.get("fragile") and context.attempt == 1:
        return Retry("find a box first", after=1)
    context.log.info("order %d is shipped, attempt %d", order["number"], context.attempt)
    return Complete()
