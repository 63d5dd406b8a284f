"""``towpath`` for the pages' sessions, without its start: a process that has loaded all of it forks for each command.

Each command still is a process of its own, with the folder, environment, standard streams and signals of the shell that
calls it; what it is spared is to read some hundred modules, half a second each time.

``python -m tests.pages.warm SOCKET`` serves until its standard input ends.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_STREAMS = 3
_KILLED = 137
_CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
calls = socket.socket(socket.AF_UNIX)
calls.connect({address!r})
told = json.dumps({{"words": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ)}}).encode()
socket.send_fds(calls, [len(told).to_bytes(8, "big")], [0, 1, 2])
calls.sendall(told)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _frame: calls.send(bytes([number])))
sys.exit((calls.recv(1) or b"\\x01")[0])
"""


@contextmanager
def warm_towpath(folder: Path) -> Iterator[Path]:
    """A folder with a program ``towpath``, for the front of ``PATH``."""
    address, programs = folder / "towpath.socket", folder / "bin"
    programs.mkdir()
    client = programs / "towpath"
    client.write_text(_CLIENT.format(python=sys.executable, address=str(address)), encoding="utf-8")
    client.chmod(0o755)
    command = [sys.executable, "-m", "tests.pages.warm", str(address)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline(), "the warm towpath did not start"
        yield programs
    finally:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


def _load() -> None:
    import alembic.command  # noqa: F401
    import boto3  # noqa: F401
    import psycopg  # noqa: F401
    from typer.main import get_command

    import aws_transport.transport  # noqa: F401
    import local_transport.transport  # noqa: F401
    from towpath.cli.main import build_app

    app = get_command(build_app())
    app.list_commands(None)


def _serve(address: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how those ended that look after a command
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        calls, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with suppress(OSError):  # the caller is gone
                _look_after(calls)
            os._exit(0)
        calls.close()


def _look_after(calls: socket.socket) -> None:
    """Run one command, hand signals on to it, and answer its exit code. A caller that is killed takes it along."""
    size, streams, _, _ = socket.recv_fds(calls, 8, _STREAMS)
    told = json.loads(_read(calls, int.from_bytes(size, "big")))
    child = os.fork()
    if child == 0:
        calls.close()
        os._exit(_run(told, streams))
    for stream in streams:
        os.close(stream)
    threading.Thread(target=_answer, args=(calls, child), daemon=True).start()
    while number := calls.recv(1):
        with suppress(ProcessLookupError):
            os.kill(child, number[0])
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def _read(calls: socket.socket, size: int) -> bytes:
    told = b""
    while len(told) < size:
        told += calls.recv(size - len(told))
    return told


def _answer(calls: socket.socket, child: int) -> None:
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    with suppress(OSError):
        calls.send(bytes([code if code >= 0 else _KILLED]))
    os._exit(0)


def _run(told: dict[str, object], streams: list[int]) -> int:
    from towpath.cli.main import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(str(told["folder"]))
    os.environ.clear()
    os.environ.update(told["environment"])
    sys.argv = list(told["words"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - the server's own waits for its end
    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    finally:
        for output in (sys.stdout, sys.stderr):
            with suppress(OSError):
                output.flush()
    return code if isinstance(code, int) else 0 if code is None else 1


if __name__ == "__main__":
    _load()
    _serve(sys.argv[1])
