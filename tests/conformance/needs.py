"""On which transports a case runs: all that have the capabilities that it needs. A transport left out says why."""

from collections.abc import Mapping

import pytest

from aws_transport.transport import CAPABILITIES as AWS
from local_transport.transport import CAPABILITIES as DATABASE
from towpath.ports import Capability

TRANSPORTS: Mapping[str, frozenset[Capability]] = {
    "sqlite": DATABASE,
    "postgresql": DATABASE,
    "aws-worker": AWS,
    "aws-lambda": AWS,
    "local-mapping": AWS,
}
FUNCTIONS = ("aws-lambda", "local-mapping")


def needing(*capabilities: Capability) -> pytest.MarkDecorator:
    """For a case that needs these."""
    return _left_out(
        {
            name: f"lacks the capability {', '.join(missing)}"
            for name, has in TRANSPORTS.items()
            if (missing := sorted(set(capabilities) - has))
        }
    )


def on_databases(reason: str) -> pytest.MarkDecorator:
    """For a case that AWS is not built for yet, or that makes no sense there."""
    return _left_out({name: reason for name, has in TRANSPORTS.items() if has is AWS})


def outside_functions(reason: str) -> pytest.MarkDecorator:
    """For a case that needs a worker in the suite's hands, which a Lambda function is not."""
    return _left_out(dict.fromkeys(FUNCTIONS, reason))


def _left_out(reasons: Mapping[str, str]) -> pytest.MarkDecorator:
    transports = [
        pytest.param(name, marks=pytest.mark.skip(reason=f"{name} {reasons[name]}")) if name in reasons else name
        for name in TRANSPORTS
    ]
    return pytest.mark.parametrize("harness", transports, indirect=True)
