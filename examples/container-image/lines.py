"""Counts the lines of a text, in a container image."""

from towpath import Complete, Context, FatalError, Message, Outcome


def count(message: Message, context: Context) -> Outcome:
    """Log how many lines the payload has."""
    if not isinstance(message.payload, str):
        raise FatalError("the payload is no text")
    context.log.info("%d lines", len(message.payload.splitlines()))
    return Complete()
