"""How a process takes part in a run: it connects for as long as that takes, and is told when to end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from local_transport import DatabaseTransport
from tests.history.recording import Recorder
from towpath import connect
from towpath.errors import TransportUnavailable

ResultT = TypeVar("ResultT")

AGAIN_SECONDS = 0.2


def recorder_of(folder: Path, name: str) -> Recorder:
    """A file for this process alone: a number of a process may come again."""
    return Recorder(folder / f"{name}-{os.getpid()}-{time.monotonic_ns()}.jsonl")


def until_answered(call: Callable[[], ResultT]) -> ResultT:
    """What ``call`` answers once the database does."""
    while True:
        try:
            return call()
        except TransportUnavailable:
            time.sleep(AGAIN_SECONDS)


def connected(url: str, recorder: Recorder) -> DatabaseTransport:
    """A transport, as soon as the database can be reached; then the process is at work, which is recorded."""
    transport: DatabaseTransport = until_answered(lambda: connect(url))
    recorder.note("ready")
    return transport


def told_to_end() -> threading.Event:
    """Set once SIGTERM has come. To be called before other threads are started."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    told = threading.Event()

    def wait() -> None:
        signal.sigwait({signal.SIGTERM})
        told.set()

    threading.Thread(target=wait, daemon=True).start()
    return told
