"""The parts of wake-ups, over fakes: when looks are taken, who is woken, what is told to other processes, and hearing.

Threads meet at events; a test that waits gives up after ``PATIENCE`` and then fails.
"""

import logging
import threading
import time
from contextlib import closing, contextmanager

import pytest
import sqlalchemy as sa

from local_transport.announcing import Announcement, Announcer
from local_transport.dialects.port import Heard, wakeups_are_on
from local_transport.dialects.postgresql import listening_url
from local_transport.hearing import Hearing
from local_transport.lookout import DEAF_SECONDS, FIRST_SECONDS, LONGEST_SECONDS, Lookout, Pace
from local_transport.looks import Seen
from towpath.errors import TransportUnavailable, UnknownTransport

PATIENCE = 20.0
LOG = logging.getLogger("towpath.database")
NOTHING_DUE = Seen(due_in=None, revision=1)


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return True


# --- When looks are taken ----------------------------------------------------------------------------------------


def looks_of(pace, start, count, longest):
    times, now = [], start
    for _ in range(count):
        now = pace.next_at
        pace.looks(now, longest)
        pace.looked(now, now)
        times.append(round(now - start, 3))
    return times


def test_looks_come_soon_after_something_happened_and_then_ever_more_rarely():
    pace = Pace()
    pace.something_happened(100.0)
    assert looks_of(pace, 100.0, 9, LONGEST_SECONDS) == [0.05, 0.15, 0.35, 0.75, 1.55, 3.15, 6.35, 11.35, 16.35]
    pace = Pace()
    pace.something_happened(200.0)
    assert looks_of(pace, 200.0, 6, DEAF_SECONDS) == [0.05, 0.15, 0.35, 0.75, 1.55, 2.55]


def test_what_happens_all_the_time_does_not_put_a_look_off():
    pace = Pace()
    pace.something_happened(100.0)
    pace.something_happened(100.0 + FIRST_SECONDS / 2)
    assert pace.next_at == 100.0 + FIRST_SECONDS
    pace.look_at_once(100.01)
    assert pace.next_at == 100.01


def test_a_look_that_takes_long_is_not_taken_again_at_once_whatever_happens():
    pace = Pace()
    pace.something_happened(100.0)
    pace.looks(100.05, LONGEST_SECONDS)
    pace.looked(100.05, 100.15)
    pace.something_happened(100.16)
    pace.look_at_once(100.17)
    assert pace.next_at == pytest.approx(101.15)  # it takes a tenth of the time
    pace.looks(101.15, LONGEST_SECONDS)
    pace.looked(101.15, 103.15)
    pace.look_at_once(103.16)
    assert pace.next_at == pytest.approx(103.15 + LONGEST_SECONDS)


def test_while_word_comes_an_idle_process_looks_less_than_twice_a_second():
    pace = Pace()
    pace.something_happened(0.0)
    times = looks_of(pace, 0.0, 20, LONGEST_SECONDS)
    assert all(sum(1 for t in times if start <= t < start + 10) <= 20 for start in range(0, 60, 10))
    assert sum(1 for t in times if 10 <= t < 70) == 12


# --- Who is woken ------------------------------------------------------------------------------------------------


class Looks:
    """Answers looks as told, and remembers for whom they were."""

    def __init__(self):
        self.answers = {}
        self.due_at = {}  # monotonic seconds
        self.asked = []
        self.seen = []
        self.error = None

    def __call__(self, ids):
        self.asked.append(list(ids))
        if self.error is not None:
            raise self.error
        self.seen.append({id_: seen for id_ in ids if (seen := self._seen(id_)) is not None})
        return self.seen[-1]

    def _seen(self, id_):
        if id_ in self.due_at:
            return Seen(due_in=self.due_at[id_] - time.monotonic(), revision=1)
        return self.answers.get(id_, NOTHING_DUE)


@pytest.fixture
def looks():
    return Looks()


@pytest.fixture
def lookout(looks):
    with closing(Lookout(looks, time.monotonic, LOG)) as made:
        yield made


