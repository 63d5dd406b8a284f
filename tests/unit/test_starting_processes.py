"""The process that starts worker processes: what it does when one cannot be started."""

import errno
import socket
import threading

import pytest

from towpath.cli.link import Line
from towpath.cli.live import LiveLine
from towpath.cli.processes import Processes, ProcessOptions

UNSEEN = LiveLine(None, None)


class FakeProcess:
    """A worker process that says that it serves, and ends well when all that were wanted have begun."""

    stderr = None

    def __init__(self, pid: int, line: Line, all_began: threading.Event) -> None:
        self.pid, self._line, self._all_began = pid, line, all_began
        line.send(serving=["documents.convert"])

    def wait(self) -> int:
        self._all_began.wait()
        self._line.send(over=True)
        self._line.close()
        return 0

    def kill(self) -> None:
        self._all_began.set()


class Machine:
    """Starts processes, but for those calls whose number is in ``refused``."""

    def __init__(self, wanted: int, *refused: int) -> None:
        self.calls, self.begun = 0, 0
        self._wanted, self._refused = wanted, refused
        self._all_began = threading.Event()

    def start(self, command, environment, **more):
        self.calls += 1
        if self.calls in self._refused:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        own, other = socket.socketpair()
        process = FakeProcess(self.calls, Line(other), self._all_began)
        self.begun += 1
        if self.begun == self._wanted:
            self._all_began.set()
        return process, Line(own)


def processes(machine: Machine, count: int) -> Processes:
    options = ProcessOptions(count=count, arguments=["work"], environment={})
    return Processes(options, UNSEEN, lambda what, said: None, start=machine.start)


def test_one_that_cannot_be_started_is_tried_again_and_ends_no_other(caplog):
    machine = Machine(2, 2)
    started = processes(machine, 2)
    started.run()
    assert (started.exit_code, machine.calls, machine.begun) == (0, 3, 2)
    (told,) = [record.getMessage() for record in caplog.records]
    assert told == ("a worker process cannot be started: Resource temporarily unavailable; another one starts in 1 s")


def test_the_first_that_cannot_be_started_is_a_failure():
    with pytest.raises(OSError, match="Resource temporarily unavailable"):
        processes(Machine(1, 1), 2).run()
