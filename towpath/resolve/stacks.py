"""Which CloudFormation stack a subscription is in. Moving to another means deleting its queues and making them anew."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator

from towpath import limits


def stack_groups(names: Iterable[str]) -> dict[str, int]:
    """A group for each subscription on AWS, at most twenty to a group, whatever their order.

    The group is a hash of the subscription's own name, so that those beside it do not matter. Only a group that
    overflows is divided: half of it stays, and half of it has a group of its own, for as long as that is needed.
    docs/decisions/0006 says why.
    """
    return dict(_assigned(names, limits.STACK_GROUPS))


def _assigned(names: Iterable[str], count: int) -> Iterator[tuple[str, int]]:
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for name in names:
        groups[int.from_bytes(hashlib.sha256(name.encode()).digest()) % count].append(name)
    for group, members in groups.items():
        if len(members) > limits.SUBSCRIPTIONS_PER_STACK:
            yield from _assigned(members, 2 * count)  # modulo twice as much: the same group, or one that is free
        else:
            yield from ((name, group) for name in members)