@contextmanager
def waiting(lookout, subscription_id, seconds=PATIENCE, revision=1):
    """Somebody who waits for the subscription; gives an event that is set when that is over."""
    rings, over = lookout.rings(subscription_id), threading.Event()

    def wait():
        lookout.wait(subscription_id, rings, seconds, revision=revision, after_a_ring=False)
        over.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert eventually(lambda: over.is_set() or subscription_id in lookout._waited_for())
    yield over
    if not over.is_set():
        lookout.ring([subscription_id])
    thread.join(PATIENCE)


def test_a_ring_wakes_those_who_wait_for_its_subscription_and_nobody_else(lookout):
    with waiting(lookout, 1) as first, waiting(lookout, 1) as second, waiting(lookout, 2) as other:
        lookout.ring([1, 3])
        assert first.wait(PATIENCE)
        assert second.wait(PATIENCE)
        assert not other.is_set()


def test_a_ring_between_a_claim_and_the_wait_is_not_missed(lookout, looks):
    before = lookout.rings(1)
    lookout.ring([1])
    lookout.wait(1, before, PATIENCE, revision=1, after_a_ring=False)
    assert lookout.rings(1) == before + 1
    assert looks.asked == []


def test_a_wait_ends_after_its_seconds(lookout):
    began = time.monotonic()
    lookout.wait(7, lookout.rings(7), 0.02, revision=1, after_a_ring=False)
    assert time.monotonic() - began >= 0.02


def test_one_look_serves_all_who_wait_and_none_is_taken_for_those_who_do_not(lookout, looks):
    lookout.rings(3)
    with waiting(lookout, 1) as first, waiting(lookout, 2) as second:
        looks.asked.clear()
        looks.answers = {1: Seen(due_in=0.0, revision=1), 3: Seen(due_in=0.0, revision=1)}
        assert first.wait(PATIENCE)
        assert not second.is_set()
        assert eventually(lambda: [2] in looks.asked)  # the first waits no more
        assert all(set(asked) <= {1, 2} for asked in looks.asked)


def test_nothing_is_looked_at_while_nobody_waits(lookout, looks):
    lookout.wait(1, lookout.rings(1), 0, revision=1, after_a_ring=False)
    lookout.ring([1])
    lookout.look_at_once()
    with waiting(lookout, 2):
        assert eventually(lambda: looks.asked)
    assert looks.asked[0] == [2]


def test_what_becomes_due_wakes_at_its_time_without_another_look(lookout, looks):
    looks.due_at[1] = time.monotonic() + 1.2  # looks are taken after 0.05, 0.15, 0.35, 0.75 and 1.55 s
    with waiting(lookout, 1) as over:
        assert over.wait(PATIENCE)
        assert time.monotonic() >= looks.due_at[1]
    assert all(seen[1].due_in > 0 for seen in looks.seen)  # none of them said that it was due


def test_what_this_process_made_due_later_wakes_at_its_time(lookout, looks):
    with waiting(lookout, 1) as over:
        assert eventually(lambda: looks.asked)
        looks.due_at[1] = time.monotonic() + 0.2
        lookout.expect(1, 0.2)
        assert over.wait(PATIENCE)
        assert time.monotonic() >= looks.due_at[1]


def test_another_policy_or_a_subscription_that_is_gone_wakes(lookout, looks):
    looks.answers = {1: Seen(due_in=None, revision=2), 2: None}
    with waiting(lookout, 1) as changed, waiting(lookout, 2) as removed, waiting(lookout, 3) as same:
        assert changed.wait(PATIENCE)
        assert removed.wait(PATIENCE)
        assert not same.is_set()


def test_trouble_with_a_look_wakes_so_that_the_claim_can_report_it(lookout, looks):
    looks.error = TransportUnavailable("no answer")
    with waiting(lookout, 1) as over:
        assert over.wait(PATIENCE)
    looks.error = None
    looks.answers = {1: Seen(due_in=0.0, revision=1)}
    with waiting(lookout, 1) as over:
        assert over.wait(PATIENCE)  # the thread has survived


