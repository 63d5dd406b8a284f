"""What must hold of ends: order within a key, and an end for which somebody answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.history.events import Claim, Settle
from tests.history.view import View, Violation

OUTCOME_OF = {"complete": "completed", "discard": "discarded", "acknowledge_cancel": "discarded"}
NEVER = float("inf")


def out_of_order(view: View) -> Iterator[Violation]:
    """In an ordered subscription nothing of a key is handed out before all that was published earlier has ended."""
    for name, rule in view.history.rules.items():
        if rule.mode != "ordered":
            continue
        places: dict[str, list[int]] = defaultdict(list)
        for ordinal, message in sorted(view.messages_by_ordinal.items()):
            key = view.keys.get(message)
            if key is not None:
                places[key].append(ordinal)
        for key, ordinals in places.items():
            claims = view.lanes.get((name, f"key {key}"), ())
            yield from _handed_out_too_soon(view, f"{name}, key {key}", [f"{o}-{rule.id}" for o in ordinals], claims)


def _handed_out_too_soon(
    view: View, subject: str, deliveries: list[str], claims: Iterator[Claim] | list[Claim] | tuple[Claim, ...]
) -> Iterator[Violation]:
    """By the database's clock alone: both times are its own."""
    before: dict[str, tuple[float, str]] = {}
    latest = (0.0, "")
    for delivery in deliveries:
        before[delivery] = latest
        ended = max((time for _, time in view.endings_of.get(delivery, ())), default=NEVER)
        latest = max(latest, (ended, delivery))
    for claim in claims:
        ended, delivery = before.get(claim.delivery, (0.0, ""))
        if claim.database_time < ended - view.history.slack:
            when = "has not ended" if ended == NEVER else f"ended {ended - claim.database_time:.3f} s later"
            text = f"delivery {claim.delivery} (lease {claim.token}) was handed out, and {delivery} before it {when}"
            yield Violation(rule="order", subject=subject, text=text)


def ended_twice(view: View) -> Iterator[Violation]:
    """A delivery ends once, and is then open no more."""
    for delivery, endings in view.endings_of.items():
        if len(endings) > 1:
            text = f"it ended {len(endings)} times: {', '.join(outcome for outcome, _ in endings)}"
            yield Violation(rule="ended twice", subject=f"delivery {delivery}", text=text)
        if delivery in view.history.open:
            text = f"it ended, and is {view.history.open[delivery]}"
            yield Violation(rule="ended twice", subject=f"delivery {delivery}", text=text)


def forgotten(view: View) -> Iterator[Violation]:
    """What was accepted is there in the end: a final settle as its outcome, a dead letter until an operator acts."""
    for settle in view.history.settles:
        if not settle.is_accepted:
            continue
        outcomes = {outcome for outcome, _ in view.endings_of.get(settle.delivery, ())}
        wanted = OUTCOME_OF.get(settle.kind)
        if wanted is not None and wanted not in outcomes:
            text = f"{settle.kind} was accepted, and the outcome is {', '.join(outcomes) or 'none'}"
            yield Violation(rule="forgotten", subject=f"delivery {settle.delivery}", text=text)
        if settle.kind == "dead_letter" and not _is_or_was_dead(view, settle):
            text = "it was set aside and is not dead, though no operator acted"
            yield Violation(rule="forgotten", subject=f"delivery {settle.delivery}", text=text)


def _is_or_was_dead(view: View, settle: Settle) -> bool:
    if view.history.open.get(settle.delivery) == "dead":
        return True
    orders = view.orders_of.get(settle.delivery, ())
    return any(order.answered_at is None or order.answered_at > settle.asked_at for order in orders)


def unaccounted(view: View) -> Iterator[Violation]:
    """A delivery is completed since a holder asked for it after its handler, and discarded since an operator did."""
    ran = {(run.delivery, run.token): run.ended_at for run in view.history.runs}
    for delivery, endings in view.endings_of.items():
        for outcome, _ in endings:
            subject = f"delivery {delivery}"
            if outcome == "discarded" and not any(o.kind == "discard" for o in view.orders_of.get(delivery, ())):
                yield Violation(rule="unaccounted", subject=subject, text="it was discarded, and no operator said so")
            if outcome != "completed":
                continue
            asked = [s for s in view.settles_by_delivery.get(delivery, ()) if s.kind == "complete" and s.may_be_made]
            if not asked:
                yield Violation(
                    rule="unaccounted", subject=subject, text="it was completed, and no holder asked for it"
                )
            elif all(ran.get((delivery, settle.token)) is None for settle in asked):
                yield Violation(rule="unaccounted", subject=subject, text="it was completed, and no handler had ended")


def cancelled(view: View) -> Iterator[Violation]:
    """What an operator dropped is discarded: it is not handed out again, and its holder can only acknowledge."""
    for order in view.history.orders:
        if order.kind != "discard" or order.answered_at is None or len(order.deliveries) != 1:
            continue
        if order.at_once + order.requested == 0:
            continue
        (delivery,) = order.deliveries
        subject, outcomes = f"delivery {delivery}", [outcome for outcome, _ in view.endings_of.get(delivery, ())]
        if outcomes != ["discarded"]:
            text = f"an operator dropped it, and its outcome is {', '.join(outcomes) or 'none'}"
            yield Violation(rule="cancelled", subject=subject, text=text)
        for settle in view.settles_by_delivery.get(delivery, ()):
            if settle.is_accepted and settle.kind not in FREEING and settle.asked_at > order.answered_at:
                text = f"{settle.kind} of lease {settle.token} was accepted after an operator had dropped it"
                yield Violation(rule="cancelled", subject=subject, text=text)
        for claim in view.claims_of.get(delivery, ()):
            if claim.claimed_at > order.answered_at + view.history.slack:
                text = f"lease {claim.token} was handed out after an operator had dropped it"
                yield Violation(rule="cancelled", subject=subject, text=text)


FREEING = ("acknowledge_cancel", "discard")


def faulty(view: View) -> Iterator[Violation]:
    """No process of the run ended but by a signal or when its work was done."""
    for text in view.history.faults:
        yield Violation(rule="fault", subject="a process", text=text)
