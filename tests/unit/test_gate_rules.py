"""What the gate blocks, edit by edit."""

from typing import Any

import pytest

from towpath.gate import UNKNOWN, Edit, blocked

WHERE = "module.towpath.thing"
ALLOW = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": "q"}
DENY = {"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": "q"}


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def update(kind: Any, attribute: str, before: Any, after: Any) -> list[tuple[str, str]]:
    """Impact and sentence of what is blocked when this one attribute changes."""
    edit = Edit(address=WHERE, kind=kind, action="update", before={attribute: before}, after={attribute: after})
    return [(one.impact, one.sentence) for one in blocked([edit])]


@pytest.mark.parametrize(
    ("kind", "attribute", "before", "after", "told"),
    [
        ("queue", "retention", 604_800, 86_400, "keeps a message for 86,400 seconds instead of 604,800"),
        ("queue", "visibility timeout", 360, 30, "hides what it hands out for 30 seconds instead of 360"),
        ("queue", "size limit", 262_144, 1_024, "take messages of up to 1,024 bytes instead of 262,144"),
        ("queue", "redrive count", 10, 3, "3 times instead of 10"),
        ("redrive policy", "redrive count", 10, 3, "3 times instead of 10"),
        ("queue", "redrive target", "arn:dlq", None, "null instead of"),
        ("subscription", "redrive target", "arn:failed", "arn:other", '"arn:other" instead of "arn:failed"'),
        ("queue", "key", None, "arn:key", "its KMS key is"),
        ("topic", "key", "arn:key", None, "its KMS key is"),
        ("queue", "encryption", True, False, "no longer encrypts"),
        ("subscription", "filter policy", None, {"k": ["a"]}, "gets the filter"),
        ("subscription", "filter policy", {"k": ["a", "b"]}, {"k": ["a"]}, "never comes"),
        ("subscription", "filter policy", {"k": ["a"]}, {"k": ["b"]}, "never comes"),
        ("subscription", "filter policy", {"k": ["a"]}, {"k": {"no": "policy"}}, "never comes"),
        ("subscription", "filter scope", "MessageAttributes", "MessageBody", "its filter looks at"),
        ("subscription", "raw delivery", True, False, "without their attributes"),
        ("mapping", "enabled", True, False, "no longer polls"),
        ("mapping", "response types", ["ReportBatchItemFailures"], [], "failed messages are deleted"),
        ("mapping", "function", "arn:alias", "arn:function", "it invokes"),
        ("mapping", "filter criteria", None, [{"filter": []}], "Lambda deletes"),
        ("function", "reserved concurrency", -1, 0, "is 0 instead of none"),
        ("function", "reserved concurrency", 9, 5, "is 5 instead of 9"),
        ("log group", "retention", None, 30, "30 days instead of"),
        ("alarm", "actions enabled", True, False, "tells nobody"),
        ("alarm", "alarm actions", ["arn:a", "arn:b"], ["arn:a"], 'no longer tells "arn:b"'),
        ("key", "enabled", True, False, "is switched off"),
        ("key", "rotation", True, False, "no new key material"),
        ("queue", "deletion policy", "Retain", "Delete", "when it leaves the template it is deleted"),
        ("policy", "policy", policy(ALLOW), policy(ALLOW, {**ALLOW, "Principal": "*"}), "allows more"),
        ("policy", "policy", policy(ALLOW, DENY), policy(ALLOW), "allows more: sqs:*"),
        ("policy", "policy", policy(ALLOW), policy({**ALLOW, "Action": "sqs:*"}), "allows more: sqs:*"),
        ("policy", "policy", policy(ALLOW), policy({**ALLOW, "Condition": {"Bool": {"a": "b"}}}), "allows less"),
        ("policy", "policy", policy(ALLOW), policy(), "allows less: sqs:sendmessage"),
        ("policy", "policy", policy(ALLOW), None, "allows less: sqs:sendmessage"),
        ("role", "trust", policy(ALLOW), policy(ALLOW, DENY), "allows less"),
        ("role", "managed policies", ["a"], ["a", "b"], "managed policies"),
        ("queue", "redrive permission", {"redrivePermission": "byQueue"}, None, "may take dead letters from"),
    ],
)
def test_a_lossy_edit_is_blocked(kind: str, attribute: str, before: Any, after: Any, told: str) -> None:
    ((impact, sentence),) = update(kind, attribute, before, after)
    assert impact == "lossy"
    assert told in sentence


