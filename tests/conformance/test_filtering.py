"""The promise of filters, C03: one case for each operator, on every transport."""

from dataclasses import dataclass

import pytest

from tests.conformance.conftest import opened
from tests.conformance.needs import TRANSPORTS
from tests.fakes.filter_operators import OPERATORS, row, stored
from tests.servers.localstack import FILTERS_UNLIKE_AWS as LOCALSTACK
from tests.servers.moto_aws import FILTERS_UNLIKE_AWS as MOTO
from towpath import NewMessage
from towpath.filters import FilterPolicy

UNABLE = {"aws-worker": LOCALSTACK, "aws-lambda": LOCALSTACK, "moto": MOTO}


@dataclass(frozen=True, kw_only=True)
class Selected:
    """What each operator's subscription got of the messages made for it, as positions in its row of the table."""

    unable: dict[str, str]
    by_operator: dict[str, set[int]]


@pytest.fixture(scope="module", params=TRANSPORTS)
def selected(request, tmp_path_factory) -> Selected:
    """All operators in one topology, run once: a subscription for each, which is a function for each on Lambda."""
    unable = UNABLE.get(request.param, {})
    names = {operator: f"by-{number}" for number, operator in enumerate(OPERATORS) if operator not in unable}
    patient = {"topic": "orders", "lambda": {"timeout_seconds": 30}}  # many functions start at once
    subscriptions = {name: patient | {"filter": OPERATORS[operator][0]} for operator, name in names.items()}
    messages = [
        NewMessage(payload={"for": operator, "position": position}, attributes=attributes)
        for operator in names
        for position, attributes in enumerate(row(operator))
    ]
    policies = [FilterPolicy.parse(OPERATORS[operator][0]) for operator in names]
    with (
        pytest.MonkeyPatch.context() as environment,
        opened(request.param, request, tmp_path_factory.mktemp("filters"), environment) as harness,
        harness.transport({"topics": {"orders": {}}, "subscriptions": subscriptions}) as running,
    ):
        running.publish("orders", *messages)
        running.work(sum(policy.matches(stored(message.attributes)) for policy in policies for message in messages))
        seen = {operator: [o["payload"] for o in running.observations(name)] for operator, name in names.items()}
    own = {operator: {p["position"] for p in found if p["for"] == operator} for operator, found in seen.items()}
    return Selected(unable=unable, by_operator=own)


@pytest.mark.case("C03", "filters select, by each operator; missing attributes included")
@pytest.mark.parametrize("operator", OPERATORS)
def test_filters_select(selected, operator):
    if operator in selected.unable:
        pytest.skip(f"{operator}: {selected.unable[operator]}")
    passing = OPERATORS[operator][1]
    assert selected.by_operator[operator] == set(range(len(passing)))
