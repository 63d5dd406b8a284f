"""What must hold of leases: one holder of a key at a time, nothing from a stale lease, attempts that end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.history.events import FINAL, Claim, Settle
from tests.history.view import View, Violation


def overlapping(view: View) -> Iterator[Violation]:
    """While a lease lives nobody else is handed its delivery, or in a partitioned subscription its key.

    A lease lives until a settle may have ended it, or its time is over by the database's clock.
    """
    for (subscription, lane), claims in view.lanes.items():
        living: list[Claim] = []
        for claim in claims:
            at = claim.claimed_at + view.history.slack
            living = [other for other in living if not _settled_by(view, other, at)]
            for other in living:
                until = _lease_end(view, other, claim.claimed_at) - view.history.slack
                if claim.claimed_at < until:
                    text = (
                        f"{_lease(claim)} was handed out {until - claim.claimed_at:.3f} s before the end of the lease "
                        f"of {_lease(other)}"
                    )
                    yield Violation(rule="overlap", subject=f"{subscription}, {lane}", text=text)
            living = [other for other in living if _longest_end(view, other) > claim.claimed_at]
            living.append(claim)


def renewed_together(view: View) -> Iterator[Violation]:
    """Of two leases of one delivery or key at most one is renewed at a time, also when the time of both was over.

    A renewed lease lives for sure from the answer until a lease after the question, or until something may end it.
    """
    for (subscription, lane), claims in view.lanes.items():
        seconds = view.history.rules[subscription].lease_seconds
        windows = []
        for claim in claims:
            asked = view.settles_of.get((claim.delivery, claim.token), ())
            over = min((s.asked_at for s in asked if s.kind != "extend" and s.may_be_made), default=float("inf"))
            renewals = (s for s in asked if s.kind == "extend" and s.is_accepted and s.answered_at is not None)
            windows += [(s.answered_at, min(s.asked_at + seconds - view.history.slack, over), claim) for s in renewals]
        windows.sort(key=lambda window: window[0])
        for (_, end, claim), (start, _, other) in pairwise(windows):
            if start < end and claim != other:
                text = f"{_lease(other)} was renewed while {_lease(claim)} lived by a renewal"
                yield Violation(rule="overlap", subject=f"{subscription}, {lane}", text=text)


def _settled_by(view: View, claim: Claim, at: float) -> bool:
    """Whether anything asked before ``at`` may have ended the lease."""
    asked = view.settles_of.get((claim.delivery, claim.token), ())
    return any(settle.kind != "extend" and settle.may_be_made and settle.asked_at <= at for settle in asked)


def _lease_end(view: View, claim: Claim, at: float) -> float:
    """The earliest moment at which the lease may end, as far as it was renewed by ``at`` for sure."""
    seconds = view.history.rules[claim.subscription].lease_seconds
    renewals = [
        settle.asked_at
        for settle in view.settles_of.get((claim.delivery, claim.token), ())
        if settle.kind == "extend" and settle.is_accepted and settle.answered_at is not None and settle.answered_at < at
    ]
    return max([claim.claimed_at, *renewals]) + seconds


def _longest_end(view: View, claim: Claim) -> float:
    """When the lease is over whatever happens."""
    return _lease_end(view, claim, float("inf"))


def stale(view: View) -> Iterator[Violation]:
    """Nothing is accepted from a lease once its delivery was handed out anew, or its key to another live lease."""
    for delivery, settles in view.settles_by_delivery.items():
        for settle in settles:
            if not settle.is_accepted:
                continue
            for claim in view.claims_of.get(delivery, ()):
                if claim.token > settle.token and claim.received_at < settle.asked_at:
                    text = f"{settle.kind} of lease {settle.token} was accepted after lease {claim.token} was received"
                    yield Violation(rule="stale", subject=f"delivery {delivery}", text=text)
                    break
    for (subscription, lane), claims in view.lanes.items():
        if lane.startswith("key"):
            yield from _stale_beside_others(view, f"{subscription}, {lane}", claims)


def _stale_beside_others(view: View, subject: str, claims: Sequence[Claim]) -> Iterator[Violation]:
    """Accepted though, all the while, another delivery of the key was held."""
    last_use = {claim: _last_asked(view, claim) for claim in claims}
    for position, claim in enumerate(claims):
        for later in claims[position + 1 :]:
            if later.claimed_at > last_use[claim]:
                break
            if later.delivery == claim.delivery:
                continue
            for settle in view.settles_of.get((claim.delivery, claim.token), ()):
                if settle.is_accepted and _held_throughout(view, later, settle):
                    text = f"{settle.kind} of {_lease(claim)} was accepted while {_lease(later)} held the key"
                    yield Violation(rule="stale", subject=subject, text=text)


def _last_asked(view: View, claim: Claim) -> float:
    return max((s.asked_at for s in view.settles_of.get((claim.delivery, claim.token), ())), default=0.0)


def _held_throughout(view: View, claim: Claim, settle: Settle) -> bool:
    """Whether the claim's lease lived from before the settle was asked for until after it was answered."""
    if settle.answered_at is None or claim.received_at >= settle.asked_at:
        return False
    if _settled_by(view, claim, settle.answered_at):
        return False
    return settle.answered_at < _lease_end(view, claim, settle.asked_at) - view.history.slack


