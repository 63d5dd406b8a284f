"""The transport ``aws://``: SNS topics to publish to, SQS queues to consume from, as the manifest and bindings say."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from aws_transport.address import Address
from aws_transport.auditing import AuditLog
from aws_transport.bindings import BINDINGS_VARIABLE, Bindings, TopicBinding
from aws_transport.clients import ENDPOINT_VARIABLE, Clients, make_clients
from aws_transport.consumer import SqsConsumer
from aws_transport.files import Deployment, DeploymentFiles
from aws_transport.operator import SqsOperator
from aws_transport.publisher import SnsPublisher
from aws_transport.settlement import SqsSettler
from towpath.envelope import Sources
from towpath.errors import (
    InvalidBindings,
    InvalidManifest,
    InvalidTransportUrl,
    Mistake,
    SubscriptionNotFound,
    Unsupported,
    did_you_mean,
)
from towpath.manifest import Manifest, Subscription
from towpath.message import NewMessage, PublishResult, utc_now
from towpath.operating import AuditTrail
from towpath.ports import Capability, Transport
from towpath.settlement import SubscriptionPolicy
from towpath.transports import Options, connect

AUDIT_VARIABLE: Final = "TOWPATH_AUDIT_DATABASE"

# What SQS and SNS can do of all that a transport may. Not among them, for instance: a release keeps its attempt, an
# expired lease comes back at once, counts are approximate, and nothing can be held back at publishing.
CAPABILITIES: Final[frozenset[Capability]] = frozenset({"exclusive_backoff_holds_key"})


def open_transport(url: str, options: Options) -> AwsTransport:
    """Open ``aws://REGION?profile=..&role_arn=..&external_id=..``; no call is made yet.

    Without ``options.bindings`` the file that ``TOWPATH_BINDINGS`` names is read; ``TOWPATH_AWS_ENDPOINT`` is called
    instead of AWS when set. The database that ``TOWPATH_AUDIT_DATABASE`` names keeps what operators do, too.
    Raises ``InvalidTransportUrl``, ``InvalidManifest``, ``InvalidBindings``, and what opening that database raises.
    """
    address = Address.parse(url)
    if options.manifest is None:
        problem = "is not given; 'towpath manifest render' writes it, and --manifest or TOWPATH_MANIFEST names it"
        raise InvalidManifest("the manifest", [Mistake(path="", problem=problem)])
    named = os.environ.get(BINDINGS_VARIABLE)
    bindings_file = options.bindings or (Path(named) if named else None)
    bindings = Bindings.load(bindings_file)
    bindings.check(options.manifest, address.region)
    with_ledger = any(t.aws is not None and t.aws.deduplication_table for t in options.manifest.topics.values())
    clients = make_clients(address, os.environ.get(ENDPOINT_VARIABLE) or None, with_ledger=with_ledger)
    sources = Sources(clock=utc_now, random_bytes=os.urandom)
    return AwsTransport(
        manifest=options.manifest,
        bindings=bindings,
        clients=clients,
        sources=sources,
        bindings_file=bindings_file,
        files=_files(options.manifest_file, bindings_file, address.region, options.manifest, bindings),
        audit_trail=_audit_trail(os.environ.get(AUDIT_VARIABLE)),
    )


def _files(
    manifest_file: Path | None, bindings_file: Path | None, region: str, manifest: Manifest, bindings: Bindings
) -> DeploymentFiles | None:
    """The files to look at, where both are known."""
    if manifest_file is None or bindings_file is None:
        return None
    return DeploymentFiles(
        manifest_file=manifest_file,
        bindings_file=bindings_file,
        region=region,
        current=Deployment(manifest=manifest, bindings=bindings),
    )


def _audit_trail(url: str | None) -> Transport | None:
    if not url:
        return None
    opened = connect(url)
    if not isinstance(opened, AuditTrail):
        opened.close()
        raise InvalidTransportUrl(f"{AUDIT_VARIABLE} must be the URL of a database, which keeps the audit trail")
    return opened


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsTransport:
    """``towpath.ports.Transport`` on SNS and SQS.

    ``bindings_file`` is read again for a topic that ``bindings`` lack: producers may be deployed before it is.
    ``files`` are looked at when somebody asks for policies, as a worker does every 2 s: all goes by what they say then.
    ``audit_trail`` is a database that keeps what operators do, besides the log.
    """

    manifest: Manifest
    bindings: Bindings
    clients: Clients
    sources: Sources
    bindings_file: Path | None = None
    audit_trail: Transport | None = None
    files: DeploymentFiles | None = None

    @property
    def _deployed(self) -> Deployment:
        """What is deployed, as far as it is known by now."""
        if self.files is not None:
            return self.files.current
        return Deployment(manifest=self.manifest, bindings=self.bindings)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What SNS and SQS can do."""
        return CAPABILITIES

    def publish(
        self, topic: str, messages: Sequence[NewMessage], *, connection: object | None = None
    ) -> list[PublishResult]:
        """See ``SnsPublisher.publish``."""
        publisher = SnsPublisher(
            topics=self._deployed.manifest.topics,
            bindings=self._bound_topics(topic),
            client=self.clients.sns,
            sources=self.sources,
            ledger_client=self.clients.ledger,
        )
        return publisher.publish(topic, messages, connection=connection)

    def policies(self) -> Mapping[str, SubscriptionPolicy]:
        """The subscriptions with host ``worker`` on AWS, as the files say now that the transport was opened with.

        Those with host ``lambda`` are not among them: a worker would compete with the function for their messages.
        """
        if self.files is None:
            return self._deployed.policies()
        self.files.look()
        return self.files.policies

    def consumer(self, subscription: str) -> SqsConsumer:
        """A consumer of a subscription with host ``worker``.

        Raises ``Unsupported`` for one with another host, ``SubscriptionNotFound`` for one that is not there.
        """
        found = self._on_aws().get(subscription)
        if found is None or found.aws is None:
            served = sorted(self.policies())
            problem = f"a worker may serve these of the manifest on AWS: {', '.join(served) or 'none'}"
            raise SubscriptionNotFound(subscription, f"{problem}{did_you_mean(subscription, served)}")
        if found.host != "worker":
            problem = f"its host is {found.host!r}, which would compete with the worker for its messages"
            raise Unsupported(f"a worker cannot serve the subscription {subscription!r}: {problem}")
        binding = self._deployed.bindings.subscriptions.get(subscription)
        if binding is None:
            problem = "the bindings lack it: deploy the manifest, and give the bindings of that deployment"
            raise SubscriptionNotFound(subscription, problem)
        settler = SqsSettler(
            client=lambda: self.clients.sqs,
            queue_url=binding.queue_url,
            dead_letter_queue_url=binding.dead_letter_queue_url,
            clock=self.sources.clock,
        )
        return SqsConsumer(
            client=self.clients.sqs,
            rules=partial(self._policy_now, subscription, found.policy(subscription)),
            fifo=found.aws.queue.fifo,
            settler=settler,
            clock=self.sources.clock,
        )

    def operator(self) -> SqsOperator:
        """The operator's view of every subscription on AWS."""
        return SqsOperator(
            topics=self._deployed.manifest.topics,
            subscriptions=self._on_aws(),
            bindings=self._deployed.bindings.subscriptions,
            client=self.clients.sqs,
            sources=self.sources,
            audit_log=AuditLog(trail=self.audit_trail if isinstance(self.audit_trail, AuditTrail) else None),
            audit_reader=None if self.audit_trail is None else self.audit_trail.operator(),
        )

    def close(self) -> None:
        """Close the connections."""
        self.clients.close()
        if self.audit_trail is not None:
            self.audit_trail.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _bound_topics(self, wanted: str) -> Mapping[str, TopicBinding]:
        """The bindings of topics, as they are now where those from the beginning lack ``wanted``.

        A file that cannot be read meanwhile, or is another deployment's, is as one that has nothing new.
        """
        manifest, known = self._deployed.manifest, self._deployed.bindings.topics
        if wanted in known or self.bindings_file is None or wanted not in manifest.topics:
            return known
        try:
            now = Bindings.load(self.bindings_file)
            now.check(manifest, self.clients.sns.meta.region_name)
        except InvalidBindings:
            return known
        return now.topics

    def _on_aws(self) -> dict[str, Subscription]:
        subscriptions = self._deployed.manifest.subscriptions
        return {name: s for name, s in subscriptions.items() if s.aws is not None}

    def _policy_now(self, name: str, last: SubscriptionPolicy) -> SubscriptionPolicy:
        """As the files say; what was served stays as it is once it is not there any more."""
        return last if self.files is None else self.files.policies.get(name, last)
