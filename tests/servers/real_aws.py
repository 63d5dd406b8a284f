"""A real AWS account for the conformance suite, under one prefix: ``make conformance AWS=real``.

``python -m tests.servers.real_aws check`` says whether the suite may run, ``list`` what there is under the prefix, and
``remove`` removes that: after a run that was killed. Nothing is done without a confirmation that names account, region
and prefix, and nothing whose name does not begin with the prefix is changed.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

CHOICE_VARIABLE = "TOWPATH_TEST_AWS"  # set to "real" by make
PREFIX_VARIABLE = "TOWPATH_REAL_AWS_PREFIX"
CONFIRMATION_VARIABLE = "TOWPATH_REAL_AWS_CONFIRM"
REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
# A topology's name has 20 characters at most. The suite's begins every name, so nothing else should begin with it.
PREFIX = re.compile(r"tp-[a-z0-9]+(-[a-z0-9]+)*")
PREFIX_LENGTHS = range(8, 21)
REMOVAL_SECONDS = 180  # SQS lists a queue for up to a minute after its removal
LOGS = "/aws/lambda/"


class RealAwsRefused(Exception):
    """The suite may not run against, or may not touch, what it was pointed at; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Where the suite may work: an account, a region, and names that begin with ``prefix`` and a hyphen."""

    account: str
    region: str
    prefix: str


def consent(environ: Mapping[str, str]) -> Consent:
    """What the variables allow. Raises ``RealAwsRefused``; asks nobody."""
    endpoints = [n for n in environ if n == "TOWPATH_AWS_ENDPOINT" or n.startswith("AWS_ENDPOINT_URL")]
    if endpoints:
        raise RealAwsRefused(f"{endpoints[0]} names an endpoint that is not AWS's: unset it")
    prefix = environ.get(PREFIX_VARIABLE, "")
    if not PREFIX.fullmatch(prefix) or len(prefix) not in PREFIX_LENGTHS:
        raise RealAwsRefused(
            f"{PREFIX_VARIABLE} must be a name that nothing else in the account begins with, 8 to 20 characters of"
            f" a-z, 0-9 and single hyphens that begin with tp-, for instance tp-suite-anna, not {prefix!r}"
        )
    region = next((environ[name] for name in REGION_VARIABLES if environ.get(name)), "")
    if not region:
        raise RealAwsRefused(f"{REGION_VARIABLES[0]} must say in which region the suite makes its resources")
    wanted = re.fullmatch(
        rf"(\d{{12}})/{re.escape(region)}/{re.escape(prefix)}", environ.get(CONFIRMATION_VARIABLE, "")
    )
    if wanted is None:
        raise RealAwsRefused(
            f"{CONFIRMATION_VARIABLE} must be ACCOUNT/{region}/{prefix}, with the twelve digits of the account in which"
            " the suite makes and removes real resources, which cost money"
        )
    return Consent(account=wanted[1], region=region, prefix=prefix)


# --- Clients ---------------------------------------------------------------------------------------------------

READING = ("Describe", "Get", "List")
NAMING = {
    "sqs": ("QueueName", "QueueUrl"),
    "sns": ("Name", "TopicArn", "SubscriptionArn"),
    "lambda": ("FunctionName",),
    "iam": ("RoleName",),
    "logs": ("logGroupName",),
    "dynamodb": ("TableName",),
}
ARN_PLACE = {"sns": 5, "sqs": 5, "lambda": 6}  # of the resource's name, of which a subscription or alias is a part


def resource_name(named: str) -> str:
    """The name in an ARN, a queue's URL, a log group, or the name itself."""
    if named.startswith("arn:"):
        parts = named.split(":")
        return parts[ARN_PLACE[parts[2]]]
    return named.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealAws:
    """As ``tests.servers.localstack.Aws``. Its clients refuse to change what is not under the prefix."""

    consent: Consent
    quiet_seconds: float = 20  # what SQS counts is approximate, and late

    @property
    def region(self) -> str:
        return self.consent.region

    @property
    def topology(self) -> str:
        """The name of the suite's topologies, with which all names begin."""
        return self.consent.prefix

    @property
    def variables(self) -> Mapping[str, str]:
        """Nothing: who runs the suite has credentials, and they are boto3's to find."""
        return {}

    def client(self, service: str) -> Any:
        """A boto3 client of ``service``. Raises ``RealAwsRefused`` at a change of anything outside the prefix."""
        made = self._unguarded(service)
        made.meta.events.register("provide-client-params.*.*", self._keep_within)
        return made

    def owns(self, named: str) -> bool:
        """Whether that is a resource under the prefix."""
        return resource_name(named).startswith(f"{self.consent.prefix}-")

    def _unguarded(self, service: str) -> Any:
        return boto3.client(service, region_name=self.region)

    def _keep_within(self, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        if model.name.startswith(READING):
            return
        service = model.service_model.service_name
        named = [params[key] for key in NAMING.get(service, ()) if key in params]
        if service == "lambda" and "UUID" in params:  # a mapping has no name: its function's counts
            mapping = self._unguarded("lambda").get_event_source_mapping(UUID=params["UUID"])
            named.append(mapping["FunctionArn"])
        if not named or not all(self.owns(name) for name in named):
            what = ", ".join(named) or "something without a name"
            raise RealAwsRefused(f"{service} {model.name} would change {what}, which is not under {self.topology}-")


# --- Removal ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Something under the prefix. ``id`` is what its service removes it by."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


def resources(aws: RealAws) -> Iterator[Resource]:
    """All that is there under the prefix, in the order in which it can be removed. Changes nothing."""
    for kind, (_, find, _) in KINDS.items():
        yield from (Resource(kind=kind, id=found) for found in find(aws))


def remove_all(
    aws: RealAws, *, patience_seconds: float = REMOVAL_SECONDS, sleep: Callable[[float], None] = time.sleep
) -> list[Resource]:
    """Remove all that is there under the prefix. Answers what is still there when the time is over."""
    waited = 0.0
    while left := list(resources(aws)):
        _remove(aws, left)
        left = list(resources(aws))
        if not left or waited >= patience_seconds:
            return left
        sleep(5)
        waited += 5
    return []


def _remove(aws: RealAws, chosen: list[Resource]) -> None:
    for resource in chosen:
        service, _, remove = KINDS[resource.kind]
        with suppress(ClientError):  # it is gone already, or is seen again in the next round
            remove(aws.client(service), resource.id)


def _found(service: str, operation: str, key: str, id_of: Callable[[Any], str], **asked: str) -> Any:
    """Finds what is listed and under the prefix; ``asked`` narrows the listing to names that begin with it."""

    def find(aws: RealAws) -> list[str]:
        arguments = {name: f"{start}{aws.consent.prefix}-" for name, start in asked.items()}
        pages = aws.client(service).get_paginator(operation).paginate(**arguments)
        return [id_of(item) for page in pages for item in page.get(key, [])]

    return find


def _owned(find: Any) -> Any:
    return lambda aws: [found for found in find(aws) if aws.owns(found)]


def _mappings(aws: RealAws) -> list[str]:
    pages = aws.client("lambda").get_paginator("list_event_source_mappings").paginate()
    return [m["UUID"] for page in pages for m in page["EventSourceMappings"] if aws.owns(m["FunctionArn"])]


def _remove_role(iam: Any, name: str) -> None:
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    iam.delete_role(RoleName=name)


# Removing a topic removes its subscriptions.
KINDS: Mapping[str, tuple[str, Callable[[RealAws], list[str]], Callable[[Any, str], Any]]] = {
    "event source mapping": ("lambda", _mappings, lambda client, named: client.delete_event_source_mapping(UUID=named)),
    "function": (
        "lambda",
        _owned(_found("lambda", "list_functions", "Functions", lambda f: str(f["FunctionName"]))),
        lambda client, named: client.delete_function(FunctionName=named),
    ),
    "topic": (
        "sns",
        _owned(_found("sns", "list_topics", "Topics", lambda t: str(t["TopicArn"]))),
        lambda client, named: client.delete_topic(TopicArn=named),
    ),
    "queue": (
        "sqs",
        _owned(_found("sqs", "list_queues", "QueueUrls", str, QueueNamePrefix="")),
        lambda client, named: client.delete_queue(QueueUrl=named),
    ),
    "table": (
        "dynamodb",
        _owned(_found("dynamodb", "list_tables", "TableNames", str)),
        lambda client, named: client.delete_table(TableName=named),
    ),
    "role": ("iam", _owned(_found("iam", "list_roles", "Roles", lambda r: str(r["RoleName"]))), _remove_role),
    "log group": (
        "logs",
        _owned(
            _found(
                "logs", "describe_log_groups", "logGroups", lambda g: str(g["logGroupName"]), logGroupNamePrefix=LOGS
            )
        ),
        lambda client, named: client.delete_log_group(logGroupName=named),
    ),
}


# --- Use -------------------------------------------------------------------------------------------------------


def confirmed(environ: Mapping[str, str]) -> RealAws:
    """The account that the variables name, after a look that the credentials are its. Raises ``RealAwsRefused``."""
    allowed = consent(environ)
    try:
        account = boto3.client("sts", region_name=allowed.region).get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        raise RealAwsRefused(f"AWS does not say whose credentials these are: {error}") from error
    if account != allowed.account:
        raise RealAwsRefused(f"{CONFIRMATION_VARIABLE} names {allowed.account}, and the credentials are {account}'s")
    return RealAws(consent=allowed)


def unused(aws: RealAws) -> RealAws:
    """``aws``, when nothing is there under its prefix yet. Raises ``RealAwsRefused``: it may be somebody else's."""
    there = [str(resource) for resource in resources(aws)]
    if there:
        raise RealAwsRefused(
            f"under {aws.topology}- there is something already: {', '.join(there[:5])}; take another prefix, or, when"
            " it is what a run of the suite left over, remove it with: python -m tests.servers.real_aws remove"
        )
    return aws


@contextmanager
def real_account(environ: Mapping[str, str]) -> Iterator[RealAws]:
    """The account for one run of the suite: under the prefix there is nothing before and nothing afterwards."""
    aws = unused(confirmed(environ))
    try:
        yield aws
    finally:
        left = remove_all(aws)
        if left:
            raise RealAwsRefused(f"could not be removed: {', '.join(str(resource) for resource in left)}")


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.servers.real_aws", description=__doc__)
    parser.add_argument("do", choices=["check", "list", "remove"])
    do = parser.parse_args(arguments).do
    try:
        aws = confirmed(environ)
        if do == "check":
            unused(aws)
    except RealAwsRefused as refused:
        print(f"real AWS: {refused}", file=sys.stderr)
        return 2
    left = remove_all(aws) if do == "remove" else list(resources(aws))
    for resource in left:
        print(resource)
    return 1 if left and do == "remove" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
