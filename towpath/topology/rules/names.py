"""How topologies, topics and subscriptions are named."""

from __future__ import annotations

import re
from collections.abc import Iterator

from towpath import limits
from towpath.envelope import is_topic_name
from towpath.topology.findings import Finding, Path, shown
from towpath.topology.models import PREFIX_NAME, Topology


def is_prefix_name(text: str) -> bool:
    """Whether ``text`` can begin resource names, as the names of a topology and of an environment do."""
    return re.fullmatch(PREFIX_NAME, text) is not None


def topology_name_can_begin_resource_names(topology: Topology) -> Iterator[Finding]:
    """A topology's name begins the name of every resource: 1 to 20 of `a-z`, `0-9` and `-`."""
    if not is_prefix_name(topology.name):
        problem = f"must be 1 to {limits.NAME_LENGTH} of a-z, 0-9 and -, not {shown(topology.name)}"
        yield Finding(path=("name",), problem=problem)


def topics_and_subscriptions_are_named_in_words(topology: Topology) -> Iterator[Finding]:
    """Topics and subscriptions are named in words of `a-z` and `0-9` joined by single `.`, `-` or `_`, at most 200
    characters. A name with dots is written in quotes.
    """
    named: list[Path] = [("topics", name) for name in topology.topics]
    named += [("subscriptions", name) for name in topology.subscriptions]
    for path in named:
        if not is_topic_name(str(path[1])):
            problem = (
                "must be named in words of a-z and 0-9 joined by single '.', '-' or '_', "
                f"at most {limits.TOPIC_NAME_LENGTH} characters"
            )
            yield Finding(path=path, problem=problem)
