"""Ships orders, which pydantic checks before the handler sees them."""

from typing import Annotated

from pydantic import BaseModel, Field

from towpath import Complete, Context, Message, Outcome


class Line(BaseModel):
    """So many pieces of one article."""

    article: str
    pieces: Annotated[int, Field(ge=1)]


class Order(BaseModel):
    """What a customer wants."""

    customer: str
    lines: Annotated[list[Line], Field(min_length=1)]


def ship(message: Message[Order], context: Context) -> Outcome:
    """Log what goes to whom. What is no order never comes here: it is dead at once, with pydantic's reason."""
    order = message.payload
    context.log.info("%d pieces for %s", sum(line.pieces for line in order.lines), order.customer)
    return Complete()
