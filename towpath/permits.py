"""What one subscription may claim next: no more than claims are left, and places free, over the whole worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from towpath.terms import ClaimsLeft, Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """Leave to claim up to ``count``, waiting up to ``wait`` for them, with so many ``places`` taken for them."""

    count: int
    wait: timedelta
    places: int = 0


class Permits:
    """Asks for one subscription. For one thread.

    Where places are limited nobody holds one while waiting for something to come: that would keep it from others. So
    after a claim that found nothing the next one waits for a single delivery, whose place is taken once it is here.
    """

    def __init__(self, terms: Terms, is_stopping: Callable[[], bool]) -> None:
        self._allowance: ClaimsLeft = terms.allowance
        self._places = terms.places
        self._once = terms.options.once
        self._is_stopping = is_stopping

    def ask(self, wanted: int, wait: timedelta, *, found_nothing: bool) -> Permit:
        """A permit for up to ``wanted``; for none when others have all that is left, or there is a stop."""
        if not self._places.is_limited:
            return Permit(count=self._allowance.take(wanted), wait=wait)
        if found_nothing and wait > timedelta(0) and not self._once:
            return Permit(count=self._allowance.take(min(wanted, 1)), wait=wait)
        places = self._places.take(wanted, self._is_stopping)
        count = self._allowance.take(places)
        self._places.give_back(places - count)
        return Permit(count=count, wait=wait if self._once else timedelta(0), places=count)

    def used(self, permit: Permit, claimed: int) -> None:
        """So many were claimed by ``permit``; what it was good for besides goes back."""
        self._allowance.made(permit.count, claimed)
        self._places.give_back(permit.places - claimed)

    def placed(self, permit: Permit, claimed: int, is_over: Callable[[], bool]) -> int:
        """How many of those ``claimed`` have places; waits for what was claimed without, until ``is_over``."""
        if permit.places or not self._places.is_limited:
            return claimed
        return self._places.take(claimed, is_over)
