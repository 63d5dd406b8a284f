"""Places orders: the row and its message are committed together, or neither is. The handler confirms the order, once.

The tables are the shop's own, beside Towpath's, in the database that the variable ``SHOP_DATABASE`` names.
"""

import functools
import os
import sys

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import towpath
from towpath import Complete, Context, FatalError, Message, NewMessage, Outcome
from towpath.ports import Publisher


class Base(DeclarativeBase):
    """The shop's tables."""


class Order(Base):
    """What a customer ordered, and whether it is confirmed."""

    __tablename__ = "shop_order"

    number: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    pieces: Mapped[int]
    state: Mapped[str] = mapped_column(default="placed")


class OutOfStock(Exception):
    """There are not so many pieces."""


def place(session: Session, publisher: Publisher, order: Order, in_stock: int) -> None:
    """Add the order and its message to the session's transaction. Both come about by its commit, or not at all.

    Raises what makes the caller roll back: ``OutOfStock``, or ``ValueError`` for a message that is refused. That is
    told in the result and raises nothing by itself.
    """
    session.add(order)
    session.flush()  # the database gives the number
    new = NewMessage(payload={"number": order.number}, partition_key=order.customer)
    (result,) = publisher.publish("order.placed", [new], connection=session)
    if result.error is not None:
        raise ValueError(f"the order's message is refused: {result.error.message}")
    if order.pieces > in_stock:
        raise OutOfStock(f"there are {in_stock} pieces, not {order.pieces}")


def confirm(message: Message, context: Context) -> Outcome:
    """Confirm the order, in a transaction of the handler's own.

    The order is there whenever the message is: they were committed together. Should the worker die after the commit
    below, the message comes again; then the order is no longer ``placed``, and nothing is done twice.
    """
    number = message.payload["number"]
    placed = (Order.number == number) & (Order.state == "placed")
    with Session(engine()) as session, session.begin():
        confirmed = session.scalar(sa.update(Order).where(placed).values(state="confirmed").returning(Order.number))
        if confirmed is None and session.get(Order, number) is None:
            raise FatalError(f"there is no order {number}")
    context.log.info("order %d is confirmed", number)
    return Complete()


@functools.cache
def engine(url: str | None = None) -> sa.Engine:
    """The shop's connections, made once for each process. Errors of the database show no values."""
    return sa.create_engine(url or os.environ["SHOP_DATABASE"], hide_parameters=True)


def main(customer: str, pieces: str, in_stock: str = "10") -> None:
    """Place an order from the command line."""
    Base.metadata.create_all(engine())
    with towpath.connect(os.environ["SHOP_DATABASE"]) as transport, Session(engine()) as session:
        try:
            with session.begin():
                order = Order(customer=customer, pieces=int(pieces))
                place(session, transport, order, int(in_stock))
                number = order.number
        except OutOfStock as error:
            sys.exit(f"not placed: {error}")
    sys.stdout.write(f"order {number} is placed\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
