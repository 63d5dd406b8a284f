"""The handlers of the runbooks' sessions: each goes wrong in a way of its own."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from towpath import Context, Message


@dataclass(frozen=True)
class Order:
    number: int


def ship(message: Message[Order], context: Context) -> None:
    """Refuses an order without a number."""
    print(f"order {message.payload.number} shipped")


def invoice(message: Message[Order], context: Context) -> None:
    """Needs the bank, which answers as long as there is a file ``bank``."""
    if not Path("bank").exists():
        raise ConnectionError("the bank does not answer")
    print(f"order {message.payload.number} invoiced")


def print_label(message: Message, context: Context) -> None:
    """Ends its process over some labels, as a fault in a library in C would."""
    if message.payload["text"] == "too long":
        os.kill(os.getpid(), signal.SIGKILL)
    print(f"label {message.payload['text']!r} printed")


def weigh(message: Message, context: Context) -> None:
    """Takes as long as the payload says, the second time half of it, and never says that it is alive."""
    time.sleep(message.payload["seconds"] / context.attempt)
    print("weighed")


def count_stock(message: Message, context: Context) -> None:
    """Waits for a file ``counted`` that may never come."""
    while not Path("counted").exists():
        context.check()
        time.sleep(0.05)
