"""The handler as Lambda runs it, in this process: a queue, a batch, retries, dead letters; and no AWS."""

from orders import ship

from towpath import NewMessage
from towpath.testing import LocalLambda, local_lambda


def shipping(**order: object) -> LocalLambda:
    """The function, after it was called for one order."""
    function = local_lambda(ship)
    function.send(NewMessage(payload=order))
    function.run()
    return function


def test_an_order_is_shipped() -> None:
    function = shipping(number=1, pieces=3)
    assert (function.waiting, list(function.dead_letters)) == (0, [])


def test_a_fragile_order_is_shipped_a_second_later() -> None:
    function = shipping(number=2, pieces=1, fragile=True)
    assert function.waiting == 1
    function.advance(1)
    function.run()
    assert (function.waiting, list(function.dead_letters)) == (0, [])


def test_what_is_no_order_is_set_aside_at_once() -> None:
    (letter,) = shipping(number="three").dead_letters
    assert letter.attempts == 1
