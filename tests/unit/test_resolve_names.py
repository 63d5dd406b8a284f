"""Names of AWS resources: form, length, cutting, collisions."""

import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.resolving import refused
from towpath.envelope import is_topic_name
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.resolve.names import Names, slug
from towpath.topology import parse_topology

NAMES = Names(topology="shop", environment="prod")


def written(*names: str, mode: str = "none", topics: tuple[str, ...] = ("t",)) -> dict[str, object]:
    subscriptions = {name: {"topic": topics[0], "handler": "app:run", "partition_mode": mode} for name in names}
    return {"name": "shop", "topics": {topic: {} for topic in topics}, "subscriptions": subscriptions}


def resolved(*names: str, mode: str = "none", topics: tuple[str, ...] = ("t",)) -> Manifest:
    return resolve(parse_topology(written(*names, mode=mode, topics=topics)), "prod")


def mistakes(*names: str, mode: str = "none", topics: tuple[str, ...] = ("t",)) -> list[str]:
    return refused(written(*names, mode=mode, topics=topics))


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
    assert NAMES.consumer_policy("a.b") == "shop-prod-a-b-consumer"
    assert NAMES.alarm("a.b", "age") == "shop-prod-a-b-age"


# --- Length ------------------------------------------------------------------------------------------------------


def expected(logical: str, suffix: str, longest: int) -> str:
    """The rule of the design, in other words than the code's: no name here ends in a hyphen where it is cut."""
    whole = f"shop-prod-{logical}{suffix}"
    if len(whole) <= longest:
        return whole
    end = f"-{hashlib.sha256(logical.encode()).hexdigest()[:8]}{suffix}"
    return whole[: longest - len(end)] + end


@pytest.mark.parametrize("length", range(76, 83))
@pytest.mark.parametrize("fifo", [False, True])
def test_a_queue_name_is_cut_from_81_characters_on_suffix_included(length: int, fifo: bool) -> None:
    """``length`` is that of the name without suffix; with -failed.fifo it is 12 more."""
    logical = "x" * (length - len("shop-prod-"))
    for role in ("", "-dlq", "-failed"):
        suffix = f"{role}.fifo" if fifo else role
        name = NAMES.queue(logical, role, fifo=fifo)
        assert name == expected(logical, suffix, 80)
        assert len(name) == min(80, length + len(suffix))


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_every_kind_of_name_is_cut_at_its_own_limit(over: int) -> None:
    def logical(longest: int, suffix: str) -> str:
        return "x" * (longest + over - len("shop-prod-") - len(suffix))

    topic = logical(256, ".fifo")
    assert NAMES.sns_topic(topic, fifo=True) == expected(topic, ".fifo", 256)
    function = logical(64, "")
    assert NAMES.function(function) == NAMES.role(function) == expected(function, "", 64)
    table = logical(255, "-dedup")
    assert NAMES.deduplication_table(table) == expected(table, "-dedup", 255)
    policy = logical(128, "-consumer")
    assert NAMES.consumer_policy(policy) == expected(policy, "-consumer", 128)
    alarm = logical(255, "-age")
    assert NAMES.alarm(alarm, "age") == expected(alarm, "-age", 255)


def test_the_digits_are_the_first_eight_of_the_sha256_of_the_logical_name() -> None:
    assert NAMES.function("x" * 100) == "shop-prod-" + "x" * 45 + "-09ecb6eb"


def test_a_name_is_not_cut_behind_a_hyphen() -> None:
    logical = "x" * 44 + "." + "y" * 55
    assert NAMES.function(logical) == f"shop-prod-{'x' * 44}-{hashlib.sha256(logical.encode()).hexdigest()[:8]}"


def test_names_that_differ_beyond_the_cut_differ() -> None:
    assert NAMES.queue("x" * 100 + "a", "", fifo=False) != NAMES.queue("x" * 100 + "b", "", fifo=False)


PREFIXES = st.text("abz09-", min_size=1, max_size=20)
WORDS = st.lists(st.text("abz09", min_size=1, max_size=80), min_size=1, max_size=4)
LOGICAL = st.builds(lambda words, mark: mark.join(words)[:200].strip("._-"), WORDS, st.sampled_from("._-"))
MODEST = settings(max_examples=60, deadline=None, derandomize=True)


