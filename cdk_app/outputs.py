"""What a stack tells when it is deployed: above all the bindings, as ``aws_transport`` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import CfnOutput, JsonNull, Stack
from constructs import Construct

from cdk_app.functions import Deployed
from cdk_app.queues import Queues


def tell(scope: Construct, prefix: str, outputs: Mapping[str, str | Mapping[str, Any] | list[Any] | None]) -> None:
    """Outputs of the stack of ``scope``, by keys that begin with ``prefix``: texts as they are, the rest as JSON. None,
    and what is empty, is left out.
    """
    stack = Stack.of(scope)
    for key, value in outputs.items():
        if not value:
            continue
        text = value if isinstance(value, str) else stack.to_json_string(value)
        CfnOutput(scope, f"{key}Output", value=text).override_logical_id(f"{prefix}{key}")


def topic_binding(topic_arn: str, *, fifo: bool) -> dict[str, Any]:
    """A topic's entry in the bindings."""
    return {"arn": topic_arn, "fifo": fifo}


def subscription_binding(queues: Queues, deployed: Deployed | None) -> dict[str, Any]:
    """A subscription's entry in the bindings."""
    return {
        "queue_url": queues.queue.ref,
        "queue_arn": queues.queue.attr_arn,
        "dead_letter_queue_url": queues.dead_letter_queue.ref,
        "delivery_failure_queue_url": queues.delivery_failure_queue.ref,
        "function_arn": deployed.alias.ref if deployed is not None else JsonNull.INSTANCE,  # None would be left out
    }
