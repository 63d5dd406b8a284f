"""The manifest: the topology with every default and every derived value written out."""

from towpath.manifest.aws import (
    Alarm,
    AwsSubscription,
    AwsTopic,
    Dashboard,
    DeduplicationTable,
    Deployment,
    EventSourceMapping,
    Function,
    Queue,
    SnsSubscription,
    Widget,
)
from towpath.manifest.document import Deduplication, Host, Manifest, Subscription, Topic, TransportName
from towpath.manifest.named import Named, meetings, resource_names
from towpath.manifest.policies import Access, Encryption, Policy, ResourceStatement, Statement

__all__ = [
    "Access",
    "Alarm",
    "AwsSubscription",
    "AwsTopic",
    "Dashboard",
    "Deduplication",
    "DeduplicationTable",
    "Deployment",
    "Encryption",
    "EventSourceMapping",
    "Function",
    "Host",
    "Manifest",
    "Named",
    "Policy",
    "Queue",
    "ResourceStatement",
    "SnsSubscription",
    "Statement",
    "Subscription",
    "Topic",
    "TransportName",
    "Widget",
    "meetings",
    "resource_names",
]
