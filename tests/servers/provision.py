"""Makes what a manifest describes on an AWS for tests, as a deployment does on the real one, and removes it again."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any, Protocol

from botocore.exceptions import ClientError

from aws_transport.bindings import Bindings, SubscriptionBinding, TopicBinding
from towpath.manifest import (
    DeduplicationTable,
    EventSourceMapping,
    Function,
    Manifest,
    Queue,
    ResourceStatement,
    Statement,
    Subscription,
    Topic,
)

READY_SECONDS = 120  # two seconds on LocalStack, a minute on AWS


class Clients(Protocol):
    """Where clients come from: LocalStack (``tests.servers.localstack.Aws``) or moto."""

    region: str

    def client(self, service: str) -> Any: ...


@dataclass(slots=True, kw_only=True)
class Deployment:
    """What stands on AWS. ``bindings`` grows with ``deploy_function``."""

    clients: Clients
    manifest: Manifest
    bindings: Bindings
    _undo: ExitStack = field(default_factory=ExitStack)

    @property
    def tables(self) -> list[str]:
        """The names of the ledgers of deduplication keys."""
        return [table.name for topic in self.manifest.topics.values() if (table := _table(topic)) is not None]

    def deploy_function(self, subscription: str, zip_path: Path, *, mapped: bool = True) -> str:
        """Deploy the zip as the subscription's function, alias and, if ``mapped``, mapping; answers the alias's ARN.

        The runtime is called what the manifest says, but the process executor runs this machine's Python.
        """
        resolved = self.manifest.subscriptions[subscription]
        function, mapping = resolved.aws.function, resolved.aws.event_source_mapping
        binding = self.bindings.subscriptions[subscription]
        alias_arn = self._make_function(function, self._environment(function, binding), zip_path)
        if mapped:
            self._make_mapping(mapping, alias_arn, binding)
        subscriptions = self.bindings.subscriptions | {subscription: replace(binding, function_arn=alias_arn)}
        self.bindings = replace(self.bindings, subscriptions=subscriptions)
        return alias_arn

    def remove(self) -> None:
        """Delete everything, mappings and functions first."""
        self._undo.close()

    def _environment(self, function: Function, binding: SubscriptionBinding) -> dict[str, str]:
        urls = {"queue": binding.queue_url, "dead_letter_queue": binding.dead_letter_queue_url}
        return function.environment | {name: urls[which] for name, which in function.queue_url_environment.items()}

    def _make_mapping(self, mapping: EventSourceMapping, alias_arn: str, binding: SubscriptionBinding) -> None:
        scaling = {} if mapping.maximum_concurrency is None else {"MaximumConcurrency": mapping.maximum_concurrency}
        lambda_ = self.clients.client("lambda")
        made = _once_the_role_is_known(
            lambda_.create_event_source_mapping,
            FunctionName=alias_arn,
            EventSourceArn=binding.queue_arn,
            BatchSize=mapping.batch_size,
            MaximumBatchingWindowInSeconds=mapping.batch_window_seconds,
            FunctionResponseTypes=list(mapping.function_response_types),
            Enabled=mapping.enabled,
            ScalingConfig=scaling,
        )
        self._undo.callback(_forgiving(lambda_.delete_event_source_mapping), UUID=made["UUID"])
        state = "Enabled" if mapping.enabled else "Disabled"
        _await(lambda: lambda_.get_event_source_mapping(UUID=made["UUID"])["State"] == state, f"the mapping is {state}")

    def _make_function(self, function: Function, environment: dict[str, str], zip_path: Path) -> str:
        lambda_ = self.clients.client("lambda")
        self._make_log_group(function)
        _once_the_role_is_known(
            lambda_.create_function,
            FunctionName=function.name,
            Role=self._make_role(function),
            Runtime=function.runtime,
            Handler=function.handler,
            Architectures=[function.architecture],
            MemorySize=function.memory_mb,
            Timeout=function.timeout_seconds,
            Environment={"Variables": environment},
            Code={"ZipFile": zip_path.read_bytes()},
        )
        self._undo.callback(_forgiving(lambda_.delete_function), FunctionName=function.name)
        self._await_active(FunctionName=function.name)
        version = lambda_.publish_version(FunctionName=function.name)["Version"]
        alias = lambda_.create_alias(FunctionName=function.name, Name=function.alias, FunctionVersion=version)
        self._await_active(FunctionName=function.name, Qualifier=version)
        return alias["AliasArn"]

    def _await_active(self, **function: str) -> None:
        lambda_ = self.clients.client("lambda")
        _await(lambda: _is_active(lambda_.get_function_configuration(**function)), "the function is active")

    def _make_log_group(self, function: Function) -> None:
        """Its role may not make one. One that is there is left of a function of that name."""
        logs = self.clients.client("logs")
        with suppress(logs.exceptions.ResourceAlreadyExistsException):
            logs.create_log_group(logGroupName=function.log_group_name)
        self._undo.callback(_forgiving(logs.delete_log_group), logGroupName=function.log_group_name)

    def _make_role(self, function: Function) -> str:
        iam = self.clients.client("iam")
        trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        role = iam.create_role(RoleName=function.role_name, AssumeRolePolicyDocument=_document([trust]))["Role"]
        self._undo.callback(_forgiving(iam.delete_role), RoleName=function.role_name)
        iam.put_role_policy(
            RoleName=function.role_name,
            PolicyName="towpath",
            PolicyDocument=_document([self._statement(statement) for statement in function.policy.statements]),
        )
        self._undo.callback(_forgiving(iam.delete_role_policy), RoleName=function.role_name, PolicyName="towpath")
        return role["Arn"]

    def _statement(self, statement: Statement) -> dict[str, Any]:
        known = {"partition": "aws", "region": self.clients.region, "account": self._account()}
        return {
            "Sid": statement.sid,
            "Effect": "Allow",
            "Action": list(statement.actions),
            "Resource": [Template(resource).substitute(known) for resource in statement.resources],
        }

    def _account(self) -> str:
        return next(iter(self.bindings.topics.values())).arn.split(":")[4]


@contextmanager
def provisioned(clients: Clients, manifest: Manifest) -> Iterator[Deployment]:
    """Topics, tables, queues and SNS subscriptions of ``manifest``'s AWS part; all removed afterwards."""
    with ExitStack() as undo:
        maker = _Maker(clients=clients, shared=manifest.aws, undo=undo)
        topics = {name: maker.topic(t) for name, t in manifest.topics.items() if t.aws is not None}
        subscriptions = {
            name: maker.subscription(s, topics[s.topic])
            for name, s in manifest.subscriptions.items()
            if s.aws is not None
        }
        bindings = Bindings(topics=topics, subscriptions=subscriptions)
        yield Deployment(clients=clients, manifest=manifest, bindings=bindings, _undo=undo)


