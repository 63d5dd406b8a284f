"""What the manifest says of the subscriptions to bundle: their handlers, entry point, target and environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bundling.errors import UnusableProject
from bundling.target import Target, lambda_target
from towpath.errors import SubscriptionNotFound
from towpath.manifest import Function, Manifest

ALL: Final = "."
_ENTRY_POINT: Final = "lambda_runtime.entry.handler"  # where the manifest gives none, for lack of a function


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to bundle. ``target`` is None where the manifest hosts it elsewhere than on Lambda."""

    name: str
    handlers: tuple[str, ...]
    entry_point: str
    target: Target | None


def select(manifest: Manifest, name: str) -> Selection:
    """The subscription ``name``, or with ``.`` all that Lambda hosts. Raises ``SubscriptionNotFound``, and
    ``UnusableProject`` when there is no handler, or functions differ in what a zip is made for.
    """
    if name == ALL:
        return _select_all(manifest)
    subscription = manifest.subscriptions.get(name)
    if subscription is None:
        raise SubscriptionNotFound(name, f"the manifest has {', '.join(sorted(manifest.subscriptions)) or 'none'}")
    if subscription.handler is None:
        raise UnusableProject(f"subscription {name!r} has no handler to bundle: something outside Towpath consumes it")
    function = subscription.aws.function if subscription.aws else None
    return Selection(
        name=name,
        handlers=(subscription.handler,),
        entry_point=function.handler if function else _ENTRY_POINT,
        target=lambda_target(function.runtime, function.architecture) if function else None,
    )


def function_environment(manifest: Manifest, name: str, region: str) -> dict[str, str]:
    """The variables that a deployment gives the function of subscription ``name``; empty when it has none. The queues'
    addresses, which only a deployment knows, are those of an account that does not exist.
    """
    subscription = manifest.subscriptions.get(name)
    aws = subscription.aws if subscription else None
    if aws is None or aws.function is None:
        return {}
    queues = {"queue": aws.queue, "dead_letter_queue": aws.dead_letter_queue}
    urls = {
        variable: f"https://sqs.{region}.amazonaws.com/000000000000/{queues[queue].name}"
        for variable, queue in aws.function.queue_url_environment.items()
    }
    return {**aws.function.environment, **urls}


def _select_all(manifest: Manifest) -> Selection:
    selections = [select(manifest, name) for name in sorted(_functions(manifest))]
    made_for = {(selection.entry_point, selection.target) for selection in selections}
    if not selections:
        raise UnusableProject("the manifest hosts no subscription on Lambda; name the one to bundle")
    if len(made_for) > 1:
        raise UnusableProject("the manifest's functions differ in runtime or architecture; bundle them one by one")
    handlers = {handler for selection in selections for handler in selection.handlers}
    first = selections[0]
    return Selection(
        name=manifest.name, handlers=tuple(sorted(handlers)), entry_point=first.entry_point, target=first.target
    )


def _functions(manifest: Manifest) -> Mapping[str, Function]:
    found = {name: subscription.aws for name, subscription in manifest.subscriptions.items()}
    return {name: aws.function for name, aws in found.items() if aws and aws.function}
