"""One order, several who want to know of it. Each has a handler, retries and dead letters of its own."""

from dataclasses import dataclass

from towpath import Context, Message, NewMessage


@dataclass(frozen=True, kw_only=True)
class Order:
    """What was ordered. A download goes to no country."""

    number: int
    kind: str
    total: int
    country: str | None = None


def order_placed(order: Order) -> NewMessage:
    """The message of an order. Filters see its attributes only: what somebody chooses by goes there."""
    attributes: dict[str, str | int] = {"kind": order.kind, "total": order.total}
    if order.country is not None:
        attributes["country"] = order.country
    payload = {"number": order.number, "kind": order.kind, "total": order.total, "country": order.country}
    return NewMessage(payload=payload, attributes=attributes, deduplication_key=f"order-{order.number}")


def invoice(message: Message[Order], context: Context) -> None:
    """Write an invoice."""
    context.log.info("invoice for order %d: %d", message.payload.number, message.payload.total)


def review(message: Message[Order], context: Context) -> None:
    """Have a person look at it."""
    context.log.info("order %d of %d needs a second look", message.payload.number, message.payload.total)


def pack(message: Message[Order], context: Context) -> None:
    """Have the warehouse send it."""
    context.log.info("order %d goes to %s", message.payload.number, message.payload.country)
