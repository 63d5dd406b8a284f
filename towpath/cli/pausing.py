"""``towpath pause`` and ``resume``."""

from __future__ import annotations

from towpath.cli.choices import Name
from towpath.cli.options import BindingsOption, ManifestOption, TransportOption, opened
from towpath.cli.output import JsonFlag, print_json, print_sentence, telling
from towpath.cli.warrants import Actor, Reason, warrant


def pause(
    subscription: Name,
    *,
    transport: TransportOption,
    reason: Reason,
    actor: Actor = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Have workers claim nothing more from SUBSCRIPTION. It goes on receiving, and handlers that run go on.

    Example: towpath pause documents.convert --reason "the disk is full"
    """
    by = warrant(actor, reason)
    with opened(transport, manifest, bindings) as open_transport:
        changed = open_transport.operator().pause(subscription, by)
    _tell(subscription, changed=changed, now="paused", as_json=as_json)


def resume(
    subscription: Name,
    *,
    transport: TransportOption,
    reason: Reason,
    actor: Actor = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Undo a pause of SUBSCRIPTION by an operator; what the topology says stays.

    Example: towpath resume documents.convert --reason "there is room again"
    """
    by = warrant(actor, reason)
    with opened(transport, manifest, bindings) as open_transport:
        changed = open_transport.operator().resume(subscription, by)
    _tell(subscription, changed=changed, now="resumed", as_json=as_json)


def _tell(subscription: str, *, changed: bool, now: str, as_json: bool) -> None:
    with telling(f"{subscription} is {now}"):
        if as_json:
            print_json({"subscription": subscription, "changed": changed})
        elif changed:
            print_sentence(f"{subscription} is {now}")
        else:
            print_sentence(
                f"nothing to do: {subscription} {'was paused already' if now == 'paused' else 'was not paused'}"
            )
