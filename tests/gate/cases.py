"""Edits of a deployment, and what the gate must say of each: nothing, or what is blocked and how bad it is."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import parse_topology

Document = dict[str, Any]

TOPOLOGY: Final[Document] = {
    "name": "gate",
    "topics": {"orders": {"retention_days": 7}, "bills": {}},
    "subscriptions": {
        "orders.pack": {
            "topic": "orders",
            "handler": "app:pack",
            "filter": {"kind": ["parcel", {"prefix": "letter"}]},
            "max_attempts": 5,
            "lambda": {"timeout_seconds": 60, "memory_mb": 512, "batch_size": 10},
        },
        "bills.pay": {"topic": "bills", "handler": "app:pay", "host": "worker", "partition_mode": "exclusive"},
    },
}
INPUTS: Final[Document] = {"artifacts": {"orders.pack": {"filename": "app-1.zip"}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What is deployed, or about to be: the manifest as data, and the module's inputs."""

    manifest: Document
    inputs: Document
    in_module: tuple[str, str] | None = None

    @staticmethod
    def base() -> "Deployed":
        return Case(name="base").deployed()


def _as_it_is(document: Document) -> Document:
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One edit. ``blocks`` are the kinds and impacts that the gate must tell, no other; none for what is safe."""

    name: str
    topology: Callable[[Document], Document | None] = _as_it_is
    manifest: Callable[[Document], Document | None] = _as_it_is
    inputs: Document = field(default_factory=dict)
    in_module: tuple[str, str] | None = None  # a text in topics.tf and what it becomes: a copy of the module, edited
    module_is_there: bool = True
    forgets: bool = False  # by a block `removed`, where the module is not there any more
    environment: str = "prod"
    blocks: frozenset[tuple[str, str]] = frozenset()
    blocks_in_templates: frozenset[tuple[str, str]] | None = None  # where they differ

    def rendered(self) -> Manifest:
        """The manifest as it is rendered from the edited topology."""
        topology = copy.deepcopy(TOPOLOGY)
        return resolve(parse_topology(self.topology(topology) or topology), self.environment)

    def of_cdk(self) -> frozenset[tuple[str, str]]:
        """What the gate must tell of the CDK's templates: its own kinds where a queue's policy is a resource apart."""
        return self.blocks if self.blocks_in_templates is None else self.blocks_in_templates

    def deployed(self) -> Deployed:
        """The manifest, edited by hand where the case does that."""
        document = json.loads(self.rendered().to_json())
        return Deployed(
            manifest=self.manifest(document) or document,
            inputs=copy.deepcopy(INPUTS) | self.inputs,
            in_module=self.in_module,
        )


# --- Edits -------------------------------------------------------------------------------------------------------


def of_pack(**keys: Any) -> Callable[[Document], None]:
    """Sets keys of the subscription ``orders.pack``."""

    def edit(topology: Document) -> None:
        topology["subscriptions"]["orders.pack"].update(keys)

    return edit


def of_function(**keys: Any) -> Callable[[Document], None]:
    def edit(topology: Document) -> None:
        topology["subscriptions"]["orders.pack"]["lambda"].update(keys)

    return edit


def of_orders(**keys: Any) -> Callable[[Document], None]:
    def edit(topology: Document) -> None:
        topology["topics"]["orders"].update(keys)

    return edit


def without(kind: str, *names: str) -> Callable[[Document], None]:
    def edit(topology: Document) -> None:
        for name in names:
            del topology[kind][name]
        for name, one in list(topology["subscriptions"].items()):
            if one["topic"] not in topology["topics"]:
                del topology["subscriptions"][name]

    return edit


def with_subscription(name: str, **keys: Any) -> Callable[[Document], None]:
    def edit(topology: Document) -> None:
        topology["subscriptions"][name] = {"topic": "orders", "handler": "app:other", "host": "worker", **keys}

    return edit


def renamed(topology: Document) -> None:
    topology["subscriptions"]["orders.wrap"] = topology["subscriptions"].pop("orders.pack")


def to_a_worker(topology: Document) -> None:
    topology["subscriptions"]["orders.pack"]["host"] = "worker"
    del topology["subscriptions"]["orders.pack"]["lambda"]


def with_topic(topology: Document) -> None:
    topology["topics"]["parcels"] = {}
    topology["subscriptions"]["parcels.log"] = {"topic": "parcels", "handler": "app:log", "host": "worker"}


def no_filter(topology: Document) -> None:
    del topology["subscriptions"]["orders.pack"]["filter"]


def in_pack(*path: str, value: Any) -> Callable[[Document], None]:
    """Sets a value of the manifest's ``orders.pack`` on AWS by hand."""

    def edit(manifest: Document) -> None:
        inner = manifest["subscriptions"]["orders.pack"]["aws"]
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value

    return edit


def without_alarm(manifest: Document) -> None:
    del manifest["subscriptions"]["orders.pack"]["aws"]["alarms"]["dead-letters"]


def for_everybody(manifest: Document) -> None:
    manifest["aws"]["topic_policy"][0]["principals"] = {"AWS": ["*"]}


def without_tls(manifest: Document) -> None:
    manifest["aws"]["queue_policy"] = [one for one in manifest["aws"]["queue_policy"] if one["effect"] == "Allow"]


def other_rights(manifest: Document) -> None:
    statements = manifest["subscriptions"]["orders.pack"]["aws"]["function"]["policy"]["statements"]
    statements[0]["actions"] = [*statements[0]["actions"], "sqs:PurgeQueue"]


FUNCTION: Final = {("function", "destructive"), ("alias", "destructive"), ("mapping", "destructive")}
GONE: Final = frozenset({("queue", "destructive"), ("subscription", "destructive"), ("alarm", "destructive")})
WITH_FUNCTION: Final = (
    GONE | FUNCTION | {("role", "destructive"), ("policy", "destructive"), ("log group", "destructive")}
)

