"""Settings of hypothesis for the unit tests, and handlers that a worker can import."""

import itertools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
from hypothesis import settings

from tests.fakes.serving import NAME, FakeTransport
from towpath.backoff import BackOff
from towpath.settlement import SubscriptionPolicy

NUMBERS = itertools.count(1)

# A busy machine is no failure. In CI (``CI=true``) hypothesis's own profile repeats the same examples in every run.
settings.register_profile("towpath", deadline=None)
if settings.get_current_profile_name() == "default":
    settings.load_profile("towpath")


@pytest.fixture
def path_to() -> Iterator[Callable[[Callable], str]]:
    """Makes a function one that can be imported, and answers its path."""
    made = []

    def importable(function: Callable) -> str:
        module = ModuleType(f"handlers_of_test_worker_{next(NUMBERS)}")
        module.process = function
        sys.modules[module.__name__] = module
        made.append(module.__name__)
        return f"{module.__name__}:process"

    yield importable
    for name in made:
        del sys.modules[name]


@pytest.fixture
def serving(path_to) -> Callable[..., FakeTransport]:
    """A fake transport with one subscription for each handler."""

    def build(*handlers: Callable, kind: type[FakeTransport] = FakeTransport, **policy) -> FakeTransport:
        names = [NAME, *(f"{NAME}.{i}" for i in range(2, len(handlers) + 1))]
        known = {"topic": "documents.process", "backoff": BackOff(base_seconds=0), "max_attempts": 3}
        return kind(
            {
                name: SubscriptionPolicy(subscription=name, handler=path_to(handler), **(known | policy))
                for name, handler in zip(names, handlers, strict=True)
            }
        )

    return build
