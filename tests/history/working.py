"""A worker process of the run; SIGTERM drains it."""

from __future__ import annotations

import logging
import os
import threading
from datetime import timedelta
from pathlib import Path

from tests.history.joining import connected, recorder_of, told_to_end, until_answered
from tests.history.plan import FOLDER_VARIABLE, SUBSCRIPTIONS, Plan
from tests.history.recording import ObservedTransport
from towpath.worker import Worker, WorkerOptions

DRAIN, GRACE = timedelta(seconds=1), timedelta(seconds=2)


def main(folder: Path, name: str, concurrency: int) -> None:
    told = told_to_end()
    logging.basicConfig(level=logging.ERROR)
    logging.getLogger("towpath.delivery").setLevel(logging.CRITICAL)  # dead letters are meant
    os.environ[FOLDER_VARIABLE] = str(folder)
    recorder = recorder_of(folder, name)
    transport = ObservedTransport(connected(Plan.of(folder).url, recorder), recorder)
    options = WorkerOptions(concurrency=concurrency, drain=DRAIN, abort_grace=GRACE)
    worker = until_answered(lambda: Worker(transport, list(SUBSCRIPTIONS), options))

    def stop() -> None:
        told.wait()
        worker.stop()

    threading.Thread(target=stop, daemon=True).start()
    worker.run()
    if worker.abandoned:
        os._exit(0)
    transport.close()
