"""What AWS would refuse of a whole manifest: names that meet, and sizes and numbers beyond its limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from towpath import limits
from towpath.errors import Mistake
from towpath.manifest import Deployment, Function, Manifest, meetings, resource_names
from towpath.records import key_path

# Room that a queue's URL takes beside its name: https://sqs.{region}.amazonaws.com.cn/{account}/, generously.
_QUEUE_URL_BYTES: Final = 80

_SPLIT: Final = "divide the topology into several"


def beyond_bounds(manifest: Manifest) -> Iterator[Mistake]:
    """A mistake for everything in ``manifest`` that AWS would refuse, with its path in the topology."""
    yield from _collisions(manifest)
    yield from _too_large_environments(manifest)
    if manifest.aws is not None:
        yield from _too_many_policies(manifest.aws)
        yield from _too_many_topics(manifest)


def _collisions(manifest: Manifest) -> Iterator[Mistake]:
    """A mistake for each topic or subscription that would get a name which another one has: one for the two, about
    the first of the names in which they meet.
    """
    told = set()
    for other, first in meetings(sorted(resource_names(manifest), key=lambda named: named.owner)):
        if (other.owner, first.owner) not in told:
            told.add((other.owner, first.owner))
            named = f"the {other.resource} {other.name!r}"
            problem = f"would get {named}, which {first.owner[1]!r} gets too; rename one of them"
            yield Mistake(path=key_path(other.owner), problem=problem)


def _too_large_environments(manifest: Manifest) -> Iterator[Mistake]:
    for name, subscription in manifest.subscriptions.items():
        if subscription.aws is not None and subscription.aws.function is not None:
            size = _environment_bytes(subscription.aws.function)
            if size > limits.LAMBDA_ENVIRONMENT_BYTES:
                problem = (
                    f"needs {size:,} bytes of environment variables in Lambda, which allows "
                    f"{limits.LAMBDA_ENVIRONMENT_BYTES:,}; shorten the handler's path"
                )
                yield Mistake(path=key_path(("subscriptions", name)), problem=problem)


def _environment_bytes(function: Function) -> int:
    """All variables as the JSON object that Lambda measures, with the longest URLs that the queues can get."""
    longest_url = "u" * (_QUEUE_URL_BYTES + limits.SQS_NAME_LENGTH)
    variables = function.environment | dict.fromkeys(function.queue_url_environment, longest_url)
    return len(json.dumps(variables, ensure_ascii=False, separators=(",", ":")).encode())


def _too_many_policies(aws: Deployment) -> Iterator[Mistake]:
    """This also keeps the dashboard within the 2,500 metrics that CloudWatch shows: no 300 subscriptions get here."""
    for who, what in (("publisher", "topics"), ("worker", "subscriptions"), ("operator", "subscriptions")):
        count = len(getattr(aws.access, who))
        if count > limits.IAM_POLICIES_PER_ROLE:
            problem = (
                f"are so many that {who}s need {count} policies of {limits.IAM_MANAGED_POLICY_CHARACTERS:,} "
                f"characters, and IAM allows a role {limits.IAM_POLICIES_PER_ROLE}; {_SPLIT}"
            )
            yield Mistake(path=what, problem=problem)


def _too_many_topics(manifest: Manifest) -> Iterator[Mistake]:
    """The stack of topics: a topic and its policy, its table; with the policies, key, alias and dashboard."""
    topics = [topic.aws for topic in manifest.topics.values() if topic.aws is not None]
    tables = sum(topic.deduplication_table is not None for topic in topics)
    count = 2 * len(topics) + tables + 3 * limits.IAM_POLICIES_PER_ROLE + 3
    if count > limits.CLOUDFORMATION_RESOURCES:
        problem = (
            f"are {len(topics)} on aws, which with all that belongs to them are {count} resources of one stack, and "
            f"CloudFormation allows {limits.CLOUDFORMATION_RESOURCES}; {_SPLIT}"
        )
        yield Mistake(path="topics", problem=problem)