def test_a_due_delivery_that_nobody_can_claim_is_looked_at_ever_more_rarely(lookout, looks):
    looks.answers = {1: Seen(due_in=-5.0, revision=1)}
    began = time.monotonic()
    for again in range(5):  # each wait ends by a look, and the claim after it finds nothing
        lookout.wait(1, lookout.rings(1), PATIENCE, revision=1, after_a_ring=again > 0)
    assert time.monotonic() - began >= 0.05 + 0.1 + 0.2 + 0.4 + 0.8


def test_word_that_something_may_be_due_has_a_look_taken_at_once(lookout, looks):
    lookout.rely_on(word=True)
    with waiting(lookout, 1) as over:
        assert eventually(lambda: len(looks.asked) >= 4)  # the next one is 0.4 s away
        looks.answers = {1: Seen(due_in=0.0, revision=1)}
        lookout.look_at_once()
        assert over.wait(PATIENCE)


def test_closing_wakes_everybody_and_ends_the_thread(looks):
    lookout = Lookout(looks, time.monotonic, LOG)
    with waiting(lookout, 1) as over:
        lookout.close()
        assert over.wait(PATIENCE)
    assert lookout.closed
    assert not lookout._thread.is_alive()
    lookout.wait(1, lookout.rings(1), PATIENCE, revision=1, after_a_ring=False)  # ends at once


def test_somebody_who_waits_is_company(lookout):
    assert not lookout.await_company(0.01)
    with waiting(lookout, 1):
        assert lookout.await_company(PATIENCE)
    assert not lookout.await_company(0.01)


# --- What is told to other processes -----------------------------------------------------------------------------


def test_an_announcement_names_subscriptions_and_who_tells():
    told = Announcement(subscriptions=frozenset({12, 3}), teller="abcd")
    assert list(told.texts()) == ["3,12@abcd"]
    assert Announcement.read("3,12@abcd") == told
    assert list(Announcement(subscriptions=frozenset({7})).texts()) == ["7"]
    assert Announcement.read("7") == Announcement(subscriptions=frozenset({7}))
    assert Announcement.read("@abcd") == Announcement(subscriptions=frozenset(), teller="abcd")


def test_an_announcement_of_many_subscriptions_is_several_texts_that_a_server_takes():
    told = Announcement(subscriptions=frozenset(range(2_000_000_000, 2_000_001_200)), teller="abcd")
    texts = list(told.texts())
    assert max(len(text.encode()) for text in texts) < 8_000
    assert frozenset().union(*(Announcement.read(text).subscriptions for text in texts)) == told.subscriptions


@pytest.mark.parametrize("text", ["", "hello", "1;2", "-1", "@@", "x,y@z"])
def test_what_somebody_else_says_on_the_channel_names_no_subscription(text):
    assert Announcement.read(text).subscriptions == frozenset()


class Sent:
    """Keeps what is announced; each announcement waits until it may go."""

    def __init__(self):
        self.announcements = []
        self.begun = threading.Semaphore(0)
        self.may_go = threading.Event()
        self.may_go.set()
        self.error = None

    def __call__(self, announcement):
        self.begun.release()
        assert self.may_go.wait(PATIENCE)
        self.announcements.append(sorted(announcement.subscriptions))
        if self.error is not None:
            raise self.error


@pytest.fixture
def sent():
    return Sent()


@pytest.fixture
def announcer(sent):
    with closing(Announcer(sent, "me", LOG)) as made:
        yield made


def test_what_is_told_first_is_sent_before_telling_returns(announcer, sent):
    announcer.tell([1, 2])
    assert sent.announcements == [[1, 2]]
    announcer.tell([])
    assert sent.announcements == [[1, 2]]


