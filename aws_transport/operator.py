"""Looking after subscriptions on SQS: how they stand, and what has become a dead letter."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.acting import Actions, Place
from aws_transport.auditing import AuditLog
from aws_transport.bindings import SubscriptionBinding
from aws_transport.dead_entries import DeadLetter, subscription_of
from aws_transport.editing import Editor
from aws_transport.faults import translated
from aws_transport.looking import Pass
from aws_transport.refusals import Refusals, no_switch
from towpath.envelope import Sources
from towpath.errors import InvalidSelection, SubscriptionNotFound, Unsupported, did_you_mean
from towpath.manifest import Subscription, Topic
from towpath.message import JsonValue
from towpath.operating import (
    AuditEntry,
    Backlog,
    DeadLetterEntry,
    DeliveryEntry,
    Discarded,
    Operator,
    Order,
    Pace,
    Page,
    Selection,
    SubscriptionStats,
    Warrant,
)

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_WAITING: Final = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed")
_IN_FLIGHT: Final = "ApproximateNumberOfMessagesNotVisible"
_MOST_COUNTED: Final = 1_000
_QUEUES_AT_ONCE: Final = 8

_ThingT = TypeVar("_ThingT")
_RowT = TypeVar("_RowT")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsOperator(Refusals):
    """``towpath.ports.Operator`` on SQS. Covers every subscription on AWS, whatever its host.

    Dead letters are what lies in a subscription's dead-letter queue and, with the reason ``DeliveryFailed``, in the
    queue of what SNS could not deliver. Each has an id of its subscription's name and SQS's id. To look at them they
    are received and given back, see ``looking.Pass``: until then nobody else sees them. Everything raises
    ``TransportUnavailable`` for what may pass, ``TransportRejected`` for a right or a queue that is missing.

    ``audit_reader`` is the operator of the database whose audit table has what was done here, where there is one.
    """

    topics: Mapping[str, Topic]
    subscriptions: Mapping[str, Subscription]
    bindings: Mapping[str, SubscriptionBinding]
    client: SQSClient
    sources: Sources
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("towpath.aws"))
    audit_log: AuditLog = field(default_factory=AuditLog)
    audit_reader: Operator | None = None

    # How it stands

    def stats(self) -> list[SubscriptionStats]:
        """Every subscription that is deployed, by name. SQS's counts are approximate.

        SQS does not tell a delivery that waits for its next attempt from one in a worker's hands: both are hidden, and
        counted as ``leased``. It keeps no count of what was completed or discarded, and CloudWatch alone knows ages.
        """
        return self._of_each(self._stats, self._deployed())

    def backlog(self, subscription: str | None = None) -> list[Backlog]:
        """See the port; one call for each queue. SQS does not tell message groups apart: of a FIFO queue all that is
        visible counts as claimable. What backs off counts as in flight, and what a producer has SQS delay does not
        count yet.
        """
        if subscription is None:
            return self._of_each(self._backlog, self._deployed())
        self._known(subscription)
        return [self._backlog(subscription)]

    # Lists

    def dead_letters(self, subscription: str | None, limit: int, cursor: str | None = None) -> Page[DeadLetterEntry]:
        """See the port: of those that one bounded pass over each queue shows. A queue that holds more is told of in
        the log.
        """
        page = self._page(Selection(subscription=subscription), limit, cursor)
        return Page(entries=tuple(letter.entry() for letter in page), cursor=page.cursor)

    def deliveries(self, selection: Selection, limit: int, cursor: str | None = None) -> Page[DeliveryEntry]:
        """See the port, for dead letters alone: what waits SQS shows to nobody but its consumer."""
        page = self._page(_only_dead(selection, "show deliveries that wait or are in flight"), limit, cursor)
        return Page(entries=tuple(letter.delivery_entry() for letter in page), cursor=page.cursor)

    def audit(self, limit: int, cursor: str | None = None, about: str | None = None) -> Page[AuditEntry]:
        """See the port: what the database that keeps it has, also of what was done there."""
        if self.audit_reader is None:
            return Refusals.audit(self, limit, cursor, about)
        return self.audit_reader.audit(limit, cursor, about)

    # Changes

    def replay(self, selection: Selection, warrant: Warrant, pace: Pace) -> int:
        """See the port. They go to the subscription's queue, not to the topic, and begin at attempt 1.

        A FIFO group's go in the order in which they died, and when one cannot be sent none after it is.
        """
        if selection.state not in (None, "dead"):
            raise InvalidSelection(f"only dead letters can be replayed, not deliveries that are {selection.state}")
        order = Order(action="replay", selection=selection, warrant=warrant, pace=pace)
        return self._actions().replay(self._places(selection), order)

    def replay_edited(self, delivery_id: str, payload: JsonValue, warrant: Warrant) -> str:
        """See the port. First the new message is sent, then the dead letter deleted."""
        name = subscription_of(delivery_id)
        places = self._places(Selection(subscription=name))
        topic = self.topics[self.subscriptions[name].topic]
        editor = Editor(actions=self._actions(), topic=topic, sources=self.sources)
        return editor.replay(places, delivery_id, payload, warrant)

    def discard(self, selection: Selection, warrant: Warrant, pace: Pace) -> Discarded:
        """See the port, for dead letters alone: nobody can take a message out of SQS that a consumer may have."""
        dead = _only_dead(
            selection, "discard what waits or is in flight (capabilities cancel_pending, cancel_in_flight)"
        )
        order = Order(action="discard", selection=dead, warrant=warrant, pace=pace)
        return Discarded(at_once=self._actions().discard(self._places(dead), order), requested=0)

    def purge(self, subscription: str, warrant: Warrant, pace: Pace) -> int:
        """See the port. One by one, not by PurgeQueue: that would drop what comes in meanwhile, and count nothing."""
        selection = Selection(subscription=subscription, state="dead")
        order = Order(action="purge", selection=selection, warrant=warrant, pace=pace)
        return self._actions().discard(self._places(selection), order)

    def pause(self, subscription: str, warrant: Warrant) -> bool:  # noqa: ARG002 - it is refused, whoever asks
        """Raises ``Unsupported``, with what to do instead."""
        raise no_switch(subscription, self._known(subscription), "paused")

    def resume(self, subscription: str, warrant: Warrant) -> bool:  # noqa: ARG002 - it is refused, whoever asks
        """See ``pause``."""
        raise no_switch(subscription, self._known(subscription), "resumed")

    def _actions(self) -> Actions:
        return Actions(
            client=self.client,
            clock=self.sources.clock,
            monotonic=self.monotonic,
            sleep=self.sleep,
            log=self.log,
            audit=self.audit_log,
        )

    # Queues

    def _deployed(self) -> list[str]:
        unbound = sorted(self.subscriptions.keys() - self.bindings.keys())
        if unbound:
            self.log.warning("left out, since they have no bindings: %s", ", ".join(unbound))
        return sorted(self.subscriptions.keys() & self.bindings.keys())

    def _of_each(self, look: Callable[[_ThingT], _RowT], things: Iterable[_ThingT]) -> list[_RowT]:
        """``look`` at each of them, some at a time, since each takes a call or more."""
        with ThreadPoolExecutor(_QUEUES_AT_ONCE, thread_name_prefix="towpath-look") as pool:
            return list(pool.map(look, things))

    def _backlog(self, name: str) -> Backlog:
        counts = self._counts(self.bindings[name].queue_url)
        served = self.subscriptions[name].status == "active"
        waiting, in_flight = counts[_WAITING[0]] if served else 0, counts[_IN_FLIGHT]
        return Backlog(
            subscription=name,
            claimable=min(waiting, _MOST_COUNTED),
            in_flight=min(in_flight, _MOST_COUNTED),
            claimable_capped=waiting > _MOST_COUNTED,
            in_flight_capped=in_flight > _MOST_COUNTED,
        )

    def _stats(self, name: str) -> SubscriptionStats:
        binding = self.bindings[name]
        queue = self._counts(binding.queue_url)
        set_aside = [self._counts(url) for url in (binding.dead_letter_queue_url, binding.delivery_failure_queue_url)]
        return SubscriptionStats(
            subscription=name,
            topic=self.subscriptions[name].topic,
            pending=sum(queue[count] for count in _WAITING),
            leased=queue[_IN_FLIGHT],
            dead=sum(count for counts in set_aside for count in counts.values()),
            completed=None,
            discarded=None,
            oldest_pending=None,
            status=self.subscriptions[name].status,
        )

    def _counts(self, url: str) -> dict[str, int]:
        try:
            answer = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=[*_WAITING, _IN_FLIGHT])
        except (BotoCoreError, ClientError) as error:
            raise translated(error, f"count the messages of {url}") from error
        return {count: int(answer["Attributes"].get(count, "0")) for count in (*_WAITING, _IN_FLIGHT)}

    def _places(self, selection: Selection) -> list[Place]:
        """The queues that what is selected may lie in. Raises ``SubscriptionNotFound`` and ``InvalidSelection``."""
        if selection.delivery_ids is not None:
            named = sorted({subscription_of(delivery_id) for delivery_id in selection.delivery_ids})
            names: Iterable[str] = [name for name in named if selection.subscription in (None, name)]
        else:
            names = self._deployed() if selection.subscription is None else [selection.subscription]
        return [place for name in names for place in self._places_of(name)]

    def _places_of(self, name: str) -> list[Place]:
        known = self._known(name)
        binding = self.bindings[name]
        place = Place(
            name=name,
            subscription=known,
            url=binding.dead_letter_queue_url,
            queue_url=binding.queue_url,
            undelivered=False,
        )
        return [place, replace(place, url=binding.delivery_failure_queue_url, undelivered=True)]

    def _known(self, name: str) -> Subscription:
        if name in self.subscriptions and name in self.bindings:
            return self.subscriptions[name]
        deployed = sorted(self.subscriptions.keys() & self.bindings.keys())
        problem = f"manifest and bindings have {', '.join(deployed) or 'none'}{did_you_mean(name, deployed)}"
        raise SubscriptionNotFound(name, problem)

    def _page(self, selection: Selection, limit: int, cursor: str | None) -> Page[DeadLetter]:
        after = None if cursor is None else _place_of(cursor)
        places, now = self._places(selection), self.sources.clock()
        seen = [letter for found in self._of_each(self._look, places) for letter in found]
        meant = sorted((letter for letter in seen if letter.meets(selection, now)), key=_place)
        following = [letter for letter in meant if after is None or _place(letter) > after]
        entries = tuple(following[:limit])
        return Page(entries=entries, cursor=_cursor(entries[-1]) if len(following) > limit else None)

    def _look(self, place: Place) -> Sequence[DeadLetter]:
        with Pass(client=self.client, url=place.url, clock=self.sources.clock, log=self.log) as looked:
            letters = [place.read(message) for messages in looked.batches() for message in messages]
            there = sum(self._counts(place.url).values())
        if there > len(letters):
            told = "%s has about %d dead letters in %s, and this look saw %d: of one group SQS shows ten at most"
            self.log.warning(told, place.name, there, place.url.rpartition("/")[2], len(letters))
        return letters


def _only_dead(selection: Selection, doing: str) -> Selection:
    """The selection, of dead letters. Ids that are of dead letters say by themselves that these are meant."""
    if selection.state == "dead" or (selection.state is None and selection.delivery_ids is not None):
        return replace(selection, state="dead")
    if selection.state in ("completed", "discarded"):
        raise Unsupported(f"SQS keeps nothing of deliveries that are {selection.state}; look for them in the logs")
    raise Unsupported(f"SQS cannot {doing}; of dead letters it can: --where state=dead, or 'towpath dead-letters'")


# --- Places in a list ----------------------------------------------------------------------------------------------


def _place(letter: DeadLetter) -> tuple[datetime, str]:
    return letter.note.time, letter.delivery_id


def _cursor(letter: DeadLetter) -> str:
    return f"{letter.note.time.astimezone(UTC).isoformat()}~{letter.delivery_id}"


def _place_of(cursor: str) -> tuple[datetime, str]:
    since, tilde, delivery_id = cursor.partition("~")
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not tilde:
        raise InvalidSelection(f"{cursor!r} is no cursor of this list; take the one that its last page gave")
    return moment, delivery_id
