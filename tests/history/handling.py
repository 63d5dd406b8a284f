"""The handler of the run: mostly well behaved, as the seed says; it records its start and its end."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from random import Random

from tests.history.plan import FOLDER_VARIABLE, Plan, quiet
from tests.history.recording import Recorder
from towpath import Complete, Context, DeadLetter, FatalError, Message, Outcome, Retry, TransientError

LONG = 1.4  # leases that a long handler runs


def handle(message: Message, context: Context) -> Outcome | None:
    """Record the attempt and do what the seed says for this lease."""
    folder, plan, recorder = _run()
    token = context.checkpoint
    started_at = recorder.note("started", delivery=context.delivery_id, token=token)
    try:
        if quiet(folder).exists():
            return Complete()
        return _act(plan, plan.random("handler", context.delivery_id, token), context)
    finally:
        recorder.note("ended", delivery=context.delivery_id, token=token, started_at=started_at)


@cache
def _run() -> tuple[Path, Plan, Recorder]:
    folder = Path(os.environ[FOLDER_VARIABLE])
    return folder, Plan.of(folder), Recorder(folder / f"handlers-{os.getpid()}-{time.monotonic_ns()}.jsonl")


def _act(plan: Plan, random: Random, context: Context) -> Outcome | None:
    chance = random.random()
    if context.attempt > 1 and random.random() < 0.1:  # whoever held it before may be about to settle
        time.sleep(plan.lease_seconds * random.uniform(0.1, 0.8))
    elif chance < 0.86:
        time.sleep(random.uniform(0, 0.004))
    elif chance < 0.94:
        time.sleep(random.uniform(0.02, 0.05))
    elif chance < 0.96:
        return Retry(reason="for the test", after=0)
    elif chance < 0.97:
        raise TransientError("for the test")
    elif chance < 0.98:
        raise RuntimeError("for the test")
    elif chance < 0.985:
        return DeadLetter("for the test")
    elif chance < 0.99:
        raise FatalError("for the test")
    elif chance < 0.994:
        context.heartbeat(percent=random.random() * 100, note="half", checkpoint={"page": 1})
    elif chance < 0.9955:
        _work_long(plan, context)
    return Complete()


def _work_long(plan: Plan, context: Context) -> None:
    until = time.monotonic() + plan.lease_seconds * LONG
    while time.monotonic() < until:
        context.check()
        time.sleep(0.05)
