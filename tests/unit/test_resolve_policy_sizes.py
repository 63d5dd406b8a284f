"""Policies are divided exactly where IAM's limit is, counted for the longest places that they may be deployed to."""

import json

from towpath.manifest import Policy, Statement
from towpath.resolve.policy_sizes import Grant, divided, policy_size

KEY = Statement(sid="UseKey", actions=("kms:Decrypt",), resources=("${key_arn}",))
FRAME = {"Sid": "A", "Effect": "Allow", "Action": ["x:Y"], "Resource": []}


def document(*statements: dict[str, object]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)}, separators=(",", ":"))


def only(*resources: str) -> tuple[Policy, ...]:
    return divided("p", [Grant(sid="A", actions=("x:Y",), resources=resources)], ())


def held(policies: tuple[Policy, ...]) -> list[int]:
    return [sum(len(statement.resources) for statement in policy.statements) for policy in policies]


def test_the_size_is_that_of_the_document_without_white_space() -> None:
    policy = Policy(name="p", statements=(Statement(sid="A", actions=("x:Y",), resources=("r",)),), key_statements=())
    assert policy_size(policy) == len(document(FRAME | {"Resource": ["r"]}))


def test_placeholders_count_as_the_longest_that_can_stand_there() -> None:
    """A partition of 10 letters, a region of 16, an account of 12, a key's ARN of 100."""
    for placeholder, length in (("partition", 10), ("region", 16), ("account", 12), ("key_arn", 100)):
        statement = Statement(sid="A", actions=("x:Y",), resources=(f"${{{placeholder}}}",))
        policy = Policy(name="p", statements=(statement,), key_statements=())
        assert policy_size(policy) == len(document(FRAME | {"Resource": ["r" * length]}))


def test_the_statements_on_a_key_count_too() -> None:
    key = {"Sid": "UseKey", "Effect": "Allow", "Action": ["kms:Decrypt"], "Resource": ["k" * 100]}
    policy = Policy(name="p", statements=(), key_statements=(KEY,))
    assert policy_size(policy) == len(document(key))


ROOM = 6_144 - len(document(FRAME))


def filling(one: str, other: str, *, over: int = 0) -> tuple[str, str]:
    """Two resources, of which each takes its letters, two quotation marks and a comma, that fill a policy together."""
    return one * (ROOM // 2 - 3), other * (ROOM - ROOM // 2 - 3 + over)


def test_a_policy_is_filled_to_the_last_letter() -> None:
    fits = only(*filling("a", "b"))
    assert held(fits) == [2]
    assert policy_size(fits[0]) == 6_144 - 1  # the last comma is not there
    assert held(only(*filling("a", "b", over=1))) == [1, 1]


def test_every_further_policy_has_as_much_room_as_the_first() -> None:
    assert held(only(*filling("a", "b"), *filling("c", "d"))) == [2, 2]
    assert held(only(*filling("a", "b"), *filling("c", "d", over=1))) == [2, 1, 1]


def test_resources_are_sorted_and_a_statement_without_any_is_left_out() -> None:
    grants = [
        Grant(sid="A", actions=("x:Y",), resources=["c", "a"]),
        Grant(sid="B", actions=("x:Z",), resources=[]),
        Grant(sid="C", actions=("x:W",), resources=["b"]),
    ]
    (policy,) = divided("p", grants, (KEY,))
    assert policy.name == "p-1"
    assert [(s.sid, s.actions, s.resources) for s in policy.statements] == [
        ("A", ("x:Y",), ("a", "c")),
        ("C", ("x:W",), ("b",)),
    ]
    assert policy.key_statements == (KEY,)


def test_without_a_resource_there_is_no_policy() -> None:
    assert only() == ()