@MODEST
@given(PREFIXES, PREFIXES, LOGICAL, st.booleans())
def test_every_name_is_one_that_its_service_takes(topology: str, environment: str, logical: str, fifo: bool) -> None:
    names = Names(topology=topology, environment=environment)
    taken = r"[A-Za-z0-9_-]{1,80}" if not fifo else r"(?=.{1,80}$)[A-Za-z0-9_-]+\.fifo"
    for role in ("", "-dlq", "-failed"):
        assert re.fullmatch(taken, names.queue(logical, role, fifo=fifo))
    assert re.fullmatch(r"(?=.{1,256}$)[A-Za-z0-9_-]+(\.fifo)?", names.sns_topic(logical, fifo=fifo))
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,64}", names.function(logical))
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,64}", names.role(logical))
    assert re.fullmatch(r"[a-zA-Z0-9-]{3,255}", names.deduplication_table(logical))
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,255}", names.alarm(logical, "delivery-failures"))
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,128}", names.consumer_policy(logical))
    assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]{0,127}", names.stack("subscriptions-4095"))
    assert re.fullmatch(r"[a-zA-Z0-9/_-]{1,256}", f"alias/{names.prefix}")


@MODEST
@given(PREFIXES, PREFIXES, LOGICAL)
def test_a_name_depends_on_nothing_but_what_it_is_made_of(topology: str, environment: str, logical: str) -> None:
    one, other = (Names(topology=topology, environment=environment) for _ in range(2))
    assert one.queue(logical, "-dlq", fifo=True) == other.queue(logical, "-dlq", fifo=True)
    assert one.function(logical).startswith(f"{topology}-{environment}-"[:55].rstrip("-"))


# --- Collisions --------------------------------------------------------------------------------------------------

SIMILAR = st.lists(st.text("ab-_.", min_size=1, max_size=4).filter(is_topic_name), unique=True, min_size=2, max_size=5)


@MODEST
@given(SIMILAR)
def test_two_subscriptions_never_share_a_name_silently(names: list[str]) -> None:
    """Either all names of resources differ, or the topology is refused."""
    if len({slug(name) for name in names}) == len(names):
        queues = [aws.queue.name for s in resolved(*names).subscriptions.values() if (aws := s.aws) is not None]
        assert len(set(queues)) == len(names)
    else:
        assert mistakes(*names) != []


def test_two_subscriptions_that_would_share_names_are_refused_once() -> None:
    assert mistakes("a.b", "a_b") == [
        "subscriptions.a_b: would get the SQS queue 'shop-prod-a-b', which 'a.b' gets too; rename one of them"
    ]


def test_a_third_subscription_of_the_same_name_is_refused_too() -> None:
    assert [mistake.partition(":")[0] for mistake in mistakes("a.b", "a_b", "a-b")] == [
        'subscriptions."a.b"',
        "subscriptions.a_b",
    ]


def test_a_subscription_named_like_anothers_dead_letter_queue_is_refused() -> None:
    assert mistakes("a", "a-dlq") == [
        "subscriptions.a-dlq: would get the SQS queue 'shop-prod-a-dlq', which 'a' gets too; rename one of them"
    ]


def test_a_subscription_named_like_anothers_failed_deliveries_is_refused() -> None:
    assert mistakes("a-failed", "a") == [
        "subscriptions.a-failed: would get the SQS queue 'shop-prod-a-failed', which 'a' gets too; rename one of them"
    ]


def test_a_fifo_and_a_standard_queue_of_one_name_do_not_meet_but_their_functions_do() -> None:
    document = written("a.b", "a_b")
    document["subscriptions"]["a_b"]["partition_mode"] = "exclusive"  # type: ignore[index]
    (told,) = refused(document)
    assert "the SQS queue 'shop-prod-a-b-failed.fifo', which 'a.b' gets too" in told


def test_two_topics_that_would_share_a_name_are_refused() -> None:
    assert mistakes(topics=("a.b", "a-b")) == [
        "topics.\"a.b\": would get the SNS topic 'shop-prod-a-b', which 'a-b' gets too; rename one of them"
    ]


def test_all_collisions_are_told_at_once() -> None:
    found = mistakes("a.b", "a_b", "c", "c-failed", topics=("t", "x.y", "x-y"))
    assert [mistake.partition(":")[0] for mistake in found] == [
        "subscriptions.a_b",
        "subscriptions.c-failed",
        'topics."x.y"',
    ]


def test_a_topic_and_a_subscription_may_have_the_same_name() -> None:
    assert resolved("t").subscriptions["t"].aws is not None


def test_names_may_meet_on_a_database_which_keeps_them_as_they_are() -> None:
    document = written("a.b", "a_b")
    document["topics"] = {"t": {"transport": "database"}}
    assert len(resolve(parse_topology(document), "prod").subscriptions) == 2
