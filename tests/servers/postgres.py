"""A PostgreSQL for the tests: a private cluster from the binaries at hand, on a free loopback port.

``python -m tests.servers.postgres`` serves one by hand until it is interrupted.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

URL_VARIABLE = "TOWPATH_POSTGRES_URL"
SUPERVISE = Path(__file__).with_name("supervise.py")
START_SECONDS = 60
STOP_SECONDS = 20


class PostgresUnavailable(Exception):
    """No PostgreSQL could be found, started or reached; the text says why."""


@contextmanager
def private_cluster(options: tuple[str, ...] = ()) -> Iterator[str]:
    """The URL of a PostgreSQL to test against: ``TOWPATH_POSTGRES_URL`` when set, else a cluster of our own.

    ``options`` are more arguments of our own server, such as ``-cmax_connections=300``. Durability is left on.
    Raises ``PostgresUnavailable``. The cluster ends with this process, however that ends.
    """
    given = os.environ.get(URL_VARIABLE)
    if given:
        _check_reachable(given)
        yield given
        return
    with own_cluster(options) as cluster:
        yield cluster.url


class Cluster:
    """A running PostgreSQL of our own, which can be restarted at its place."""

    def __init__(self, start: Callable[[], "subprocess.Popen[bytes]"], pid_file: Path, url: str) -> None:
        self.url = url
        self._start = start
        self._pid_file = pid_file
        self._server = start()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT is PostgreSQL's fast shutdown, SIGQUIT its immediate one, which is like a crash."""
        with suppress(OSError, ValueError):
            os.kill(int(self._pid_file.read_text().split()[0]), how)
        assert self._server.stdin is not None
        with suppress(subprocess.TimeoutExpired):
            self._server.wait(timeout=STOP_SECONDS)
        self._server.stdin.close()  # supervise.py ends what is left
        self._server.wait(timeout=STOP_SECONDS)

    def start(self) -> None:
        """Start the server that was stopped, on the same data and the same port."""
        self._server = self._start()


@contextmanager
def own_cluster(options: tuple[str, ...] = ()) -> Iterator[Cluster]:
    """A cluster of our own, whatever ``TOWPATH_POSTGRES_URL`` says. Raises ``PostgresUnavailable``."""
    binaries, user, port = _binaries(), server_user(), free_port()
    with tempfile.TemporaryDirectory(prefix="towpath-pg-", ignore_cleanup_errors=True) as folder:
        if user is not None:
            shutil.chown(folder, user)
        data = Path(folder) / "data"
        _make_cluster(binaries, data, user)
        url = f"postgresql://towpath@127.0.0.1:{port}/postgres"
        command = [binaries / "postgres", "-D", data, "-p", str(port), "-k", folder, "-clisten_addresses=127.0.0.1"]
        supervised = [sys.executable, SUPERVISE, *(["--user", user] if user else []), *command, *options]
        cluster = Cluster(lambda: _started(supervised, url, data.parent), data / "postmaster.pid", url)
        try:
            yield cluster
        finally:
            cluster.stop()


@contextmanager
def fresh_database(url: str, template: str = "template1") -> Iterator[str]:
    """The URL of a new database on the server at ``url``, dropped at the end."""
    name = f"towpath_{secrets.token_hex(6)}"
    with psycopg.connect(url, autocommit=True) as connection:
        made, copied = sql.Identifier(name), sql.Identifier(template)
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(made, copied))
    try:
        yield make_url(url).set(database=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(made))


def _check_reachable(url: str) -> None:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.Error as error:
        raise PostgresUnavailable(f"{URL_VARIABLE} is set, and its server does not answer: {error}") from error


def _binaries() -> Path:
    """The newest folder that has the server's programs."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: -float(folder.parent.name))
    pg_config = shutil.which("pg_config")
    if pg_config is not None:
        asked = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        folders.append(Path(asked.stdout.strip()))
    folders += [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise PostgresUnavailable(f"there are no PostgreSQL programs here; install a server or set {URL_VARIABLE}")


def server_user() -> str | None:
    """Whom the server runs as: PostgreSQL refuses to run as root. ``None`` is the user of this process."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise PostgresUnavailable("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _make_cluster(binaries: Path, data: Path, user: str | None) -> None:
    command = [binaries / "initdb", "-D", data, "-U", "towpath", "--auth=trust", "--encoding=UTF8", "--locale=C"]
    made = subprocess.run(command, user=user, cwd=data.parent, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise PostgresUnavailable(f"initdb failed: {made.stderr.strip()}")


def _started(command: Sequence[str | Path], url: str, folder: Path) -> "subprocess.Popen[bytes]":
    log = folder / "server.log"
    with log.open("ab") as output:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, cwd=folder)
    _wait_until_ready(server, url, log)
    return server


def free_port() -> int:
    """A port of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(server: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise PostgresUnavailable(f"PostgreSQL did not start: {log.read_text()[-2000:]}") from None
        time.sleep(0.05)


if __name__ == "__main__":
    with private_cluster() as served, suppress(KeyboardInterrupt):
        print(served, flush=True)
        signal.pause()