REPLACED: Final = frozenset({("topic", "destructive"), ("queue", "destructive"), ("subscription", "destructive")})


def lossy(*kinds: str) -> frozenset[tuple[str, str]]:
    return frozenset((kind, "lossy") for kind in kinds)


UNHOSTED: Final = FUNCTION | lossy("queue") | {
    ("role", "destructive"), ("alarm", "destructive"), ("log group", "destructive")
}  # fmt: skip

CASES: Final = (
    # What is safe.
    Case(name="nothing-changes"),
    Case(name="subscription-added", topology=with_subscription("orders.copy")),
    Case(name="function-added", topology=with_subscription("orders.wrap", host="lambda"), inputs={
        "artifacts": {"orders.pack": {"filename": "app-1.zip"}, "orders.wrap": {"filename": "app-1.zip"}}
    }),
    Case(name="topic-added", topology=with_topic),
    Case(name="retention-longer", topology=of_orders(retention_days=14)),
    Case(name="attempts-more", topology=of_pack(max_attempts=9)),
    Case(name="timeout-longer", topology=of_function(timeout_seconds=120)),
    Case(name="filter-wider", topology=of_pack(filter={"kind": ["parcel", "box", {"prefix": "let"}]})),
    Case(name="filter-gone", topology=no_filter),
    Case(name="memory-more", topology=of_function(memory_mb=1024)),
    Case(name="batch-larger", topology=of_function(batch_size=5)),
    Case(name="code-new", inputs={"artifacts": {"orders.pack": {"filename": "app-2.zip"}}}),
    Case(name="tags-added", inputs={"tags": {"team": "parcels"}}),
    Case(name="alarm-actions-added", inputs={"alarm_actions": ["arn:aws:sns:eu-west-1:000000000000:people"]}),
    Case(name="concurrency-bounded", topology=of_function(maximum_concurrency=5)),
    # What deletes something that runs.
    Case(name="subscription-removed", topology=without("subscriptions", "orders.pack"), inputs={"artifacts": {}},
         blocks=WITH_FUNCTION),
    Case(name="topic-removed", topology=without("topics", "bills"),
         blocks=GONE | {("topic", "destructive")},
         blocks_in_templates=GONE | {("topic", "destructive"), ("policy", "destructive")}),
    Case(name="subscription-renamed", topology=renamed, blocks=WITH_FUNCTION,
         inputs={"artifacts": {"orders.wrap": {"filename": "app-1.zip"}}}),
    Case(name="mode-changed", topology=of_pack(partition_mode="exclusive"),
         blocks=REPLACED | {("mapping", "destructive")}, blocks_in_templates=REPLACED | lossy("policy")),
    Case(name="host-changed", topology=to_a_worker, inputs={"artifacts": {}},
         blocks=UNHOSTED | {("policy", "destructive")}, blocks_in_templates=UNHOSTED),
    Case(name="environment-renamed", environment="live", blocks=WITH_FUNCTION | {("topic", "destructive")}),
    Case(name="module-forgotten", module_is_there=False, forgets=True,
         blocks=WITH_FUNCTION | {("topic", "destructive")}),
    Case(name="module-removed", module_is_there=False, blocks=WITH_FUNCTION | {("topic", "destructive")}),
    # What makes it worse.
    Case(name="retention-shorter", topology=of_orders(retention_days=1), blocks=lossy("queue")),
    Case(name="dead-letters-shorter", topology=of_pack(dead_letter_retention_days=3), blocks=lossy("queue")),
    Case(name="attempts-fewer", topology=of_pack(max_attempts=2), blocks=lossy("queue")),
    Case(name="timeout-shorter", topology=of_function(timeout_seconds=20), blocks=lossy("queue")),
    Case(name="filter-narrower", topology=of_pack(filter={"kind": ["parcel"]}), blocks=lossy("subscription")),
    Case(name="filter-other", topology=of_pack(filter={"size": ["large"]}), blocks=lossy("subscription")),
    Case(name="paused", topology=of_pack(status="paused"), blocks=lossy("mapping")),
    Case(name="disabled", topology=of_pack(status="disabled"), blocks=lossy("mapping", "subscription")),
    Case(name="raw-delivery-off", in_module=("raw_message_delivery = each.value.sns_subscription.raw_message_delivery",
                                             "raw_message_delivery = false"),
         blocks=lossy("subscription")),
    Case(name="answers-unread", manifest=in_pack("event_source_mapping", "function_response_types", value=[]),
         blocks=lossy("mapping")),
    Case(name="encryption-off", manifest=in_pack("queue", "sqs_managed_sse", value=False), blocks=lossy("queue")),
    Case(name="size-smaller", manifest=in_pack("queue", "maximum_message_size", value=1024), blocks=lossy("queue")),
    Case(name="key-changed", inputs={"create_kms_key": True}, blocks=lossy("queue", "topic", "policy"),
         blocks_in_templates=lossy("queue", "topic", "role")),
    Case(name="alarm-removed", manifest=without_alarm, blocks=frozenset({("alarm", "destructive")})),
    Case(name="topic-for-everybody", manifest=for_everybody,
         blocks=lossy("topic"), blocks_in_templates=lossy("policy")),
    Case(name="queues-without-tls", manifest=without_tls, blocks=lossy("queue"), blocks_in_templates=lossy("policy")),
    Case(name="function-may-more", manifest=other_rights, blocks=lossy("policy"), blocks_in_templates=lossy("role")),
    Case(name="concurrency-reserved", inputs={"reserved_concurrency": {"orders.pack": 1}}, blocks=lossy("function")),
)  # fmt: skip
