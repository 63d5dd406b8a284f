"""What one subscription promises, as a plain model that keeps everything in a list and decides by looking through it.

The model is told what was asked for and what came back; it checks that this may be so, and follows it. Its time is in
ticks. All durations are such that, whatever a call takes, nothing ends close to a tick:

- a lease lasts one tick and a half, so it is over when two have passed;
- its back-off is between 0.6 and 1.2 ticks after that, so a delivery whose lease ran out is due when three have passed;
- other times are half a tick off.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from towpath.operating import Discarded
from towpath.settlement import CancelRequested, LeaseLost, Settled

TICK_SECONDS = 2_000
LEASE_SECONDS = 3_000
BACKOFF_SECONDS = 2_400
MAX_ATTEMPTS = 2

LEASE_TICKS = 2
AGAIN_TICKS = 3

FINAL = ("completed", "discarded")


@dataclass(kw_only=True)
class Modelled:
    """One delivery. ``due``, ``over`` (of its lease) and ``expires`` are the first ticks at which they are past."""

    id: str
    message_id: str
    place: int  # in the order of publishing
    key: str | None
    due: int
    expires: int | None
    state: str = "pending"
    attempt: int = 0
    is_replay: bool = False
    lease: str | None = None  # the token of its last claim, while that may still settle
    over: int = 0
    cancelled: bool = False
    overtaken: bool = False  # another delivery of its key was handed out since its own claim

    def is_live(self, tick: int) -> bool:
        """Whether a worker holds it, under a lease whose time is not over."""
        return self.state == "leased" and tick < self.over


@dataclass(kw_only=True)
class Model:
    """A subscription of one partition mode."""

    mode: str
    tick: int = 0
    all: list[Modelled] = field(default_factory=list)
    leases: set[tuple[str, str]] = field(default_factory=set)  # all that ever were

    # --- How it stands

    def kept(self) -> list[Modelled]:
        """Those that are open or dead, in the order of publishing."""
        return [d for d in self.all if d.state not in FINAL]

    def live(self) -> list[Modelled]:
        """Those that a worker holds."""
        return [d for d in self.all if d.is_live(self.tick)]

    def count(self, state: str) -> int:
        """How many are in ``state``."""
        return sum(d.state == state for d in self.all)

    def by_id(self, delivery_id: str) -> Modelled:
        """The delivery of that id; there must be one."""
        (found,) = [d for d in self.all if d.id == delivery_id]
        return found

    def by_lease(self, delivery_id: str, lease: str) -> Modelled:
        """The delivery that was handed out under that lease; were it handed out anew since, none of it is live."""
        d = self.by_id(delivery_id)
        return d if d.lease == lease else replace(d, state="taken away")

    def of_key(self, key: str | None) -> list[Modelled]:
        """The kept deliveries that share a key, in the order of publishing; those without one share nothing."""
        return [] if key is None else [d for d in self.kept() if d.key == key]

    def rival(self, d: Modelled) -> Modelled | None:
        """The other delivery of its key that a worker holds."""
        return next((other for other in self.of_key(d.key) if other is not d and other.is_live(self.tick)), None)

    def is_expired(self, d: Modelled) -> bool:
        """Whether its message's time is over."""
        return d.expires is not None and d.expires <= self.tick

    def eligible(self) -> list[Modelled]:
        """Those that may be claimed now. Of a key only one is claimed, and then none while that is live."""
        return [d for d in self.kept() if d.state != "dead" and d.due <= self.tick and not self._kept_from(d)]

    def _kept_from(self, d: Modelled) -> bool:
        in_order = self.mode == "ordered" and d.key is not None and self.of_key(d.key)[0] is not d
        return in_order or self.rival(d) is not None

    def claimable(self, *, free_keys: bool = False) -> int:
        """How many could be claimed at once; or were there something on each of the ``free_keys``, at most."""
        counted = self.eligible()
        loose = sum(d.key is None for d in counted)
        if free_keys:
            counted = [d for d in self.all if not any(other.key == d.key for other in self.live())]
        return loose + len({d.key for d in counted if d.key is not None})

    def waits_for(self, d: Modelled) -> str | None:
        """What a delivery that is pending, or whose lease is over, waits for."""
        if d.state == "dead" or d.is_live(self.tick):
            return None
        heads = self.of_key(d.key)[:1] if self.mode == "ordered" else []
        behind = bool(heads) and heads[0] is not d
        if behind and heads[0].state == "dead":
            return "key_blocked"
        if self.rival(d) is not None:
            return "key_in_flight"
        if behind:
            return "key_order"
        return "time" if d.due > self.tick else "worker"

    # --- What happens

    def published(self, found: Iterable[Any], due: int, expires: int | None) -> None:
        """``found`` are the entries of new deliveries, in the order of publishing."""
        for entry in found:
            key = None if self.mode == "none" else entry.partition_key
            made = Modelled(
                id=entry.delivery_id,
                message_id=entry.message_id,
                place=len(self.all),
                key=key,
                due=due,
                expires=expires,
            )
            self.all.append(made)

    def received(self, limit: int, came: Sequence[Any], left: dict[str, str]) -> None:
        """A claim of at most ``limit`` brought ``came``; ``left`` are the states of what there is after it."""
        taken = {delivery.id: delivery for delivery in came}
        assert len(taken) == len(came) <= limit, "one delivery came twice, or too many"
        open_before = {d.id for d in self.kept() if d.state != "dead"}
        ended = {one for one in open_before if left.get(one, "gone") in ("gone", "dead")}
        assert not ended & set(taken), "what came is gone"
        assert set(taken) <= open_before, "what came was over, or was never published"
        keys = len({d.key for d in self.all if d.key is not None})
        full = bool(ended) or len(came) == limit or limit <= keys  # behind those it ended, or whose deliveries wait
        while ended or taken:
            eligible = self.eligible()
            met = [d for d in eligible if d.id in ended] or [d for d in eligible if d.id in taken]
            assert met, f"{sorted(taken)} came, and {sorted(ended)} were ended, without being eligible"
            done = min(met, key=lambda d: (d.due, d.place))
            earlier = [d for d in eligible if d.key is not None and d.key == done.key and d.due < done.due]
            assert not earlier, f"{done} came before {earlier}"
            self._claimed(done, taken.pop(done.id, None), left.get(done.id, "gone"))
            ended.discard(done.id)
        assert not self.eligible() or (came and full), f"{self.eligible()} did not come"

    def _claimed(self, d: Modelled, delivery: Any, state: str) -> None:
        """A claim met ``d``, and handed it out as ``delivery``, or ended it."""
        if d.cancelled or self.is_expired(d):
            assert (delivery, state) == (None, "gone"), f"{d} is over, but came or is {state}"
            d.state = "discarded"
        elif d.attempt >= MAX_ATTEMPTS:
            assert (delivery, state) == (None, "dead"), f"{d} has no attempts left, but came or is {state}"
            self._died(d)
        else:
            assert delivery is not None, f"{d} was to come, but is {state}"
            self._handed_out(d, delivery)

    def _handed_out(self, d: Modelled, delivery: Any) -> None:
        lease = (delivery.id, delivery.lease_token)
        assert lease not in self.leases, "a lease that was there before"
        self.leases.add(lease)
        d.attempt += 1
        assert (delivery.message_id, delivery.attempt, delivery.is_replay) == (d.message_id, d.attempt, d.is_replay)
        d.state, d.lease = "leased", delivery.lease_token
        self._held_from_now(d)

    def _held_from_now(self, d: Modelled) -> None:
        d.over = self.tick + LEASE_TICKS
        d.due = d.over if d.attempt >= MAX_ATTEMPTS else self.tick + AGAIN_TICKS
        d.overtaken = False
        for other in self.of_key(d.key):
            other.overtaken = other is not d

    def _died(self, d: Modelled) -> None:
        d.state, d.lease, d.cancelled = "dead", None, False

    def settled(self, how: str, delivery: Any, delay: int, answer: object) -> None:
        """The holder of ``delivery`` asked for ``how``, and was answered ``answer``."""
        d = self.by_id(delivery.id)
        allowed = self.answers(how, d, delivery.lease_token)
        assert answer in allowed, f"{how} of {d} under lease {delivery.lease_token} was answered {answer}"
        if isinstance(answer, Settled):
            self._follow(how, d, delay)

    def answers(self, how: str, d: Modelled, lease: str) -> list[object]:
        """The answers that are right: more than one where a lease is over and others of its key came since."""
        acknowledges = how == "acknowledge_cancel"
        if d.state != "leased" or d.lease != lease:
            return [LeaseLost()]
        if d.cancelled != acknowledges:
            return [CancelRequested()] if d.cancelled else [LeaseLost()]
        refusals = [LeaseLost(), CancelRequested()] if acknowledges else [LeaseLost()]
        if self.rival(d) is not None:
            return refusals
        done = Settled(state=STATES[how])
        return [done, *refusals] if d.overtaken else [done]

    def _follow(self, how: str, d: Modelled, delay: int) -> None:
        match how:
            case "extend":
                self._held_from_now(d)
            case "retry":
                d.state, d.lease, d.due = "pending", None, self.tick + delay
            case "release":
                d.state, d.lease, d.due = "pending", None, self.tick
                d.attempt -= 1
            case "dead_letter":
                self._died(d)
            case _:
                d.state = STATES[how]

    def discarded(self, chosen: Sequence[Modelled], answer: Discarded) -> None:
        """An operator asked to discard ``chosen``: live ones are marked, once, the others gone."""
        held = [d for d in chosen if d.is_live(self.tick)]
        asked = [d for d in held if not d.cancelled]
        gone = [d for d in chosen if d.state not in FINAL and d not in held]
        assert answer == Discarded(at_once=len(gone), requested=len(asked))
        for d in asked:
            d.cancelled, d.due = True, d.over
        for d in gone:
            d.state = "discarded"

    def replayed(self, chosen: Sequence[Modelled], answer: int) -> None:
        """An operator asked to replay ``chosen``: dead ones wait in their place, at attempt 1 and due now."""
        dead = [d for d in chosen if d.state == "dead"]
        assert answer == len(dead)
        for d in dead:
            d.state, d.attempt, d.due, d.is_replay = "pending", 0, self.tick, True

    def swept(self) -> None:
        """Whatever is over without a claim: last attempts, cancelled leases, expired messages."""
        for d in self.kept():
            lease_over = d.state == "leased" and not d.is_live(self.tick)
            waits = d.state == "pending" or lease_over
            if (lease_over and d.cancelled) or (waits and self.is_expired(d)):
                d.state = "discarded"
            elif lease_over and d.attempt >= MAX_ATTEMPTS:
                self._died(d)


STATES = {
    "complete": "completed",
    "discard": "discarded",
    "retry": "pending",
    "release": "pending",
    "dead_letter": "dead",
    "extend": "leased",
    "acknowledge_cancel": "discarded",
}
