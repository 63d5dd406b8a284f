"""The promise of filters, C03: one case for each operator, on every transport."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.conftest import TRANSPORTS, opened
from tests.servers.localstack import FILTERS_UNLIKE_AWS
from towpath import NewMessage
from towpath.filters import FilterPolicy

# For each operator a policy, what passes it, and what does not; a message that lacks the attribute is among these.
OPERATORS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = {
    "exact": ({"k": ["pdf", "docx"]}, [{"k": "docx"}, {"k": ["png", "pdf"]}], [{"k": "png"}, {"k": ["png", "gif"]}]),
    "exact number": ({"k": [7, 8.5]}, [{"k": 8.5}], [{"k": 8}, {"k": "7"}]),
    "prefix": ({"k": [{"prefix": "text/"}]}, [{"k": "text/html"}], [{"k": "image/png"}]),
    "suffix": ({"k": [{"suffix": ".pdf"}]}, [{"k": "a.pdf"}], [{"k": "a.png"}]),
    "equals-ignore-case": ({"k": [{"equals-ignore-case": "pdf"}]}, [{"k": "PDF"}], [{"k": "PDFX"}]),
    "anything-but": ({"k": [{"anything-but": ["png", "gif"]}]}, [{"k": "pdf"}], [{"k": "png"}]),
    "anything-but a number": ({"k": [{"anything-but": [7, 8]}]}, [{"k": 9}], [{"k": 8}]),
    "anything-but prefix": ({"k": [{"anything-but": {"prefix": "x-"}}]}, [{"k": "y-1"}], [{"k": "x-1"}]),
    "anything-but suffix": ({"k": [{"anything-but": {"suffix": "-x"}}]}, [{"k": "1-y"}], [{"k": "1-x"}]),
    "anything-but wildcard": ({"k": [{"anything-but": {"wildcard": "a*z"}}]}, [{"k": "abc"}], [{"k": "a-z"}]),
    "numeric": ({"k": [{"numeric": [">", 0, "<=", 7.5]}]}, [{"k": 7.5}, {"k": 1}], [{"k": 0}, {"k": 8}, {"k": "x"}]),
    "cidr": ({"k": [{"cidr": "10.0.0.0/24"}]}, [{"k": "10.0.0.255"}], [{"k": "10.0.1.0"}, {"k": "here"}]),
    "wildcard": ({"k": [{"wildcard": "orders/*/paid"}]}, [{"k": "orders/7/paid"}], [{"k": "orders/7/open"}]),
    "exists": ({"k": [{"exists": True}]}, [{"k": "acme"}, {"k": 0}], []),
    "does not exist": ({"k": [{"exists": False}]}, [{"other": "x"}], [{"k": "yes"}]),
    "no attributes": ({"k": [{"exists": False}]}, [{"other": "x"}], [{}]),
    "several keys": ({"k": ["pdf"], "size": [{"exists": True}]}, [{"k": "pdf", "size": 1}], [{"k": "pdf"}]),
    "$or": ({"$or": [{"k": ["a"]}, {"n": [{"numeric": ["<", 0]}]}]}, [{"k": "a"}, {"n": -1}], [{"k": "b", "n": 0}]),
}
LACKING = {"other": "x"}


@dataclass(frozen=True, kw_only=True)
class Selected:
    """What each operator's subscription got of the messages made for it, as positions in its row of the table."""

    unable: dict[str, str]
    by_operator: dict[str, set[int]]


def row(operator: str) -> list[dict[str, Any]]:
    """The attributes of all messages that are made for one operator."""
    _, passing, refused = OPERATORS[operator]
    return passing + [attributes for attributes in (*refused, LACKING) if attributes not in passing]


@pytest.fixture(scope="module", params=TRANSPORTS)
def selected(request, tmp_path_factory) -> Selected:
    """All operators in one topology, run once: a subscription for each, which is a function for each on Lambda."""
    unable = FILTERS_UNLIKE_AWS if request.param.startswith("aws") else {}
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
        running.work(sum(policy.matches(stored(message)) for policy in policies for message in messages))
        seen = {operator: [o["payload"] for o in running.observations(name)] for operator, name in names.items()}
    own = {operator: {p["position"] for p in found if p["for"] == operator} for operator, found in seen.items()}
    return Selected(unable=unable, by_operator=own)


def stored(message: NewMessage) -> dict[str, Any]:
    """The message's attributes as its envelope keeps them."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in message.attributes.items()}


@pytest.mark.case("C03", "filters select, by each operator; missing attributes included")
@pytest.mark.parametrize("operator", OPERATORS)
def test_filters_select(selected, operator):
    if operator in selected.unable:
        pytest.skip(f"{operator}: {selected.unable[operator]}")
    passing = OPERATORS[operator][1]
    assert selected.by_operator[operator] == set(range(len(passing)))
