"""The handler's tests: each delivers one message, in this process, and looks at what becomes of it."""

from datetime import timedelta

from orders import ship

from towpath.testing import deliver


def test_an_order_is_shipped() -> None:
    assert deliver(ship, {"number": 1, "pieces": 3}).state == "completed"


def test_a_fragile_order_comes_again_a_second_later_and_is_shipped() -> None:
    fragile = {"number": 2, "pieces": 1, "fragile": True}
    first = deliver(ship, fragile)
    assert (first.state, first.delay) == ("retried", timedelta(seconds=1))
    assert deliver(ship, fragile, attempt=2).state == "completed"


def test_what_is_no_order_is_set_aside_at_once() -> None:
    assert deliver(ship, {"number": "three"}).state == "dead"
