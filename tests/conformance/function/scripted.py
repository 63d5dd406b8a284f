"""The handler of the conformance suite: does what its message's payload says, and reports what it saw.

The payload is ``{"script": ["retry:4", "complete"], ...}``: one action for each attempt, the last one from then on.
``"scripts"`` maps subscriptions to scripts of their own.

Where the reports go is said by the variable ``CONFORMANCE_OBSERVER``: a file to append to (``file:///...``), or the
URL of an SQS queue, at ``CONFORMANCE_OBSERVER_ENDPOINT`` if given. ``CONFORMANCE_SHIFT`` is by how many seconds the
harness has moved time so far.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from towpath import ABSENT, Complete, Context, DeadLetter, FatalError, Message, Outcome, Retry, TransientError

LARGE_BYTES = 100_000
MAKING = threading.Lock()


def handle(message: Message, context: Context) -> Outcome | None:
    """Report the attempt, then act it out."""
    payload = message.payload if isinstance(message.payload, dict) else {}
    script = payload.get("scripts", {}).get(context.subscription) or payload.get("script", ["complete"])
    action, _, argument = script[min(context.attempt, len(script)) - 1].partition(":")
    meet_the_others()
    started = now()
    announce(message, context)
    try:
        return act(action, argument, context)
    finally:
        observe(
            {
                "subscription": context.subscription,
                "message_id": message.id,
                "delivery_id": context.delivery_id,
                "attempt": context.attempt,
                "is_replay": context.is_replay,
                "action": action,
                **told(message),
                "checkpoint": context.checkpoint,
                "started": started,
                "ended": now(),
                "pid": os.getpid(),
            }
        )


def told(message: Message) -> dict[str, Any]:
    """What the handler was given, field by field; of a large payload a digest, since reports travel by SQS too."""
    payload = None if message.payload is ABSENT else message.payload
    text = json.dumps(payload, sort_keys=True).encode()
    if len(text) > LARGE_BYTES:
        payload = {"sha256": hashlib.sha256(text).hexdigest()}
    return {
        "payload": payload,
        "has_payload": message.payload is not ABSENT,
        "payload_ref": message.payload_ref and message.payload_ref.record(),
        "partition_key": message.partition_key,
        "attributes": dict(message.attributes),
        "correlation_id": message.correlation_id,
        "causation_id": message.causation_id,
        "traceparent": message.traceparent,
        "published_at": message.published_at.isoformat(),
        "expires_at": message.expires_at and message.expires_at.isoformat(),
    }


def act(action: str, argument: str, context: Context) -> Outcome | None:
    """One action of a script."""
    match action:
        case "complete":
            return Complete()
        case "retry":
            return Retry(reason="scripted", after=float(argument) if argument else None)
        case "transient":
            raise TransientError("scripted transient failure", after=float(argument) if argument else None)
        case "save":
            context.heartbeat(percent=50, note="half", checkpoint={"page": int(argument)})
            return Retry(reason="scripted", after=1)
        case "error":
            raise RuntimeError(f"scripted error in attempt {context.attempt}")
        case "fatal":
            raise FatalError("scripted fatal failure")
        case "fatal_until_replayed":
            if context.is_replay:
                return Complete()
            raise FatalError("scripted fatal failure")
        case "dead_letter":
            return DeadLetter("scripted dead letter")
        case _:
            return spend(action, argument, context)


def spend(action: str, argument: str, context: Context) -> Outcome | None:
    """An action that takes its time."""
    match action:
        case "wait":
            return wait_for_the_end(context)
        case "until_stopped":
            return work_until_stopped(context)
        case "until":
            while not Path(argument).exists():
                time.sleep(0.02)
            return None
        case "dead_letter_after":
            while not Path(argument).exists():
                time.sleep(0.02)
            return DeadLetter("scripted dead letter, too late")
        case "ignore":
            while "CONFORMANCE_WAIT" in os.environ:  # also when it is told to stop
                time.sleep(0.02)
            return None
        case "sleep":
            time.sleep(float(argument))
            return None
        case _:
            return break_down(action, argument, context)


def break_down(action: str, argument: str, context: Context) -> Outcome | None:
    """An action that takes the process."""
    match action:
        case "freeze":
            freeze(float(argument), context)
        case "kill_until_replayed":
            if not context.is_replay:
                os.kill(os.getpid(), signal.SIGKILL)
            return None
        case _:
            raise ValueError(f"the script has no action {action!r}")


def wait_for_the_end(context: Context) -> None:
    """Work until the worker is told to stop, in the process that the harness means to stop; elsewhere complete."""
    while "CONFORMANCE_WAIT" in os.environ:
        context.check()
        time.sleep(0.02)


def work_until_stopped(context: Context) -> None:
    """Work until told to stop, however that is; a minute at most."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        context.check()
        time.sleep(0.02)


def freeze(seconds: float, context: Context) -> NoReturn:
    """Stop the whole process so long after it was told that time is over, as a machine does that hangs."""
    while not context.aborted:
        time.sleep(0.02)
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGSTOP)
    while True:  # the signal may take a moment to reach this thread
        time.sleep(1)


def crash(message: Message, context: Context) -> Outcome | None:
    """As ``handle``, but the first attempt ends the whole process, as a kill or a power cut does."""
    if context.attempt == 1:
        os._exit(9)
    return handle(message, context)


@dataclass(frozen=True, kw_only=True)
class Order:
    """A typed payload."""

    number: int


def typed(message: Message[Order], context: Context) -> Outcome | None:
    """Wants an ``Order``; a payload that is none never comes here."""
    return handle(replace(message, payload={"number": message.payload.number}), context)


def now() -> float:
    """Seconds since the epoch, as the harness counts them."""
    return time.time() + float(os.environ.get("CONFORMANCE_SHIFT", "0"))


def announce(message: Message, context: Context) -> None:
    """Leave a file in the folder that ``CONFORMANCE_STARTED`` names, if any: for who waits until a handler runs."""
    folder = os.environ.get("CONFORMANCE_STARTED")
    if folder:
        (Path(folder) / f"{context.subscription}-{context.attempt}-{message.id}").touch()


def meet_the_others() -> None:
    """Wait until so many processes have a delivery in hand as the folder's name in ``CONFORMANCE_MEETING`` says.

    Else the first to start could be done with all before the next has started.
    """
    folder = os.environ.get("CONFORMANCE_MEETING")
    if not folder:
        return
    (Path(folder) / str(os.getpid())).touch()
    end = time.monotonic() + 60
    while sum(1 for _ in Path(folder).iterdir()) < int(Path(folder).name) and time.monotonic() < end:
        time.sleep(0.02)
    os.environ["CONFORMANCE_MEETING"] = ""


def observe(observation: dict[str, Any]) -> None:
    """Report one attempt. A line appended in one write is whole, also beside other processes."""
    observer = os.environ["CONFORMANCE_OBSERVER"]
    text = json.dumps(observation)
    if observer.startswith("file://"):
        with Path(observer.removeprefix("file://")).open("ab", buffering=0) as report:
            report.write(text.encode() + b"\n")
        return
    sqs().send_message(QueueUrl=observer, MessageBody=text)


def sqs() -> Any:
    """The process's client, made once: to make one takes longer than to send. boto3 makes one at a time."""
    with MAKING:
        return made_sqs()


@cache
def made_sqs() -> Any:
    import boto3

    return boto3.client("sqs", endpoint_url=os.environ.get("CONFORMANCE_OBSERVER_ENDPOINT"))


if os.environ.get("CONFORMANCE_OBSERVER", "file://").startswith("http"):
    sqs()  # while the function starts, which its time-out does not count
