"""What the keys of a topology mean together: one function for each rule, which yields every place that breaks it.

A rule's docstring is its sentence in ``docs/reference/topology.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from towpath.topology.findings import Finding
from towpath.topology.models import Topology
from towpath.topology.rules.functions import (
    batches_fit_the_queue,
    processing_ends_before_sqs_takes_back,
    processing_ends_before_the_function,
)
from towpath.topology.rules.names import (
    is_prefix_name,
    topics_and_subscriptions_are_named_in_words,
    topology_name_can_begin_resource_names,
)
from towpath.topology.rules.subscriptions import (
    dead_letter_retention_fits_sqs,
    external_is_never_paused,
    filter_is_a_policy,
    handler_is_an_import_path,
    handler_is_there_unless_external,
    host_fits_the_transport,
    topic_exists,
)
from towpath.topology.rules.topics import (
    exclusive_needs_fifo,
    fair_needs_a_standard_topic,
    filter_policies_fit_sns,
    ordered_needs_a_database,
    retention_fits_sqs,
    sns_settings_need_aws,
    subscriptions_fit_a_fifo_topic,
)
from towpath.topology.rules.warnings import (
    backoff_should_grow,
    batches_should_end_before_the_function,
    dead_letters_should_outlive_messages,
    disabled_topics_should_have_no_readers,
    fifo_batches_burn_receives,
    handlers_should_be_in_modules,
    keys_should_mean_something,
    paused_on_aws_loses_what_waits_too_long,
    retries_should_end_before_retention,
    threads_should_have_messages,
    topics_should_reach_somebody,
    topology_should_have_topics,
)

__all__ = ["RULES", "WARNINGS", "Rule", "is_prefix_name"]

Rule: TypeAlias = Callable[[Topology], Iterator[Finding]]

RULES: Final[tuple[Rule, ...]] = (
    topic_exists,
    ordered_needs_a_database,
    exclusive_needs_fifo,
    fair_needs_a_standard_topic,
    sns_settings_need_aws,
    retention_fits_sqs,
    dead_letter_retention_fits_sqs,
    subscriptions_fit_a_fifo_topic,
    filter_policies_fit_sns,
    host_fits_the_transport,
    external_is_never_paused,
    handler_is_there_unless_external,
    handler_is_an_import_path,
    filter_is_a_policy,
    batches_fit_the_queue,
    processing_ends_before_the_function,
    processing_ends_before_sqs_takes_back,
    topology_name_can_begin_resource_names,
    topics_and_subscriptions_are_named_in_words,  # last: a name's path is the beginning of all paths in its table
)

WARNINGS: Final[tuple[Rule, ...]] = (
    topology_should_have_topics,
    topics_should_reach_somebody,
    disabled_topics_should_have_no_readers,
    paused_on_aws_loses_what_waits_too_long,
    handlers_should_be_in_modules,
    dead_letters_should_outlive_messages,
    retries_should_end_before_retention,
    backoff_should_grow,
    fifo_batches_burn_receives,
    threads_should_have_messages,
    batches_should_end_before_the_function,
    keys_should_mean_something,
)
