"""What every invocation of one function works with."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from lambda_runtime.figures import Figures
from lambda_runtime.invocation import Seconds
from lambda_runtime.settles import FunctionSettler
from lambda_runtime.threads import EventLoops, Threads
from lambda_runtime.watch import Watch
from towpath.dispatch import Dispatcher
from towpath.frozen import Record


class Equipment(metaclass=Record):
    """The parts of a function. ``end_process`` ends this process at once, with an exit code; ``report`` is told the
    figures of each invocation.
    """

    dispatcher: Dispatcher
    settler: FunctionSettler
    threads: Threads
    loops: EventLoops
    watch: Watch
    log: logging.Logger
    end_process: Callable[[int], object]
    report: Callable[[Figures], None] | None = None
    seconds: Seconds = time.monotonic