@pytest.mark.parametrize(
    ("kind", "attribute", "before", "after"),
    [
        ("queue", "retention", 86_400, 604_800),
        ("queue", "visibility timeout", 30, 360),
        ("queue", "size limit", 1_024, 262_144),
        ("queue", "redrive count", 3, 10),
        ("queue", "encryption", False, True),
        ("subscription", "filter policy", {"k": ["a"]}, None),
        ("subscription", "filter policy", {"k": ["a"]}, {"k": ["a", "b"]}),
        ("subscription", "filter policy", {"towpath-disabled": [{"exists": True}]}, {"k": ["a"]}),
        ("mapping", "enabled", False, True),
        ("function", "reserved concurrency", 5, -1),
        ("log group", "retention", 30, None),
        ("alarm", "actions enabled", False, True),
        ("alarm", "alarm actions", [], ["arn:a"]),
        ("key", "rotation", False, True),
        ("queue", "deletion policy", "Delete", "Retain"),
        ("queue", "a tag", "a", "b"),
        (
            "policy",
            "policy",
            policy(ALLOW, DENY),
            policy(DENY, {**ALLOW, "Sid": "Named", "Action": ["SQS:SendMessage"]}),
        ),
        ("policy", "policy", policy(DENY), policy({**DENY, "Principal": {"AWS": ["*"]}})),
    ],
)
def test_a_safe_edit_passes(kind: str, attribute: str, before: Any, after: Any) -> None:
    assert update(kind, attribute, before, after) == []


@pytest.mark.parametrize("attribute", ["retention", "redrive target", "policy", "key"])
def test_a_guarded_value_that_nobody_knows_yet_is_blocked(attribute: str) -> None:
    ((impact, sentence),) = update("queue", attribute, "known", UNKNOWN)
    assert (impact, "known only while it runs" in sentence) == ("lossy", True)


def test_a_policy_that_holds_something_unknown_is_blocked() -> None:
    assert update("policy", "policy", policy(ALLOW), policy({**ALLOW, "Resource": UNKNOWN}))


@pytest.mark.parametrize(
    "kind", ["topic", "subscription", "queue", "policy", "mapping", "function", "alias", "key", "alarm"]
)
@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("delete", "is deleted: "),
        ("replace", "is deleted and made anew: "),
        ("forget", "is forgotten"),
        ("unclear", "may be deleted and made anew"),
    ],
)
def test_what_goes_is_blocked(kind: Any, action: Any, told: str) -> None:
    (one,) = blocked([Edit(address=WHERE, kind=kind, action=action, before={}, after={})])
    assert (one.address, one.kind, one.impact) == (WHERE, kind, "destructive")
    assert one.sentence.startswith(told)


def test_what_is_new_passes() -> None:
    assert blocked([Edit(address=WHERE, kind="queue", action="create", before={}, after={"retention": 60})]) == ()


@pytest.mark.parametrize("resource", ["arn:aws:sqs:eu-west-1:000000000000:new", "arn:aws:sqs:eu-west-1:0:new:*"])
def test_a_policy_that_grows_by_what_is_new_passes(resource: str) -> None:
    queue = Edit(address="q", kind="queue", action="create", before={}, after={}, names=("new",))
    grown = policy(ALLOW, {**ALLOW, "Resource": resource})
    role = Edit(address="r", kind="policy", action="update", before={"policy": policy(ALLOW)}, after={"policy": grown})
    assert blocked([queue, role]) == ()
    assert len(blocked([role])) == 1


def test_everything_of_one_resource_is_told_and_the_worst_comes_first() -> None:
    worse = Edit(
        address="b",
        kind="queue",
        action="update",
        before={"retention": 2, "visibility timeout": 2},
        after={"retention": 1, "visibility timeout": 1},
    )
    gone = Edit(address="c", kind="queue", action="delete", before={}, after={})
    assert [(one.address, one.impact) for one in blocked([worse, gone])] == [
        ("c", "destructive"),
        ("b", "lossy"),
        ("b", "lossy"),
    ]
