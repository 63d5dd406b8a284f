"""Which subscriptions a worker serves, and how each of them stands: it follows the topology while it runs."""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from towpath import handler as handlers
from towpath import payload
from towpath.dispatch import Dispatcher
from towpath.errors import HandlerNotFound, SubscriptionNotFound, Unsupported
from towpath.observing import Standing, State
from towpath.ports import Transport
from towpath.service import OWN_FAULTS, Service
from towpath.settlement import SubscriptionPolicy
from towpath.settling import Counts
from towpath.terms import Terms

Policies = Mapping[str, SubscriptionPolicy]

EVERYTHING: Final = "*"
_TRY_AGAIN_SECONDS: Final = 60.0  # after what ended a subscription's part; at once when the topology changes


@dataclass(slots=True, kw_only=True)
class _Part:
    """A subscription that the worker is to serve: by ``service``, or not because of ``fault``."""

    service: Service | None = None
    fault: Exception | None = None
    tried_at: float = 0.0
    told: tuple[State, str] | None = None


class Roster:
    """The subscriptions of one worker. Thread-safe: one thread looks at the topology, others ask.

    To take up a subscription may take long, as its handler is imported; who asks does not wait for that.
    """

    def __init__(
        self,
        transport: Transport,
        asked: Sequence[str],
        terms: Terms,
        *,
        log: logging.Logger,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``asked`` are names, or ``*`` for every subscription with a handler that a worker may run, as they come and
        go. Raises the first fault when none of them can be served.
        """
        self._transport = transport
        self._asked = tuple(dict.fromkeys(asked))
        self._terms = terms
        self._log = log
        self._monotonic = monotonic
        self._lock = threading.RLock()
        self._parts: dict[str, _Part] = {}
        self._leaving: list[Service] = []
        self._past = Counts()
        self._is_started = False
        self._is_taking_up = False
        self._policies: Policies = {}
        self._take_up(transport.policies())
        faults = self.faults()
        if faults and len(faults) == len(self._parts):
            raise faults[0]
        self._tell_all()

    # Asking

    @property
    def services(self) -> list[Service]:
        """All that were begun, but for those that have ended since and are served no more."""
        with self._lock:
            return [*(part.service for part in self._parts.values() if part.service is not None), *self._leaving]

    def running(self) -> tuple[list[Service], bool]:
        """Those that have not ended, and whether more may be about to begin."""
        with self._lock:
            return [service for service in self.services if not service.ended.is_set()], self._is_taking_up

    @property
    def states(self) -> dict[str, State]:
        """How each subscription stands, by name."""
        with self._lock:
            return {name: self._state(name, part) for name, part in self._parts.items()}

    @property
    def standing(self) -> list[Standing]:
        """How it stands with each subscription now, its topic empty where that is not known."""
        with self._lock:
            return [self._standing(name, part) for name, part in self._parts.items()]

    def faults(self) -> list[Exception]:
        """What keeps subscriptions from being served, one for each that is not."""
        with self._lock:
            return [fault for part in self._parts.values() if (fault := _fault(part)) is not None]

    @property
    def is_idle(self) -> bool:
        """Whether no subscription could be served at all."""
        with self._lock:
            return bool(self._parts) and len(self.faults()) == len(self._parts)

    @property
    def counts(self) -> Counts:
        """What was done so far, over all subscriptions."""
        with self._lock:
            total = Counts(received=self._past.received, states=dict(self._past.states))
            for service in self.services:
                total.include(service.counts)
        return total

    # Following

    def start(self) -> None:
        """Begin to serve."""
        with self._lock:
            self._is_started = True
            for service in self.services:
                _start(service)

    def look(self) -> None:
        """Follow the topology as it is now: begin, end, and try again. Raises what the transport does."""
        policies = self._transport.policies()
        if self._terms.stopping.is_set():
            return
        try:
            self._take_up(policies)
        except BaseException:
            self._policies = {}  # so that the next look takes all up again
            raise
        finally:
            self._tell_all()

    def _take_up(self, policies: Policies) -> None:
        with self._lock:
            is_changed, self._policies = policies != self._policies, policies
            wanted = self._wanted(policies)
            for name in [name for name in self._parts if name not in wanted]:
                self._leave(name)
            untried = [name for name in wanted if self._is_to_be_tried(name, is_changed=is_changed)]
            self._forget_ended()
            self._is_taking_up = True
        try:
            if is_changed:
                importlib.invalidate_caches()  # a handler's file may be new
            for name in untried:
                self._try(name, self._parts[name])
        finally:
            self._is_taking_up = False

    def _is_to_be_tried(self, name: str, *, is_changed: bool) -> bool:
        """Whether it is not served and may be; what has ended, or is not there any more, is not served from here on."""
        part = self._parts.setdefault(name, _Part(tried_at=-_TRY_AGAIN_SECONDS))
        self._note_end(part)
        if name not in self._policies and part.service is not None and not part.service.ended.is_set():
            self._end(part, self._not_found(name))
        return part.service is None and (is_changed or self._is_late(part))

    def _wanted(self, policies: Policies) -> list[str]:
        if EVERYTHING not in self._asked:
            return list(self._asked)
        found = sorted(name for name, policy in policies.items() if policy.handler is not None)
        return found or [EVERYTHING]

    def _is_late(self, part: _Part) -> bool:
        """Whether it is time to try again: for what a transport refused; a handler is not imported over and over."""
        is_passing = not isinstance(part.fault, HandlerNotFound)
        return is_passing and self._monotonic() - part.tried_at >= _TRY_AGAIN_SECONDS

    def _try(self, name: str, part: _Part) -> None:
        part.tried_at = self._monotonic()
        try:
            service = Service(self._transport, self._dispatcher(name), self._terms, self._renewed)
        except OWN_FAULTS as fault:
            part.fault = fault
            return
        with self._lock:
            if self._is_started and self._terms.stopping.is_set():
                return  # nobody waits for it any more
            part.service, part.fault = service, None
            if self._is_started:
                _start(service)

    def _note_end(self, part: _Part) -> None:
        """Of what ended its own part only; what is done, or ends the worker, stays."""
        service = part.service
        if service is not None and service.ended.is_set() and isinstance(service.fault, OWN_FAULTS):
            self._end(part, service.fault)

    def _end(self, part: _Part, fault: Exception) -> None:
        if part.service is not None:
            part.service.stop()
            self._leaving.append(part.service)
        part.service, part.fault, part.tried_at = None, fault, self._monotonic()

    def _leave(self, name: str) -> None:
        """Serve it no more: it was removed, or has no handler now."""
        service = self._parts.pop(name).service
        if service is not None:
            self._log.warning("%s is served no more: it is not in the topology, or has no handler here", name)
            service.stop()
            self._leaving.append(service)

    def _forget_ended(self) -> None:
        """Keep no more than the counts of those that have ended."""
        ended = [service for service in self._leaving if service.ended.is_set() and not service.gave_up]
        for service in ended:
            self._past.include(service.counts)
            self._leaving.remove(service)

    def _tell_all(self) -> None:
        """Log of each subscription that stands otherwise than before. Who meets an outage has told it."""
        with self._lock:
            parts = [(name, part, self._state(name, part)) for name, part in self._parts.items()]
        for name, part, state in parts:
            before = part.told
            part.told = (state, str(part.fault))
            if part.told == before:
                continue
            if part.fault is not None:
                self._log.error("%s is not served: %s", name, part.fault)
            elif state == "paused":
                self._log.warning("%s is %s: nothing is claimed from it", name, self._policies[name].status)
            elif state == "running" and before is not None and before[0] != "error":
                self._log.warning("%s is served again", name)

    def _state(self, name: str, part: _Part) -> State:
        fault = _fault(part)
        if fault is not None:
            return "handler_not_found" if isinstance(fault, HandlerNotFound) else "unsupported"
        if part.service is not None and (part.service.is_in_trouble or part.service.fault is not None):
            return "error"
        policy = self._policies.get(name)
        return "paused" if policy is not None and policy.status != "active" else "running"

    def _standing(self, name: str, part: _Part) -> Standing:
        state, service = self._state(name, part), part.service
        if state in ("running", "paused") and self._terms.stopping.is_set():
            state = "draining"
        policy = self._policies.get(name)
        return Standing(
            subscription=name,
            topic="" if policy is None else policy.topic,
            state=state,
            in_flight=0 if service is None else service.in_flight,
        )

    # Handlers

    def _dispatcher(self, name: str) -> Dispatcher:
        policy = self._policies.get(name)
        if policy is None:
            self._refuse(name)
            raise self._not_found(name)
        loaded = handlers.load(_handler_of(policy))
        return Dispatcher(
            policy=policy,
            handler=loaded,
            convert=payload.converter(loaded.payload_type, loaded.path),
            publish=self._transport.publish,
            log=logging.getLogger("towpath.handler"),
        )

    def _renewed(self, dispatcher: Dispatcher, policy: SubscriptionPolicy) -> Dispatcher:
        """The dispatcher for another policy of the same subscription, whose handler may be another one."""
        path = _handler_of(policy)
        if path == dispatcher.policy.handler:
            return replace(dispatcher, policy=policy)
        loaded = handlers.load(path)
        self._log.warning("%s has another handler from now on: %s", policy.subscription, path)
        convert = payload.converter(loaded.payload_type, loaded.path)
        return replace(dispatcher, policy=policy, handler=loaded, convert=convert)

    def _not_found(self, name: str) -> SubscriptionNotFound:
        return SubscriptionNotFound(name, f"this transport has {', '.join(sorted(self._policies)) or 'none'}")

    def _refuse(self, name: str) -> None:
        """Have the transport say why a worker cannot serve ``name``."""
        if name == EVERYTHING:
            problem = "this transport has no subscription with a handler that a worker may run"
            raise SubscriptionNotFound(name, problem)
        self._transport.consumer(name).close()


def _start(service: Service) -> None:
    threading.Thread(target=service.run, name=service.name, daemon=True).start()


def _handler_of(policy: SubscriptionPolicy) -> str:
    if policy.handler is None:
        problem = "its host is 'external', so it has no handler to run here"
        raise Unsupported(f"a worker cannot serve the subscription {policy.subscription!r}: {problem}")
    return policy.handler


def _fault(part: _Part) -> Exception | None:
    """Why nothing is served: it could not begin, has ended for that, or the transport never answered until it ended."""
    service = part.service
    if service is None:
        return part.fault
    if isinstance(service.fault, OWN_FAULTS):
        return service.fault
    return service.trouble if service.ended.is_set() and service.fault is None else None
