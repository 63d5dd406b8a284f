"""The construct that renders a manifest into the stack that it is in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from constructs import Construct

from cdk_app.alarms import make_alarms
from cdk_app.dashboard import make_dashboard
from cdk_app.encryption import key_of
from cdk_app.errors import InvalidInputs
from cdk_app.functions import Deployed, make_function
from cdk_app.inputs import SUBJECT, Inputs
from cdk_app.outputs import subscription_binding, tell, topic_binding
from cdk_app.parts import Part
from cdk_app.placeholders import arn, identity_policy
from cdk_app.queues import Queues, make_queues
from cdk_app.surroundings import Key, Surroundings
from cdk_app.topics import make_topic
from towpath.errors import Mistake
from towpath.manifest import Deployment, Manifest, Policy


class WorkQueue(Construct):
    """Everything that a manifest has on AWS, or ``part`` of it, in a stack of yours.

    The resources' physical names are the manifest's; their logical ids come from the names of topics and subscriptions
    and from ``construct_id``, so that none moves when another topic or subscription comes or goes. The stack gets the
    outputs ``{construct_id}Bindings`` and so on (``docs/how-to/deploy-with-cdk.md``); without ``construct_id`` in front
    where that is ``Default``.

    Raises ``InvalidInputs`` when ``inputs`` do not go with ``manifest``, before anything is made.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        manifest: Manifest,
        inputs: Inputs | None = None,
        part: Part | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        given = inputs if inputs is not None else Inputs()
        held = part if part is not None else Part.everything(manifest)
        given.check(manifest, held.subscriptions)
        deployment = _deployment(manifest)
        self._prefix = "" if construct_id == "Default" else construct_id
        self._manifest, self._part = manifest, held
        self.key: Key | None = key_of(self, manifest, deployment, given)
        """The KMS key that encrypts; None for SSE-SQS."""
        self._around = Surroundings(deployment=deployment, inputs=given, key=self.key)
        self.topic_arns: dict[str, str] = self._topics()
        """Every topic's ARN, by the topology's names, also of those that are in another stack."""
        self.queues: dict[str, Queues] = {}
        """The queues made here, by subscription."""
        self.functions: dict[str, Deployed] = {}
        """The functions made here, by subscription."""
        for name in held.subscriptions:
            self._subscription(name)
        self._tell()

    def policies(self, policies: Iterable[Policy]) -> dict[str, dict[str, Any]]:
        """The documents of policies of the manifest, ``manifest.aws.access.publisher`` for instance, by their names."""
        return {policy.name: self.policy(policy) for policy in policies}

    def policy(self, policy: Policy) -> dict[str, Any]:
        """The document of a policy of the manifest, where the stack is."""
        if self.key is None:
            return identity_policy(policy.statements)
        return identity_policy((*policy.statements, *policy.key_statements), key_arn=self.key.arn)

    def _topics(self) -> dict[str, str]:
        arns = {}
        for name, topic in self._manifest.topics.items():
            if topic.aws is None:
                continue
            if self._part.topics == "here":
                arns[name] = make_topic(Construct(self, f"Topic-{name}"), topic.aws, self._around).ref
            else:
                arns[name] = arn("sns", topic.aws.topic_name)
        return arns

    def _subscription(self, name: str) -> None:
        subscription = self._manifest.subscriptions[name]
        if subscription.aws is None:
            problem = f"names {name!r}, which is not on AWS"
            raise InvalidInputs(SUBJECT, [Mistake(path="", problem=problem)])
        scope = Construct(self, f"Subscription-{name}")
        topic_arn = self.topic_arns[subscription.topic]
        queues = make_queues(scope, subscription.aws, topic_arn, self._around)
        deployed = make_function(scope, name, subscription.aws, queues, self._around)
        make_alarms(scope, name, subscription.aws, self._around)
        self.queues[name] = queues
        if deployed is not None:
            self.functions[name] = deployed

    def _tell(self) -> None:
        topics = {}
        if self._part.topics == "here":
            self._tell_topics()
            topics = {
                name: topic_binding(topic_arn, fifo=self._is_fifo(name)) for name, topic_arn in self.topic_arns.items()
            }
        subscriptions = {
            name: subscription_binding(queues, self.functions.get(name)) for name, queues in self.queues.items()
        }
        outputs: dict[str, Any] = {
            "Bindings": {"topics": topics, "subscriptions": subscriptions},
            "FunctionArns": {name: one.function.attr_arn for name, one in self.functions.items()},
            "AliasArns": {name: one.alias.ref for name, one in self.functions.items()},
            "ConsumerPolicyJson": {name: self.policy(policy) for name, policy in self._consumer_policies()},
            "ExternalSubscriptions": {
                name: self._external(name, policy)
                for name, policy in self._consumer_policies()
                if self._manifest.subscriptions[name].host == "external"
            },
        }
        tell(self, self._prefix, outputs)

    def _tell_topics(self) -> None:
        deployment = self._around.deployment
        access = deployment.access
        outputs: dict[str, Any] = {
            "PublisherPolicyJson": self.policies(access.publisher),
            "WorkerPolicyJson": self.policies(access.worker),
            "OperatorPolicyJson": self.policies(access.operator),
            "DashboardUrl": make_dashboard(self, deployment.dashboard),
            "KmsKeyArn": self.key.arn if self.key is not None else None,
        }
        tell(self, self._prefix, outputs)

    def _consumer_policies(self) -> Iterator[tuple[str, Policy]]:
        for name in self.queues:
            aws = self._manifest.subscriptions[name].aws
            if aws is not None and aws.consumer_policy is not None:
                yield name, aws.consumer_policy

    def _external(self, name: str, policy: Policy) -> dict[str, Any]:
        """What a consumer needs that is not ours."""
        queues = self.queues[name]
        return {
            "queue_url": queues.queue.ref,
            "queue_arn": queues.queue.attr_arn,
            "dead_letter_queue_url": queues.dead_letter_queue.ref,
            "policy_json": self.policy(policy),
        }

    def _is_fifo(self, topic: str) -> bool:
        aws = self._manifest.topics[topic].aws
        return aws is not None and aws.fifo


def _deployment(manifest: Manifest) -> Deployment:
    if manifest.aws is None:
        problem = f"has nothing to deploy: every topic of {manifest.name!r} is on a database"
        raise InvalidInputs(SUBJECT, [Mistake(path="", problem=problem)])
    return manifest.aws
