"""Counts the words of a text. It needs nothing but Python's standard library, and so does its zip beside Towpath."""

import re
from collections import Counter

from towpath import Complete, Context, FatalError, Message, Outcome

_WORD = re.compile(r"\w+")


def count(message: Message, context: Context) -> Outcome:
    """Log the three most frequent words of the payload's text."""
    match message.payload:
        case {"text": str(text)}:
            words = Counter(_WORD.findall(text.lower()))
        case _:
            raise FatalError('the payload has no "text"')
    context.log.info("%d words, most of all %s", words.total(), ", ".join(word for word, _ in words.most_common(3)))
    return Complete()
