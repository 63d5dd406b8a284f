"""A worker that is run until nothing is due, in the test's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from towpath.errors import Unsupported
from towpath.operating import DeadLetterEntry, DeliveryEntry, EntryT, Operator, Page, Selection
from towpath.ports import Transport
from towpath.worker import Counts, Worker, WorkerOptions

_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """What a worker did: how many deliveries it received, and how many ended in which of the worker's states
    (``completed``, ``retried``, ``dead``, ``discarded``, ``released``, ``lease_lost``, ``failed``).

    ``dead_letters`` are all that the subscriptions have now, those dead for longest first. ``waiting`` are those that
    are not due, with their last errors: retries, delays, what a key holds up; none on a transport that cannot tell.
    """

    received: int
    states: Mapping[str, int]
    dead_letters: tuple[DeadLetterEntry, ...]
    waiting: tuple[DeliveryEntry, ...]


def work_off(transport: Transport, *subscriptions: str, concurrency: int = 1, most: int = 1_000) -> Worked:
    """Run the worker for ``subscriptions``, or for all that have a handler, until nothing is due.

    What handlers publish is worked off too, where it comes to one of them; what a retry or a delay hides is not: move
    time on, and call again. Each subscription's deliveries are handled one after another, or ``concurrency`` at a time.

    Raises what the worker raises before its first claim (``SubscriptionNotFound``, ``HandlerNotFound``) and when the
    transport does not answer; ``ValueError`` for a ``most`` below 1; ``RuntimeError`` when ``most`` were handled and
    something is due still, as it is for ever where a handler publishes to its own topic.
    """
    if most < 1:
        raise ValueError(f"work_off(most=...) takes 1 or more, not {most!r}")
    names, operator = list(subscriptions) or _served(transport), transport.operator()
    received, states = 0, dict[str, int]()
    while True:
        counts = _worked(transport, names, concurrency, most - received)
        received += counts.received
        for state, count in counts.states.items():
            states[state] = states.get(state, 0) + count
        if not counts.received or not _is_due(operator, names):
            return Worked(
                received=received,
                states=states,
                dead_letters=tuple(_dead_letters(operator, names)),
                waiting=tuple(_waiting(operator, names)),
            )
        if received >= most:
            raise RuntimeError(
                f"{received} deliveries were handled and something is due still; does a handler publish to its own "
                "topic, or retry at once? work_off(most=...) allows more"
            )


def _served(transport: Transport) -> list[str]:
    return sorted(name for name, policy in transport.policies().items() if policy.handler is not None)


def _worked(transport: Transport, names: list[str], concurrency: int, most: int) -> Counts:
    options = WorkerOptions(concurrency=concurrency, once=True, max_deliveries=most)
    return Worker(transport, names, options).run()


def _is_due(operator: Operator, names: list[str]) -> bool:
    """Of several subscriptions each ends by itself, so that what one publishes may find another's part ended."""
    return any(backlog.claimable for backlog in operator.backlog() if backlog.subscription in names)


def _dead_letters(operator: Operator, names: list[str]) -> Iterator[DeadLetterEntry]:
    for name in names:
        yield from _all(partial(operator.dead_letters, name, _PAGE))


def _waiting(operator: Operator, names: list[str]) -> Iterator[DeliveryEntry]:
    with suppress(Unsupported):
        for name in names:
            pending = Selection(subscription=name, state="pending")
            yield from _all(partial(operator.deliveries, pending, _PAGE))


def _all(part: Callable[[str | None], Page[EntryT]]) -> Iterator[EntryT]:
    """Every entry of a list that is read in parts."""
    page = part(None)
    yield from page
    while page.cursor is not None:
        page = part(page.cursor)
        yield from page
