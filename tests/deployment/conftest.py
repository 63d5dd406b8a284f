"""What deploys more than `make test` has time for is left to `make test-infrastructure`."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "infrastructure: a deployment more, which waits long: `make test-infrastructure`"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "infrastructure" not in config.option.markexpr:
        more = [item for item in items if item.get_closest_marker("infrastructure") is not None]
        config.hook.pytest_deselected(items=more)
        items[:] = [item for item in items if item not in more]
