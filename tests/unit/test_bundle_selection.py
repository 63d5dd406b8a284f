"""What the manifest says of the subscriptions to bundle."""

import json
from pathlib import Path

import pytest

from bundling.errors import UnusableProject
from bundling.selection import function_environment, select
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


def test_a_subscription_on_a_database_has_a_handler_and_no_target() -> None:
    selection = select(EVERYTHING, "ledger.post")
    assert selection.handlers == ("shop.ledger:post",)
    assert selection.target is None


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


@pytest.mark.parametrize("name", ["ledger.post", "orders.index", "nope"])
def test_what_has_no_function_has_no_environment(name: str) -> None:
    assert function_environment(EVERYTHING, name, "eu-west-1") == {}
