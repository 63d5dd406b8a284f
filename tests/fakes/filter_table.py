"""Drawn filter policies and attributes, the same for the same seed, with few words so that they meet."""

from __future__ import annotations

import random
from typing import Any

TEXTS = (
    *("pdf", "PDF", "Pdf", "docx", "png", "text/plain", "text/html", "order-1", "order-2", "-1", "ä", "Ä", "*", "a b"),
    *("10.0.0.5", "10.0.1.5", "11.0.0.1", "2001:db8::1", "true", "null", "7", "-1.5"),
)
NUMBERS = (-1e9, -1.5, -1, 0, 0.00001, 0.5, 7, 7.5, 100, 123456.78901, 1e9)
KEYS = "abcd"


class Drawing:
    """Policies that SNS takes, and attributes of messages, drawn from ``seed``."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def attributes(self) -> dict[str, Any]:
        """Attributes as an envelope keeps them."""
        keys = self._random.sample(KEYS, self._random.choice((1, 1, 2, 2, 3)))
        return {key: self._value() for key in keys}

    def policy(self) -> dict[str, Any]:
        """A policy of one to five keys, every third with an ``$or``."""
        keys = self._random.sample(KEYS, self._random.choice((1, 1, 1, 2)))
        policy: dict[str, Any] = {key: self._conditions() for key in keys}
        if self._random.random() < 0.35:
            free = [key for key in KEYS if key not in keys]
            members = [{self._random.choice(free): self._conditions()} for _ in range(self._random.choice((2, 2, 3)))]
            policy = policy if self._random.random() < 0.3 else {}
            policy["$or"] = members
        return policy

    def _value(self) -> Any:
        kind = self._random.random()
        if kind < 0.6:
            return self._text()
        if kind < 0.85:
            return self._random.choice(NUMBERS)
        return tuple(self._random.sample(TEXTS, self._random.choice((0, 1, 2, 3))))

    def _conditions(self) -> list[Any]:
        return [self._condition() for _ in range(self._random.choice((1, 1, 2, 3)))]

    def _condition(self) -> Any:
        text = self._text()
        makers = (
            lambda: text,
            lambda: self._random.choice((*NUMBERS, True, False, None)),
            lambda: {"prefix": self._piece(text, from_start=True)},
            lambda: {"suffix": self._piece(text, from_start=False)},
            lambda: {"equals-ignore-case": text.swapcase()},
            lambda: {"anything-but": self._refused(text)},
            lambda: {"numeric": self._numeric()},
            lambda: {"exists": self._random.random() < 0.5},
            lambda: {"cidr": self._random.choice(("10.0.0.0/24", "10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32"))},
        )
        weights = (4, 1, 2, 2, 2, 3, 3, 2, 1)
        return self._random.choices(makers, weights)[0]()

    def _text(self) -> str:
        return self._random.choice(TEXTS)

    def _piece(self, text: str, *, from_start: bool) -> str:
        length = self._random.randint(1, len(text))
        return text[:length] if from_start else text[-length:]

    def _refused(self, text: str) -> Any:
        choices = (
            text,
            self._random.sample(TEXTS, 3),
            {"prefix": self._piece(text, from_start=True)},
            self._random.choice(NUMBERS),
            self._random.sample(NUMBERS, 2),
        )
        return self._random.choices(choices, (3, 3, 3, 1, 1))[0]

    def _numeric(self) -> list[Any]:
        low, high = sorted(self._random.sample(NUMBERS, 2))
        if self._random.random() < 0.4:
            return [self._random.choice((">", ">=")), low, self._random.choice(("<", "<=")), high]
        return [self._random.choice(("=", "<", "<=", ">", ">=")), low]
