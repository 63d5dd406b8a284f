"""Names of AWS resources: form, length, cutting, collisions."""

import re
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import InvalidTopology
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.resolve.names import Names, slug
from towpath.topology import parse_topology

NAMES = Names(topology="shop", environment="prod")


def resolved(*names: str, mode: str = "none", topics: tuple[str, ...] = ("t",)) -> Manifest:
    subscriptions = {name: {"topic": topics[0], "handler": "app:run", "partition_mode": mode} for name in names}
    document = {"name": "shop", "topics": {topic: {} for topic in topics}, "subscriptions": subscriptions}
    return resolve(parse_topology(document), "prod")


def mistakes(*names: str, topics: tuple[str, ...] = ("t",)) -> list[str]:
    with pytest.raises(InvalidTopology) as caught:
        resolved(*names, topics=topics)
    return [str(mistake) for mistake in caught.value.mistakes]


@pytest.mark.parametrize(
    ("logical", "expected"),
    [("documents.convert", "documents-convert"), ("a_b.c-d", "a-b-c-d"), ("A..B__c", "a-b-c"), ("ä.b", "b")],
)
def test_a_slug_is_lower_case_with_runs_of_other_characters_as_one_hyphen(logical: str, expected: str) -> None:
    assert slug(logical) == expected


def test_names_are_topology_environment_slug_and_suffix() -> None:
    assert NAMES.sns_topic("orders.new", fifo=False) == "shop-prod-orders-new"
    assert NAMES.sns_topic("orders.new", fifo=True) == "shop-prod-orders-new.fifo"
    assert NAMES.deduplication_table("orders.new") == "shop-prod-orders-new-dedup"
    assert NAMES.queue("a.b", "", fifo=False) == "shop-prod-a-b"
    assert NAMES.queue("a.b", "-dlq", fifo=True) == "shop-prod-a-b-dlq.fifo"
    assert NAMES.queue("a.b", "-failed", fifo=False) == "shop-prod-a-b-failed"
    assert NAMES.function("a.b") == NAMES.role("a.b") == "shop-prod-a-b"
    assert NAMES.alarm("a.b", "age") == "shop-prod-a-b-age"


@pytest.mark.parametrize("fifo", [False, True])
def test_a_name_of_exactly_the_longest_length_is_not_cut(fifo: bool) -> None:
    suffix = "-dlq.fifo" if fifo else "-dlq"
    logical = "x" * (80 - len("shop-prod-") - len(suffix))
    assert NAMES.queue(logical, "-dlq", fifo=fifo) == f"shop-prod-{logical}{suffix}"


@pytest.mark.parametrize("fifo", [False, True])
def test_a_longer_name_is_cut_and_has_eight_digits_of_a_hash_of_the_logical_name(fifo: bool) -> None:
    suffix = "-dlq.fifo" if fifo else "-dlq"
    logical = "x" * (81 - len("shop-prod-") - len(suffix))
    name = NAMES.queue(logical, "-dlq", fifo=fifo)
    assert len(name) == 80
    assert re.fullmatch(rf"shop-prod-x+-[0-9a-f]{{8}}{re.escape(suffix)}", name)


def test_the_hash_is_the_beginning_of_the_sha256_of_the_logical_name() -> None:
    assert NAMES.function("x" * 100) == "shop-prod-" + "x" * 45 + "-09ecb6eb"


def test_names_that_differ_beyond_the_cut_differ() -> None:
    assert NAMES.queue("x" * 100 + "a", "", fifo=False) != NAMES.queue("x" * 100 + "b", "", fifo=False)


WORDS = st.lists(st.text("abc019", min_size=1, max_size=60), min_size=1, max_size=4)
LOGICAL = st.builds(lambda words, mark: mark.join(words)[:200].strip("._-"), WORDS, st.sampled_from("._-"))


@given(LOGICAL, st.booleans())
def test_every_name_is_one_that_its_service_takes(logical: str, fifo: bool) -> None:
    queues = [NAMES.queue(logical, role, fifo=fifo) for role in ("", "-dlq", "-failed")]
    assert all(
        re.fullmatch(r"[A-Za-z0-9_-]{1,80}" if not fifo else r"(?=.{1,80}$)[A-Za-z0-9_-]+\.fifo", q) for q in queues
    )
    assert re.fullmatch(r"(?=.{1,256}$)[A-Za-z0-9_-]+(\.fifo)?", NAMES.sns_topic(logical, fifo=fifo))
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,64}", NAMES.function(logical))
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,64}", NAMES.role(logical))
    assert re.fullmatch(r"[a-zA-Z0-9-]{3,255}", NAMES.deduplication_table(logical))
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,255}", NAMES.alarm(logical, "delivery-failures"))
    assert "--" not in "".join(chain(queues, [NAMES.function(logical)]))


# --- Collisions --------------------------------------------------------------------------------------------------


def test_two_subscriptions_that_would_share_a_queue_are_refused() -> None:
    found = mistakes("a.b", "a_b")
    assert (
        "subscriptions.a_b: would get the SQS queue 'shop-prod-a-b', which 'a.b' gets too; rename one of them" in found
    )


def test_two_that_meet_in_many_names_are_told_once() -> None:
    assert [mistake.partition(":")[0] for mistake in mistakes("a.b", "a-b", "a_b")] == [
        'subscriptions."a.b"',
        "subscriptions.a_b",
    ]


def test_a_subscription_named_like_anothers_dead_letter_queue_is_refused() -> None:
    assert mistakes("a", "a-dlq") == [
        "subscriptions.a-dlq: would get the SQS queue 'shop-prod-a-dlq', which 'a' gets too; rename one of them"
    ]


def test_two_topics_that_would_share_a_name_are_refused() -> None:
    assert mistakes(topics=("a.b", "a-b")) == [
        "topics.\"a.b\": would get the SNS topic 'shop-prod-a-b', which 'a-b' gets too; rename one of them"
    ]


def test_all_collisions_are_told_at_once() -> None:
    found = mistakes("a.b", "a_b", "c", "c-failed", topics=("t", "x.y", "x-y"))
    assert {mistake.partition(":")[0] for mistake in found} == {
        "subscriptions.a_b",
        "subscriptions.c-failed",
        'topics."x.y"',
    }


def test_a_topic_and_a_subscription_may_have_the_same_name() -> None:
    assert resolved("t").subscriptions["t"].aws is not None
