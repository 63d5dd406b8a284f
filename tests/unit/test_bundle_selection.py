"""What the manifest says of the subscriptions to bundle."""

import json
from pathlib import Path

import pytest

from bundling.errors import UnusableProject
from bundling.selection import function_environment, select, whose_settings
from bundling.target import lambda_target
from towpath.errors import SubscriptionNotFound
from towpath.function_settings import FunctionSettings
from towpath.manifest import Manifest

GOLDEN = Path(__file__).parent / "golden"
DOCUMENTS = Manifest.load(GOLDEN / "documents.json")
EVERYTHING = Manifest.load(GOLDEN / "everything.json")


def test_a_subscription_on_lambda_has_its_functions_target() -> None:
    selection = select(DOCUMENTS, "documents.convert")
    assert selection.name == "documents.convert"
    assert selection.handlers == ("app.documents:process",)
    assert selection.entry_point == "lambda_runtime.entry.handler"
    assert selection.target == lambda_target("python3.13", "arm64")


def test_a_subscription_on_a_worker_is_refused_with_the_manifest_that_it_needs() -> None:
    with pytest.raises(UnusableProject) as caught:
        select(EVERYTHING, "ledger.post", "manifest.json")
    assert str(caught.value) == (
        "ledger.post runs on a worker in manifest.json; "
        "render one for Lambda: towpath manifest render --environment prod --output aws.json"
    )


def test_a_subscription_without_handler_is_refused() -> None:
    with pytest.raises(UnusableProject, match=r"'orders\.partner' has no handler"):
        select(EVERYTHING, "orders.partner")


def test_an_unknown_subscription_is_told_with_those_there_are() -> None:
    with pytest.raises(SubscriptionNotFound, match=r"'nope'; the manifest has documents\.convert"):
        select(DOCUMENTS, "nope")


def test_a_dot_selects_the_handlers_of_all_functions_and_no_others() -> None:
    document = json.loads((GOLDEN / "everything.json").read_text())
    for subscription in document["subscriptions"].values():
        if subscription["aws"] and subscription["aws"]["function"]:
            subscription["aws"]["function"].update(runtime="python3.12", architecture="x86_64")
    selection = select(Manifest.from_json(json.dumps(document)), ".")
    assert selection.name == "everything"
    assert selection.target == lambda_target("python3.12", "x86_64")
    assert "shop.changes:log" in selection.handlers
    assert "shop.ledger:post" not in selection.handlers
    assert list(selection.handlers) == sorted(set(selection.handlers))


def test_a_dot_is_refused_when_functions_differ_or_there_is_none() -> None:
    document = json.loads((GOLDEN / "everything.json").read_text())
    document["subscriptions"]["orders.paused"]["aws"]["function"]["architecture"] = "x86_64"
    document["subscriptions"]["orders.changes.log"]["aws"]["function"]["architecture"] = "arm64"
    with pytest.raises(UnusableProject, match="differ in runtime or architecture"):
        select(Manifest.from_json(json.dumps(document)), ".")
    document["subscriptions"] = {"ledger.post": document["subscriptions"]["ledger.post"]}
    with pytest.raises(UnusableProject, match="hosts no subscription on Lambda"):
        select(Manifest.from_json(json.dumps(document)), ".")


def test_a_functions_environment_is_what_its_deployment_sets() -> None:
    environment = function_environment(DOCUMENTS, "documents.convert", "eu-west-1")
    assert FunctionSettings.from_json(environment["TOWPATH_SUBSCRIPTION"]).policy.handler == "app.documents:process"
    queue = "https://sqs.eu-west-1.amazonaws.com/000000000000/documents-prod-documents-convert.fifo"
    assert environment["TOWPATH_QUEUE_URL"] == queue
    assert environment["TOWPATH_DEAD_LETTER_QUEUE_URL"] != queue


@pytest.mark.parametrize("name", ["ledger.post", "orders.index"])
def test_what_has_no_function_has_no_environment(name: str) -> None:
    with pytest.raises(UnusableProject, match=f"{name} runs on a worker in aws.json"):
        function_environment(EVERYTHING, name, "eu-west-1", "aws.json")


def test_what_something_else_consumes_has_no_environment() -> None:
    with pytest.raises(UnusableProject, match=r"'orders\.partner' has no handler"):
        function_environment(EVERYTHING, "orders.partner", "eu-west-1")


def test_a_zip_of_one_subscription_gets_its_settings() -> None:
    assert whose_settings(EVERYTHING, Path("orders.paused.zip"), "orders.paused") == "orders.paused"
    assert whose_settings(DOCUMENTS, Path("x.zip"), DOCUMENTS.name) == "documents.convert"  # there is no other


def test_a_zip_of_several_subscriptions_needs_to_be_told_whose_settings_it_gets() -> None:
    with pytest.raises(UnusableProject) as caught:
        whose_settings(EVERYTHING, Path("dist/everything.zip"), "everything")
    held = sorted(name for name, found in EVERYTHING.subscriptions.items() if found.aws and found.aws.function)
    assert str(caught.value) == (
        f"everything.zip holds {len(held)} subscriptions; say whose settings it gets: --subscription {held[0]}"
    )
