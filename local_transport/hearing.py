"""The thread that hears of other processes, and begins anew when it cannot."""

from __future__ import annotations

import logging
import threading
from typing import Final, Literal

from local_transport.announcing import Announcement, Announcer
from local_transport.dialects.port import Heard, Signals
from local_transport.lookout import Lookout
from towpath.backoff import Random

_HEAR_SECONDS: Final = 5.0  # also what one's own greeting gets to come back
_WATCH_SECONDS: Final = 0.5  # between two looks at whether anybody still waits
_AGAIN_SECONDS: Final = (0.1, 5.0)  # first and longest pause before it is tried again


class Hearing:
    """Passes word of others on to a lookout, which looks more often while none can come.

    Where word is announced it greets itself whenever it begins to hear, and has the lookout rely on word only once it
    has heard that: a pooler between it and the server takes LISTEN and passes nothing on.
    """

    def __init__(self, signals: Signals, lookout: Lookout, announcer: Announcer | None, log: logging.Logger) -> None:
        """``announcer`` is this process's own, where words are announced; what it tells is not passed on."""
        self._signals = signals
        self._lookout = lookout
        self._announcer = announcer
        self._log = log
        self._state: Literal["new", "greeted", "hears", "deaf"] = "new"
        self._looks_before = 0  # that were answered before it could not hear
        self._is_told = False
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, random: Random) -> None:
        """Begin to hear, if it has not; ``random`` spreads the processes that begin anew."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._keep_hearing, args=(random,), daemon=True)
                self._thread.name = "towpath-hearing"
                self._thread.start()

    def close(self) -> None:
        """Hear no more. The thread itself closes the signals."""
        with self._lock:
            self._closed.set()
        self._signals.end()
        if self._thread is None:
            self._signals.close()
        else:
            self._thread.join(timeout=1)

    def _keep_hearing(self, random: Random) -> None:
        pause, longest = _AGAIN_SECONDS
        while not self._closed.is_set():
            try:
                self._hear()
                pause = _AGAIN_SECONDS[0]
            except Exception as error:  # noqa: BLE001 - whatever it was: looks go on without word
                self._deaf()
                if self._lookout.answered > self._looks_before:  # else nothing answers, as who claims will tell
                    self._tell(str(error))
                self._closed.wait(pause * (0.5 + random() / 2))
                pause = min(pause * 2, longest)
        self._signals.close()

    def _hear(self) -> None:
        if not self._signals.only_while_waited_for:
            self._pass_on(self._signals.hear(_HEAR_SECONDS))
        elif self._lookout.await_company(_WATCH_SECONDS):
            self._pass_on(self._signals.hear(_WATCH_SECONDS))

    def _pass_on(self, heard: Heard) -> None:
        if heard.anything:
            self._lookout.look_at_once()
        if self._announcer is None:
            self._hears()
        elif heard.anything:  # it has just begun
            self._state = "greeted"
            self._announcer.greet()
        else:
            self._pass_on_words(heard, self._announcer)

    def _pass_on_words(self, heard: Heard, own: Announcer) -> None:
        said = [Announcement.read(text) for text in heard.texts]
        if any(announcement.teller == own.teller for announcement in said):
            self._hears()
        elif self._state == "greeted" and not said:
            self._deaf()
            self._tell("LISTEN was taken and brings nothing, as behind PgBouncer; name the server itself with ?listen=")
        due = {id_ for announcement in said if announcement.teller != own.teller for id_ in announcement.subscriptions}
        if due:
            self._lookout.ring(due)

    def _hears(self) -> None:
        if self._state == "hears":
            return
        self._state, self._is_told = "hears", False
        self._lookout.rely_on(word=True)

    def _deaf(self) -> None:
        if self._state == "deaf":
            return
        self._state, self._looks_before = "deaf", self._lookout.answered
        self._lookout.rely_on(word=False)

    def _tell(self, problem: str) -> None:
        """Once for each time that it cannot hear."""
        if not self._is_told:
            self._is_told = True
            self._log.warning("other processes cannot wake this one, so it looks once a second: %s", problem)
