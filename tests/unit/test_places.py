"""Places that subscriptions of a worker share."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from towpath.outages import Outages
from towpath.permits import Permits
from towpath.places import Places
from towpath.stopping import Stop
from towpath.terms import Allowance, Terms, WorkerOptions

PATIENCE = 20.0
LONG = timedelta(minutes=10)


def never() -> bool:
    return False


def at_once() -> bool:
    return True


def test_without_a_limit_all_are_granted_and_none_are_counted():
    places = Places(None)
    assert [places.take(1_000, never), places.take(1_000, never), places.take(0, never)] == [1_000, 1_000, 0]
    places.give_back(5)
    assert not places.is_limited


def test_no_more_are_granted_than_are_free():
    places = Places(5)
    assert [places.take(3, at_once), places.take(3, at_once), places.take(3, at_once)] == [3, 2, 0]
    places.give_back(2)
    assert places.take(3, at_once) == 2
    assert places.is_limited


def eventually(condition) -> bool:
    looked = threading.Event()
    return any(condition() or looked.wait(0.01) for _ in range(int(100 * PATIENCE)))


def test_who_has_waited_longest_comes_first_and_who_wants_much_gets_a_share():
    places, order = Places(4), []
    assert places.take(9, never) == 4

    def take(name: str, wanted: int) -> None:
        order.append((name, places.take(wanted, never)))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(take, "first", 9)
        assert eventually(lambda: len(places._line) == 1)
        second = pool.submit(take, "second", 9)
        assert eventually(lambda: len(places._line) == 2)
        places.give_back(4)
        first.result(PATIENCE)
        second.result(PATIENCE)
    assert order == [("first", 2), ("second", 2)]


def test_who_waits_in_vain_leaves_the_line():
    places, over = Places(1), threading.Event()
    assert places.take(1, never) == 1
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(places.take, 1, over.is_set)
        assert eventually(lambda: places._line)
        over.set()
        assert waiting.result(PATIENCE) == 0
    places.give_back()
    assert places.take(1, at_once) == 1


# --- Permits ---------------------------------------------------------------------------------------------------


def permits(places: Places, *, claims: int | None = None, once: bool = False) -> Permits:
    terms = Terms(
        options=WorkerOptions(once=once),
        allowance=Allowance(claims),
        places=places,
        outages=Outages(None, float),
        stopping=Stop(),
    )
    return Permits(terms, at_once)


def test_without_places_a_permit_is_for_what_is_wanted_and_waits_as_long_as_it_may():
    asked = permits(Places(None), claims=5)
    permit = asked.ask(8, LONG, found_nothing=True)
    assert (permit.count, permit.wait, permit.places) == (5, LONG, 0)
    asked.used(permit, 2)
    assert asked.ask(8, LONG, found_nothing=True).count == 3


def test_a_permit_with_places_does_not_wait_and_gives_back_what_it_did_not_need():
    places = Places(4)
    asked = permits(places)
    permit = asked.ask(8, LONG, found_nothing=False)
    assert (permit.count, permit.wait, permit.places) == (4, timedelta(0), 4)
    asked.used(permit, 1)
    assert asked.placed(permit, 1, never) == 1
    assert places.take(9, at_once) == 3


def test_who_waits_for_something_to_come_holds_no_place_until_it_is_here():
    places = Places(1)
    asked = permits(places)
    permit = asked.ask(8, LONG, found_nothing=True)
    assert (permit.count, permit.wait, permit.places) == (1, LONG, 0)
    assert places.take(1, at_once) == 1
    asked.used(permit, 1)
    assert asked.placed(permit, 1, at_once) == 0
    places.give_back()
    assert asked.placed(permit, 1, never) == 1


def test_no_place_is_held_for_a_claim_that_is_not_left():
    places = Places(4)
    asked = permits(places, claims=1)
    assert asked.ask(8, LONG, found_nothing=False).places == 1
    assert places.take(9, at_once) == 3


def test_once_waits_with_its_places_since_it_waits_for_a_moment_only():
    moment = timedelta(seconds=1)
    permit = permits(Places(4), once=True).ask(8, moment, found_nothing=True)
    assert (permit.count, permit.wait, permit.places) == (4, moment, 4)