def test_what_is_told_while_an_announcement_is_on_its_way_goes_out_together_and_is_not_forgotten(announcer, sent):
    sent.may_go.clear()
    first = threading.Thread(target=announcer.tell, args=([1],))
    first.start()
    assert sent.begun.acquire(timeout=PATIENCE)
    for id_ in (2, 3, 2, 3, 4):
        announcer.tell([id_])  # returns at once
    sent.may_go.set()
    first.join(PATIENCE)
    assert eventually(lambda: len(sent.announcements) == 2)
    assert sent.announcements == [[1], [2, 3, 4]]


def test_many_publishes_are_few_announcements_and_the_last_is_among_them(announcer, sent):
    began = time.monotonic()
    for _ in range(2_000):
        announcer.tell([1])
    announcer.tell([2])
    assert eventually(lambda: [1, 2] in sent.announcements or [2] in sent.announcements)
    assert len(sent.announcements) <= 2 + (time.monotonic() - began) / 0.005


def test_what_cannot_be_sent_is_no_failure_of_what_was_done(announcer, sent):
    sent.error = TransportUnavailable("no answer")
    announcer.tell([1])
    sent.error = None
    eventually(lambda: time.monotonic() >= announcer._not_before)
    announcer.tell([2])
    assert sent.announcements == [[1], [2]]


def test_closing_sends_what_waits(sent):
    announcer = Announcer(sent, "me", LOG)
    announcer.tell([1])
    announcer.tell([2])
    announcer.close()
    assert sent.announcements == [[1], [2]]


# --- Hearing of other processes ----------------------------------------------------------------------------------


class FakeSignals:
    """What is put in is heard; an exception is raised. Begins by hearing that anything may have happened."""

    only_while_waited_for = False
    are_announced = True

    def __init__(self):
        self.said = [Heard(anything=True)]
        self.heard = 0
        self.closed = False
        self._changed = threading.Condition()
        self._ended = False

    def say(self, *heard):
        with self._changed:
            self.said.extend(heard)
            self._changed.notify_all()

    def hear(self, seconds):
        self.heard += 1
        with self._changed:
            self._changed.wait_for(lambda: self.said or self._ended, seconds)
            heard = self.said.pop(0) if self.said else Heard()
        if isinstance(heard, Exception):
            raise heard
        return heard

    def end(self):
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self):
        self.closed = True


@pytest.fixture
def signals():
    return FakeSignals()


@contextmanager
def hearing(signals, lookout, announcer):
    with closing(Hearing(signals, lookout, announcer, LOG)) as made:
        made.start(lambda: 0.0)
        made.start(lambda: 0.0)  # has one thread all the same
        yield made
    assert eventually(lambda: signals.closed)


def words(*texts):
    return Heard(texts=texts)


def test_word_of_others_rings_and_ones_own_does_not(signals, lookout, announcer):
    with waiting(lookout, 1) as first, waiting(lookout, 2) as second, hearing(signals, lookout, announcer):
        signals.say(words("2@me"), words("nonsense", "1@other"))
        assert first.wait(PATIENCE)
        assert not second.is_set()
        signals.say(words("2"))  # of a transaction of somebody: nobody rang here when it was committed
        assert second.wait(PATIENCE)


def test_word_is_relied_on_once_ones_own_greeting_was_heard(signals, lookout, announcer, sent):
    with hearing(signals, lookout, announcer):
        assert eventually(lambda: sent.announcements == [[]])
        signals.say(words("3@other"))
        assert eventually(lambda: not signals.said)
        assert lookout._longest == DEAF_SECONDS
        signals.say(words("@me"))
        assert eventually(lambda: lookout._longest == LONGEST_SECONDS)


def test_a_greeting_that_does_not_come_back_is_warned_of_once(signals, lookout, announcer, caplog):
    with hearing(signals, lookout, announcer):
        signals.say(Heard(), Heard())  # five seconds of silence, twice
        assert eventually(lambda: signals.heard >= 4)
        assert lookout._longest == DEAF_SECONDS
        signals.say(words("@me"))
        assert eventually(lambda: lookout._longest == LONGEST_SECONDS)
    (record,) = caplog.records
    assert "looks once a second: LISTEN was taken and brings nothing, as behind PgBouncer" in record.message


