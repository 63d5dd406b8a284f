"""Ships orders, which pydantic checks before the handler sees them."""

from typing import Annotated

from pydantic import BaseModel, Field

from towpath import Complete, Context, Message, Outcome, Retry


class Order(BaseModel):
    """What a customer wants."""

    number: int
    pieces: Annotated[int, Field(ge=1)]
    fragile: bool = False


def ship(message: Message[Order], context: Context) -> Outcome:
    """Ship one order. What is no order never comes here: it is set aside, with pydantic's reason."""
    order = message.payload
    if order.fragile and context.attempt == 1:
        return Retry("find a box first", after=1)
    context.log.info("order %d is shipped, attempt %d", order.number, context.attempt)
    return Complete()