@dataclass(slots=True, kw_only=True)
class _Maker:
    clients: Clients
    shared: Any  # what the manifest's resources have in common
    undo: ExitStack
    sns: Any = field(init=False)
    sqs: Any = field(init=False)

    def __post_init__(self) -> None:
        self.sns, self.sqs = self.clients.client("sns"), self.clients.client("sqs")

    def topic(self, topic: Topic) -> TopicBinding:
        attributes = {"FifoTopic": "true", "ContentBasedDeduplication": "false"} if topic.aws.fifo else {}
        if topic.aws.fifo_throughput_scope is not None:
            attributes["FifoThroughputScope"] = topic.aws.fifo_throughput_scope
        arn = self.sns.create_topic(Name=topic.aws.topic_name, Attributes=attributes)["TopicArn"]
        self.undo.callback(_forgiving(self.sns.delete_topic), TopicArn=arn)
        policy = _resource_policy(self.shared.topic_policy, _place(arn) | {"topic_arn": arn})
        self.sns.set_topic_attributes(TopicArn=arn, AttributeName="Policy", AttributeValue=policy)
        if (table := _table(topic)) is not None:
            self.table(table)
        return TopicBinding(arn=arn, fifo=topic.aws.fifo)

    def table(self, table: DeduplicationTable) -> None:
        dynamodb = self.clients.client("dynamodb")
        dynamodb.create_table(
            TableName=table.name,
            BillingMode=table.billing_mode,
            AttributeDefinitions=[{"AttributeName": table.partition_key, "AttributeType": table.partition_key_type}],
            KeySchema=[{"AttributeName": table.partition_key, "KeyType": "HASH"}],
        )
        self.undo.callback(_forgiving(dynamodb.delete_table), TableName=table.name)
        _await(lambda: dynamodb.describe_table(TableName=table.name)["Table"]["TableStatus"] == "ACTIVE", "the table")
        dynamodb.update_time_to_live(
            TableName=table.name,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": table.ttl_attribute},
        )

    def subscription(self, subscription: Subscription, topic: TopicBinding) -> SubscriptionBinding:
        aws, settings = subscription.aws, subscription.aws.sns_subscription
        dead_url, dead_arn = self.queue(aws.dead_letter_queue, topic, {})
        failed_url, failed_arn = self.queue(aws.delivery_failure_queue, topic, {})
        redrive = {"deadLetterTargetArn": dead_arn, "maxReceiveCount": aws.queue.max_receive_count}
        url, arn = self.queue(aws.queue, topic, {"RedrivePolicy": json.dumps(redrive)})
        allow = {"redrivePermission": aws.dead_letter_queue.redrive_allow, "sourceQueueArns": [arn]}
        self.sqs.set_queue_attributes(QueueUrl=dead_url, Attributes={"RedriveAllowPolicy": json.dumps(allow)})
        attributes = {
            "RawMessageDelivery": json.dumps(settings.raw_message_delivery),
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": failed_arn}),
        }
        if settings.filter_policy is not None:
            attributes |= {"FilterPolicy": settings.filter_policy, "FilterPolicyScope": settings.filter_policy_scope}
        made = self.sns.subscribe(
            TopicArn=topic.arn, Protocol="sqs", Endpoint=arn, Attributes=attributes, ReturnSubscriptionArn=True
        )
        self.undo.callback(_forgiving(self.sns.unsubscribe), SubscriptionArn=made["SubscriptionArn"])
        return SubscriptionBinding(
            queue_url=url, queue_arn=arn, dead_letter_queue_url=dead_url, delivery_failure_queue_url=failed_url
        )

    def queue(self, queue: Queue, topic: TopicBinding, more: dict[str, str]) -> tuple[str, str]:
        place = _place(topic.arn)
        arn = Template("arn:${partition}:sqs:${region}:${account}:").substitute(place) + queue.name
        is_dead = queue.redrive_allow is not None
        policy = self.shared.dead_letter_queue_policy if is_dead else self.shared.queue_policy
        attributes = {
            "VisibilityTimeout": str(queue.visibility_timeout_seconds),
            "MessageRetentionPeriod": str(queue.message_retention_seconds),
            "MaximumMessageSize": str(queue.maximum_message_size),
            "ReceiveMessageWaitTimeSeconds": str(queue.receive_wait_time_seconds),
            "SqsManagedSseEnabled": json.dumps(queue.sqs_managed_sse),
            "Policy": _resource_policy(policy, place | {"topic_arn": topic.arn, "queue_arn": arn}),
        } | more
        if queue.fifo:
            attributes |= {"FifoQueue": "true", "ContentBasedDeduplication": "false"}
            attributes |= {"DeduplicationScope": queue.deduplication_scope} if queue.deduplication_scope else {}
            attributes |= {"FifoThroughputLimit": queue.fifo_throughput_limit} if queue.fifo_throughput_limit else {}
        url = self.sqs.create_queue(QueueName=queue.name, Attributes=attributes)["QueueUrl"]
        self.undo.callback(_forgiving(self.sqs.delete_queue), QueueUrl=url)
        return url, arn


