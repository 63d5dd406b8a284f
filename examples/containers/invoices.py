"""Writes the invoice of an order: a line of the log, where yours would send a letter."""

from dataclasses import dataclass
from decimal import Decimal

from towpath import Context, FatalError, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """So many of one article."""

    article: str
    quantity: int
    price: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was ordered. Prices are text, since a float of money is none."""

    number: int
    lines: list[Line]


def send(message: Message[Order], context: Context) -> None:
    """Add up the order and log the sum."""
    order = message.payload
    if not order.lines:
        raise FatalError("the order has no lines")
    total = Decimal(0)
    for line in order.lines:
        context.check()  # a worker that is told to stop gives the delivery back here
        total += line.quantity * Decimal(line.price)
    context.log.info("order %d: %.2f", order.number, total)
