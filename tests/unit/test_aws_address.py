"""Reading ``aws://`` URLs and bindings."""

from pathlib import Path

import pytest

from aws_transport import open_transport
from aws_transport.address import Address
from aws_transport.bindings import Bindings, SubscriptionBinding, TopicBinding
from towpath.errors import InvalidBindings, InvalidManifest, InvalidTransportUrl
from towpath.transports import Options


def test_a_url_names_the_region_alone() -> None:
    assert Address.parse("aws://eu-west-1") == Address(region="eu-west-1")
    assert Address.parse("aws://us-gov-east-1/") == Address(region="us-gov-east-1")


def test_a_url_names_profile_role_and_external_id() -> None:
    url = "aws://eu-west-1?profile=prod&role_arn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fsender&external_id=a%26b"
    role = "arn:aws:iam::123456789012:role/sender"
    assert Address.parse(url) == Address(region="eu-west-1", profile="prod", role_arn=role, external_id="a&b")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("aws://", "names no region"),
        ("aws://Europe", "names no region"),
        ("aws://eu-west-1/queue", "names no region"),
        ("aws://user@eu-west-1", "names no region"),
        ("aws://eu-west-1?rolearn=x", "unknown key 'rolearn'; allowed are profile, role_arn, external_id"),
        ("aws://eu-west-1?profile=", "twice or empty"),
        ("aws://eu-west-1?profile=a&profile=b", "twice or empty"),
        ("aws://eu-west-1?external_id=x", "without the role_arn"),
    ],
)
def test_a_wrong_url_is_refused_with_the_repair(url: str, problem: str) -> None:
    with pytest.raises(InvalidTransportUrl, match=problem):
        Address.parse(url)


def test_keys_in_a_wrong_url_are_not_shown() -> None:
    with pytest.raises(InvalidTransportUrl) as refused:
        Address.parse("aws://AKIAKEY:s3cr@et@eu-west-1")
    assert str(refused.value).startswith("'aws://***@eu-west-1' names no region")


def test_bindings_come_back_as_they_were_written(tmp_path: Path) -> None:
    bindings = Bindings(
        topics={"a.b": TopicBinding(arn="arn:aws:sns:eu-west-1:1:a", fifo=False)},
        subscriptions={
            "a.c": SubscriptionBinding(
                queue_url="https://q",
                queue_arn="arn:aws:sqs:eu-west-1:1:q",
                dead_letter_queue_url="https://q-dlq",
                delivery_failure_queue_url="https://q-failed",
            )
        },
    )
    (tmp_path / "bindings.json").write_text(bindings.to_json())
    assert Bindings.load(tmp_path / "bindings.json") == bindings


def test_all_mistakes_of_bindings_are_told_at_once() -> None:
    with pytest.raises(InvalidBindings) as caught:
        Bindings.from_json('{"topics": {"a.b": {"arn": 1}}, "subscription": {}}')
    assert {mistake.path for mistake in caught.value.mistakes} == {
        'topics."a.b".arn',
        'topics."a.b".fifo',
        "subscriptions",
        "subscription",
    }


def test_bindings_that_are_not_given_missing_or_no_json_are_said_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidBindings, match="TOWPATH_BINDINGS"):
        Bindings.load(None)
    with pytest.raises(InvalidBindings, match="cannot be read"):
        Bindings.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InvalidBindings, match=r"bad\.json is not JSON"):
        Bindings.load(tmp_path / "bad.json")
    (tmp_path / "latin.json").write_bytes(b'"\xe9"')
    with pytest.raises(InvalidBindings, match="UTF-8"):
        Bindings.load(tmp_path / "latin.json")


def test_the_transport_asks_for_the_manifest_first(tmp_path: Path) -> None:
    with pytest.raises(InvalidManifest, match="towpath manifest render"):
        open_transport("aws://eu-west-1", Options(manifest=None, bindings=None))