def test_a_connection_that_stays_lost_while_looks_are_answered_is_warned_of_once_and_made_anew_with_a_look(
    signals, lookout, announcer, looks, caplog
):
    with hearing(signals, lookout, announcer):
        signals.say(words("@me"))
        assert eventually(lambda: lookout._longest == LONGEST_SECONDS)
        with waiting(lookout, 1) as over:
            signals.say(*[TransportUnavailable("the listening connection is lost")] * 5)
            assert eventually(lambda: lookout._longest == DEAF_SECONDS)
            assert eventually(lambda: not signals.said)
            looks.answers = {1: Seen(due_in=0.0, revision=1)}
            signals.say(Heard(anything=True), words("@me"))
            assert over.wait(PATIENCE)
            assert eventually(lambda: lookout._longest == LONGEST_SECONDS)
    (record,) = caplog.records
    assert "looks once a second: the listening connection is lost" in record.message


def test_a_file_is_watched_only_while_somebody_waits(signals, lookout, looks):
    signals.only_while_waited_for, signals.are_announced = True, False
    with hearing(signals, lookout, None):
        assert not lookout.await_company(0.05)
        assert signals.heard == 0
        with waiting(lookout, 1) as over:
            assert eventually(lambda: lookout._longest == LONGEST_SECONDS)
            looks.answers = {1: Seen(due_in=0.0, revision=1)}
            signals.say(Heard(anything=True))
            assert over.wait(PATIENCE)


def test_what_never_began_to_hear_closes_its_signals(signals, lookout, announcer):
    made = Hearing(signals, lookout, announcer, LOG)
    made.close()
    made.start(lambda: 0.0)
    assert signals.closed
    assert signals.heard == 0


# --- What a URL says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("postgresql://u:p@h:5433/d", "postgresql+psycopg://u:p@h:5433/d"),
        ("postgresql://u:p@pool:6432/d?listen=postgresql://server", "postgresql+psycopg://u:p@server/d"),
        (
            "postgresql://u:p@pool:6432/d?listen=postgresql://server:5433/real",
            "postgresql+psycopg://u:p@server:5433/real",
        ),
        ("postgresql://u:p@pool/d?listen=postgresql://v:q%40s/e", "postgresql+psycopg://v:q@s/e"),
        ("postgresql://u:p@h/d?listen=postgresql://:5433", "postgresql+psycopg://u:p@h:5433/d"),
        (
            "postgresql://h/d?prepare_threshold=none&answer_timeout=9&sslmode=require",
            "postgresql+psycopg://h/d?sslmode=require",
        ),
        (
            "postgresql://pool/d?sslmode=disable&listen=postgresql://server?sslmode%3Drequire",
            "postgresql+psycopg://server/d?sslmode=require",
        ),
    ],
)
def test_the_listening_connection_goes_to_what_the_url_names_apart(url, where):
    assert listening_url(sa.make_url(url)).render_as_string(hide_password=False) == where


def test_wake_ups_are_on_unless_the_url_says_otherwise():
    assert wakeups_are_on(sa.make_url("sqlite:///a.db"))
    assert not wakeups_are_on(sa.make_url("sqlite:///a.db?wakeups=off"))
    assert listening_url(sa.make_url("postgresql://h/d?wakeups=off&listen=postgresql://s")) is None


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("wakeups=never", "wakeups must be on or off, not 'never'"),
        ("listen=server:5432", "listen must be the URL of the server itself, such as postgresql://host:5432"),
        ("listen=mysql://server", "listen must be the URL of the server itself"),
        ("listen=postgresql://a&listen=postgresql://b", "listen must be the URL of the server itself"),
        ("listen=postgresql://server:port", "listen must be the URL of the server itself"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(query, sentence):
    with pytest.raises(UnknownTransport, match=sentence):
        listening_url(sa.make_url(f"postgresql://h/d?{query}"))