def settled_twice(view: View) -> Iterator[Violation]:
    """A lease is settled once, and after a final settle nothing comes of the delivery."""
    for (delivery, token), settles in view.settles_of.items():
        accepted = [settle for settle in settles if settle.is_accepted and settle.kind != "extend"]
        if len(accepted) > 1:
            kinds = ", ".join(settle.kind for settle in accepted)
            text = f"lease {token} was settled {len(accepted)} times: {kinds}"
            yield Violation(rule="settled twice", subject=f"delivery {delivery}", text=text)
    for delivery, settles in view.settles_by_delivery.items():
        ends = [s.answered_at for s in settles if s.kind in FINAL and s.is_accepted and s.answered_at is not None]
        if not ends:
            continue
        over = min(ends)
        for settle in settles:
            if settle.is_accepted and settle.asked_at > over:
                text = f"{settle.kind} of lease {settle.token} was accepted after its end"
                yield Violation(rule="settled twice", subject=f"delivery {delivery}", text=text)
        for claim in view.claims_of.get(delivery, ()):
            if claim.claimed_at > over + view.history.slack:
                text = f"lease {claim.token} was handed out after its end"
                yield Violation(rule="came again", subject=f"delivery {delivery}", text=text)


def tokens_and_attempts(view: View) -> Iterator[Violation]:
    """Each claim has a token and an attempt of its own: they rise, but a release gives its attempt back and a replay
    begins anew, and no attempt is above what the subscription allows.
    """
    for delivery, claims in view.claims_of.items():
        subject = f"delivery {delivery}"
        for claim in claims:
            most = view.history.rules[claim.subscription].max_attempts
            if not 1 <= claim.attempt <= most:
                text = f"lease {claim.token} was attempt {claim.attempt} of {most}"
                yield Violation(rule="attempts", subject=subject, text=text)
        first = claims[0]
        yield from _risen(view, subject, (0, 0), first)
        for earlier, later in pairwise(claims):
            if earlier.token == later.token:
                yield Violation(rule="tokens", subject=subject, text=f"lease {later.token} was handed out twice")
                continue
            if later.claimed_at < earlier.claimed_at - view.history.slack:
                text = f"lease {later.token} was handed out before lease {earlier.token}"
                yield Violation(rule="tokens", subject=subject, text=text)
            yield from _risen(view, subject, (earlier.token, earlier.attempt), later)


def _risen(view: View, subject: str, earlier: tuple[int, int], claim: Claim) -> Iterator[Violation]:
    """Between two claims the attempt rises by as much as the token, less what may have been given back."""
    token, attempt = earlier
    given_back = sum(
        settle.kind == "release" and settle.may_be_made
        for lease in range(token, claim.token)
        for settle in view.settles_of.get((claim.delivery, lease), ())
    )
    most = attempt + claim.token - token
    least = 1 if claim.is_replay else most - given_back
    if not least <= claim.attempt <= most:
        text = f"lease {claim.token} was attempt {claim.attempt}, where {least} to {most} can be"
        yield Violation(rule="attempts", subject=subject, text=text)


def handlers(view: View) -> Iterator[Violation]:
    """A handler runs once for a claim, which was received before."""
    received = {(claim.delivery, claim.token): claim.received_at for claim in view.history.claims}
    seen: dict[tuple[str, int], int] = defaultdict(int)
    for run in view.history.runs:
        lease = (run.delivery, run.token)
        seen[lease] += 1
        if received.get(lease, float("inf")) > run.started_at:
            text = f"its handler ran under lease {run.token}, which nobody had received"
            yield Violation(rule="handlers", subject=f"delivery {run.delivery}", text=text)
        if seen[lease] == 2:
            text = f"its handler ran twice under lease {run.token}"
            yield Violation(rule="handlers", subject=f"delivery {run.delivery}", text=text)


def _lease(claim: Claim) -> str:
    return f"delivery {claim.delivery} (lease {claim.token}, attempt {claim.attempt})"
