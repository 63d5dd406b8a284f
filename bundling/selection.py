"""What the manifest says of the subscriptions to bundle: their handlers, entry point, target and environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bundling.errors import UnusableProject
from bundling.target import Target, lambda_target
from towpath.errors import SubscriptionNotFound
from towpath.manifest import Function, Manifest, Subscription

ALL: Final = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to bundle, and for which Python and processor."""

    name: str
    handlers: tuple[str, ...]
    entry_point: str
    target: Target


def select(manifest: Manifest, name: str, source: str = "the manifest") -> Selection:
    """The subscription ``name``, or with ``.`` all that Lambda hosts; ``source`` is where the manifest came from.

    Raises ``SubscriptionNotFound``, and ``UnusableProject`` when something else than Lambda hosts it, or functions
    differ in what a zip is made for.
    """
    if name == ALL:
        return _select_all(manifest, source)
    handler, function = _handler(manifest, name), _function(manifest, name, source)
    return Selection(
        name=name,
        handlers=(handler,),
        entry_point=function.handler,
        target=lambda_target(function.runtime, function.architecture),
    )


def whose_settings(manifest: Manifest, archive: Path, name: str) -> str:
    """The subscription whose settings the function of a zip gets: the one that the zip is named for, or the only one
    in a zip of all (``towpath bundle .``). Raises ``UnusableProject`` when there are several to choose from.
    """
    held = sorted(_on_lambda(manifest))
    if name in manifest.subscriptions or name != manifest.name:
        return name
    if len(held) == 1:
        return held[0]
    raise UnusableProject(
        f"{archive.name} holds {len(held)} subscriptions; say whose settings it gets: "
        f"--subscription {held[0] if held else 'NAME'}"
    )


def function_environment(manifest: Manifest, name: str, region: str, source: str = "the manifest") -> dict[str, str]:
    """The variables that a deployment gives the function of subscription ``name``. The queues' addresses, which only a
    deployment knows, are those of an account that does not exist. Raises as ``select`` does.
    """
    function = _function(manifest, name, source)
    aws = manifest.subscriptions[name].aws
    queues = {"queue": aws.queue, "dead_letter_queue": aws.dead_letter_queue} if aws else {}
    urls = {
        variable: f"https://sqs.{region}.amazonaws.com/000000000000/{queues[queue].name}"
        for variable, queue in function.queue_url_environment.items()
    }
    return {**function.environment, **urls}


def _select_all(manifest: Manifest, source: str) -> Selection:
    selections = [select(manifest, name) for name in sorted(_on_lambda(manifest))]
    made_for = {(selection.entry_point, selection.target) for selection in selections}
    if not selections:
        raise UnusableProject(f"{source} hosts no subscription on Lambda; {_render_for_lambda(manifest)}")
    if len(made_for) > 1:
        raise UnusableProject("the manifest's functions differ in runtime or architecture; bundle them one by one")
    handlers = {handler for selection in selections for handler in selection.handlers}
    first = selections[0]
    return Selection(
        name=manifest.name, handlers=tuple(sorted(handlers)), entry_point=first.entry_point, target=first.target
    )


def _on_lambda(manifest: Manifest) -> dict[str, Function]:
    found = {name: subscription.aws for name, subscription in manifest.subscriptions.items()}
    return {name: aws.function for name, aws in found.items() if aws and aws.function}


def _handler(manifest: Manifest, name: str) -> str:
    handler = _subscription(manifest, name).handler
    if handler is None:
        raise UnusableProject(f"subscription {name!r} has no handler to bundle: something outside Towpath consumes it")
    return handler


def _function(manifest: Manifest, name: str, source: str) -> Function:
    _handler(manifest, name)  # what something outside Towpath consumes is told first
    aws = manifest.subscriptions[name].aws
    if aws is None or aws.function is None:
        raise UnusableProject(f"{name} runs on a worker in {source}; {_render_for_lambda(manifest)}")
    return aws.function


def _subscription(manifest: Manifest, name: str) -> Subscription:
    subscription = manifest.subscriptions.get(name)
    if subscription is None:
        raise SubscriptionNotFound(name, f"the manifest has {', '.join(sorted(manifest.subscriptions)) or 'none'}")
    return subscription


def _render_for_lambda(manifest: Manifest) -> str:
    environment = manifest.environment
    return f"render one for Lambda: towpath manifest render --environment {environment} --output aws.json"
