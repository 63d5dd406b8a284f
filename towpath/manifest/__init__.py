"""The manifest: the topology with every default and every derived value written out."""

from towpath.manifest.aws import (
    Alarm,
    AwsSubscription,
    AwsTopic,
    EventSourceMapping,
    Function,
    Queue,
    SnsSubscription,
)
from towpath.manifest.document import Deduplication, Host, Manifest, Subscription, Topic, TransportName
from towpath.manifest.policies import Access, Statement

__all__ = [
    "Access",
    "Alarm",
    "AwsSubscription",
    "AwsTopic",
    "Deduplication",
    "EventSourceMapping",
    "Function",
    "Host",
    "Manifest",
    "Queue",
    "SnsSubscription",
    "Statement",
    "Subscription",
    "Topic",
    "TransportName",
]
