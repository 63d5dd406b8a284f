"""On which transports a case runs: all that have the capabilities that it needs. A transport left out says why."""

from collections.abc import Iterable, Mapping

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
    "moto": AWS,
}
FUNCTIONS = ("aws-lambda", "local-mapping")
# What the suite itself lacks there, for cases of other processes: `leaving_out(ONE_PROCESS)`.
ONE_PROCESS = {"moto": "lives in the suite's own process, which no other one can reach or outlive"}


def needing(*capabilities: Capability, also: Mapping[str, str] | None = None) -> pytest.MarkDecorator:
    """For a case that needs these; ``also`` are further transports that are left out, with the reasons."""
    lacking = {
        name: f"lacks the capability {', '.join(missing)}"
        for name, has in TRANSPORTS.items()
        if (missing := sorted(set(capabilities) - has))
    }
    return leaving_out(dict(also or {}) | lacking)


def on_databases(reason: str) -> pytest.MarkDecorator:
    """For a case that AWS is not built for yet, or that makes no sense there."""
    return leaving_out({name: reason for name, has in TRANSPORTS.items() if has is AWS})


def outside_functions(reason: str) -> pytest.MarkDecorator:
    """For a case that needs a worker in the suite's hands, which a Lambda function is not."""
    return leaving_out(dict.fromkeys(FUNCTIONS, reason))


def leaving_out(reasons: Mapping[str, str], among: Iterable[str] = TRANSPORTS) -> pytest.MarkDecorator:
    """For a case that these transports are left out of, each with its reason.

    ``among`` are those that the case is of: it has nothing to say of others, of which another test shows it.
    """
    return pytest.mark.parametrize("harness", parameters(reasons, among), indirect=True)


def parameters(reasons: Mapping[str, str], among: Iterable[str] = TRANSPORTS) -> list[object]:
    """Transports as parameters of a fixture; those with a reason are skipped, and say it."""
    return [
        pytest.param(name, marks=pytest.mark.skip(reason=f"{name} {reasons[name]}")) if name in reasons else name
        for name in among
    ]
