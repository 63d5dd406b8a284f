"""Feeds messages to a bundle as SQS and Lambda would: in batches, again when they failed, until each is settled.

The zip runs under AWS's own runtime client. Polling, receive counts and visibility are played here, and the function's
own calls to SQS go to a loopback stand-in.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bundling.archive import unpack
from bundling.build import BundleRequest
from bundling.build import build as build_bundle
from bundling.errors import RehearsalFailed
from bundling.loopback_sqs import LoopbackSqs, loopback_sqs
from bundling.sandbox import LAMBDA_HAS, REGION, Conditions, Sandbox, make_sandbox
from bundling.selection import function_environment, select
from bundling.stamp import read_stamp
from bundling.target import host_target
from towpath.limits import SQS_BATCH_ENTRIES
from towpath.manifest import Manifest

_NOTE: Final = "towpath-dead-letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """What became of the messages. ``dead_letters``: copies for the dead-letter queue, as (body, reason, attempts)."""

    completed: int
    retried: int
    dead_letters: tuple[tuple[str, str, int], ...]


@dataclass(slots=True, kw_only=True)
class _Message:
    body: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    receives: int = 0
    visible_at: float = 0.0
    receipt: str = ""


def build(project: Path, manifest: Manifest, subscription: str, output: Path) -> Path:
    """Bundle the subscription's handler for this machine; answers the zip."""
    selection = select(manifest, subscription)
    request = BundleRequest(
        name=selection.name,
        handlers=selection.handlers,
        entry_point=selection.entry_point,
        target=host_target(),
        project=project,
        output=output,
    )
    return build_bundle(request).path


def rehearse(
    zip_path: Path,
    manifest: Manifest,
    bodies: Sequence[str],
    environment: Mapping[str, str],
    settled: Callable[[int], None],
) -> Rehearsed:
    """Feed ``bodies`` to the zip until each is completed or copied to the dead-letter queue.

    ``settled`` is told how many more are. ``environment`` is added to what a deployment of ``manifest`` sets for the
    subscription that the zip was built for. Raises ``RehearsalFailed`` when the function does not start, or fails as a
    whole, and what making the sandbox raises.
    """
    with loopback_sqs() as sqs, _sandbox(zip_path, manifest, environment, sqs) as sandbox:
        started = sandbox.wait_until_ready()
        if started.error is not None:
            raise RehearsalFailed(f"the function did not start: {started.error}")
        waiting = [_Message(body=body) for body in bodies]
        retried = 0
        while waiting:
            batch = _receive(waiting)
            failed = _invoke(sandbox, batch)
            _hide(failed, sqs)
            retried += len(failed)
            waiting = [message for message in waiting if message not in batch] + failed
            settled(len(batch) - len(failed))
        letters = tuple(_letter(entry) for entries in sqs.sent.values() for entry in entries)
        return Rehearsed(completed=len(bodies) - len(letters), retried=retried, dead_letters=letters)


@contextmanager
def _sandbox(zip_path: Path, manifest: Manifest, environment: Mapping[str, str], sqs: LoopbackSqs) -> Iterator[Sandbox]:
    with tempfile.TemporaryDirectory(prefix="towpath-rehearsal-") as folder:
        unpack(zip_path, Path(folder) / "task")
        stamp = read_stamp(zip_path)
        variables = {
            **function_environment(manifest, stamp.name, REGION),
            **sqs.environment,
            **environment,
        }
        conditions = Conditions(packages=LAMBDA_HAS)
        with closing(make_sandbox(Path(folder), stamp, variables, conditions)) as sandbox:
            yield sandbox


def _receive(waiting: Sequence[_Message]) -> list[_Message]:
    """A batch of the visible messages; waits for the first."""
    pause = min(message.visible_at for message in waiting) - time.monotonic()
    if pause > 0:
        time.sleep(pause)
    now = time.monotonic()
    batch = [message for message in waiting if message.visible_at <= now][:SQS_BATCH_ENTRIES]
    for message in batch:
        message.receives += 1
        message.receipt = f"{message.id}#{message.receives}"
    return batch


def _invoke(sandbox: Sandbox, batch: Sequence[_Message]) -> list[_Message]:
    """Send the batch as one event; the messages that the function reports as failed."""
    invoked = sandbox.invoke("batch", {"Records": [_record(message) for message in batch]})
    if invoked.is_error:
        raise RehearsalFailed(f"the function failed: {invoked.response}")
    reported = {failure["itemIdentifier"] for failure in invoked.response.get("batchItemFailures", ())}
    return [message for message in batch if message.id in reported]


def _hide(failed: Sequence[_Message], sqs: LoopbackSqs) -> None:
    """A failed message comes again after the visibility that the function gave it, else at once."""
    for message in failed:
        message.visible_at = time.monotonic() + sqs.hidden.get(message.receipt, 0)


def _record(message: _Message) -> dict[str, Any]:
    """A record as Lambda gets it (AWS Lambda developer guide, "Using Lambda with Amazon SQS")."""
    sent_at = str(int(time.time() * 1000))
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt,
        "body": message.body,
        "attributes": {
            "ApproximateReceiveCount": str(message.receives),
            "SentTimestamp": sent_at,
            "SenderId": "rehearsal",
            "ApproximateFirstReceiveTimestamp": sent_at,
        },
        "messageAttributes": {},
        "md5OfBody": hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:000000000000:rehearsal",
        "awsRegion": REGION,
    }


def _letter(entry: Mapping[str, Any]) -> tuple[str, str, int]:
    note = json.loads(entry["MessageAttributes"][_NOTE]["StringValue"])
    return entry["MessageBody"], note["reason"], note["attempts"]
