"""What a subscription's function, its queue and its time limits demand of each other."""

from __future__ import annotations

from collections.abc import Iterator

from towpath import limits
from towpath.topology.findings import Finding
from towpath.topology.models import Topology
from towpath.topology.rules.places import key_of, transport_keys


def batches_fit_the_queue(topology: Topology) -> Iterator[Finding]:
    """Lambda takes a batch over 10 from a standard queue only with `batch_window_seconds` of at least 1. From a FIFO
    queue it takes at most 10, without a window.
    """
    for name, subscription in topology.subscriptions.items():
        if topology.host_of(subscription) != "lambda":
            continue
        size, window = topology.batch_size_of(subscription), subscription.function.batch_window_seconds
        size_path, window_path = key_of(name, "lambda", "batch_size"), key_of(name, "lambda", "batch_window_seconds")
        told_by = [key_of(name, key) for key in ("host", "partition_mode")]
        rests_on = (*transport_keys(name, subscription), *told_by, window_path, size_path)
        if topology.has_fifo_queue(subscription):
            if size > limits.ESM_FIFO_BATCH:
                problem = f"must be from 1 to {limits.ESM_FIFO_BATCH} on a FIFO queue, not {size:,}"
                yield Finding(path=size_path, problem=problem, rests_on=rests_on)
            if window > 0:
                problem = f"must be 0 on a FIFO queue, not {window}"
                yield Finding(path=window_path, problem=problem, rests_on=rests_on)
        elif size > limits.SQS_BATCH_ENTRIES and window < 1:
            problem = (
                f"must be at most {limits.SQS_BATCH_ENTRIES} without a batch window, not {size:,}; "
                "add: batch_window_seconds = 1"
            )
            yield Finding(path=size_path, problem=problem, rests_on=rests_on)


def processing_ends_before_the_function(topology: Topology) -> Iterator[Finding]:
    """On Lambda `max_processing_seconds` is at most the function's `timeout_seconds`."""
    for name, subscription in topology.subscriptions.items():
        longest, timeout = subscription.max_processing_seconds, subscription.function.timeout_seconds
        if topology.host_of(subscription) == "lambda" and longest is not None and longest > timeout:
            problem = f"must be at most lambda.timeout_seconds ({timeout}) on Lambda, not {longest:g}"
            rests_on = (
                *transport_keys(name, subscription),
                key_of(name, "host"),
                key_of(name, "lambda", "timeout_seconds"),
            )
            yield Finding(path=key_of(name, "max_processing_seconds"), problem=problem, rests_on=rests_on)


def processing_ends_before_sqs_takes_back(topology: Topology) -> Iterator[Finding]:
    """In a worker on aws `max_processing_seconds` is at most 43,200: SQS hides a message for 12 hours from its
    receipt and then hands it to somebody else, however often it was extended.
    """
    longest = limits.SQS_MAX_VISIBILITY_SECONDS
    for name, subscription in topology.subscriptions.items():
        seconds = subscription.max_processing_seconds
        on_aws = topology.transport_of(subscription) == "aws" and topology.host_of(subscription) == "worker"
        if on_aws and seconds is not None and seconds > longest:
            problem = f"must be at most {longest:,} on aws, where SQS takes a message back after that, not {seconds:,g}"
            rests_on = (*transport_keys(name, subscription), key_of(name, "host"))
            yield Finding(path=key_of(name, "max_processing_seconds"), problem=problem, rests_on=rests_on)
