"""What rendering would refuse is known without an environment."""

import pytest

from towpath.errors import InvalidTopology
from towpath.resolve import resolve
from towpath.resolve.foresight import Foresight, foresee
from towpath.topology import Topology, parse_topology


def topology(*subscriptions: str, handler: str = "app:run") -> Topology:
    written = {name: {"topic": "t", "handler": handler} for name in subscriptions}
    return parse_topology({"name": "shop", "topics": {"t": {}}, "subscriptions": written})


# The first one's dead-letter queue has the second one's name, until the environment makes both too long for SQS.
MEET_IN_SOME = ("b" * 60, "b" * 60 + "-dlq")


def test_there_is_nothing_to_tell_of_what_can_be_rendered() -> None:
    assert foresee(topology("a", "b")) == Foresight()
    assert foresee(topology("a", "b"), ["prod", "dev"]) == Foresight()


def test_what_is_refused_in_every_environment_is_a_mistake() -> None:
    found = foresee(topology("a.b", "a-b", "c"))
    assert [mistake.path for mistake in found.mistakes] == ['subscriptions."a.b"']
    assert found.warnings == ()
    for environment in ("x", "prod", "x" * 20):
        with pytest.raises(InvalidTopology):
            resolve(topology("a.b", "a-b", "c"), environment)


def test_settings_too_large_for_a_function_are_a_mistake_in_every_environment() -> None:
    (mistake,) = foresee(topology("s", handler="app:" + "r" * 4_000)).mistakes
    assert mistake.path == "subscriptions.s"
    assert "bytes of environment variables" in mistake.problem


def test_what_is_refused_in_some_environments_is_a_warning() -> None:
    found = foresee(topology(*MEET_IN_SOME))
    (warning,) = found.warnings
    assert found.mistakes == ()
    assert warning.path == f"subscriptions.{MEET_IN_SOME[1]}"
    assert warning.problem.endswith(
        "rename one of them, in an environment with a short name such as 'x'; check yours with --environment"
    )


def test_what_only_long_names_are_too_much_for_is_a_warning() -> None:
    """Policies grow with the names in them."""
    found = foresee(topology(*(f"{n:03}-{'x' * 38}" for n in range(170))))
    assert found.mistakes == ()
    (warning,) = found.warnings
    assert warning.path == "subscriptions"
    assert "operators need 12 policies" in warning.problem
    assert warning.problem.endswith(", in an environment with a long name; check yours with --environment")


def test_both_can_be_there_at_once() -> None:
    found = foresee(topology(*MEET_IN_SOME, "a.b", "a-b"))
    assert [mistake.path for mistake in found.mistakes] == ['subscriptions."a.b"']
    assert [warning.path for warning in found.warnings] == [f"subscriptions.{MEET_IN_SOME[1]}"]


def test_for_named_environments_it_is_what_each_of_them_refuses() -> None:
    assert foresee(topology(*MEET_IN_SOME), ["x" * 20]) == Foresight()
    found = foresee(topology(*MEET_IN_SOME), ["x" * 20, "e", "f"])
    assert [f"'shop-{e}-" in m.problem for e, m in zip("ef", found.mistakes, strict=True)] == [True, True]
    assert found.warnings == ()


def test_what_two_environments_refuse_alike_is_told_once() -> None:
    assert len(foresee(topology("s", handler="app:" + "r" * 4_000), ["dev", "prod"]).mistakes) == 1


def test_an_environment_that_is_no_name_is_refused() -> None:
    with pytest.raises(InvalidTopology, match="the environment's name must be 1 to 20"):
        foresee(topology("s"), ["prod", "Prod"])