def _table(topic: Topic) -> DeduplicationTable | None:
    return None if topic.aws is None else topic.aws.deduplication_table


def _place(topic_arn: str) -> dict[str, str]:
    _, partition, _, region, account, _ = topic_arn.split(":")
    return {"partition": partition, "region": region, "account": account}


def _resource_policy(statements: tuple[ResourceStatement, ...], names: dict[str, str]) -> str:
    """A resource's policy as the manifest has it. Its placeholders stand in no other text."""
    written = [
        {
            "Sid": one.sid,
            "Effect": one.effect,
            "Principal": "*" if one.principals == {"AWS": ("*",)} else one.principals,
            "Action": list(one.actions),
            "Resource": list(one.resources),
            **({"Condition": one.conditions} if one.conditions else {}),
        }
        for one in statements
    ]
    return Template(_document(written)).substitute(names)


def _document(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _is_active(configuration: dict[str, Any]) -> bool:
    if configuration["State"] == "Failed":
        raise AssertionError(f"the function failed: {configuration.get('StateReason')}")
    return configuration["State"] == "Active"


def _once_the_role_is_known(call: Callable[..., Any], **arguments: Any) -> Any:
    """AWS makes a role known to Lambda seconds after it has made it."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            return call(**arguments)
        except ClientError as error:
            told = error.response["Error"]
            unknown = told["Code"] == "InvalidParameterValueException" and "role" in told["Message"]
            if not unknown or time.monotonic() > deadline:
                raise
            time.sleep(1)


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {READY_SECONDS} s: {what}"
        time.sleep(0.05)


def _forgiving(call: Callable[..., Any]) -> Callable[..., None]:
    """``call`` for clearing up: what a test has deleted itself is no failure."""

    def forgiven(**arguments: Any) -> None:
        with suppress(ClientError):
            call(**arguments)

    return forgiven
