"""A PgBouncer in transaction mode in front of the PostgreSQL of the tests, as it is in front of many in production."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from tests.servers.postgres import free_port, server_user

SUPERVISE = Path(__file__).with_name("supervise.py")
START_SECONDS = 30
STOP_SECONDS = 20

CONFIGURATION = """\
[databases]
* = host={host} port={port} user={user}{password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 200
server_idle_timeout = 60
"""


class PgBouncerUnavailable(Exception):
    """No PgBouncer could be found, installed or started; the text says why."""


@contextmanager
def pooled(url: str, pool_size: int = 4) -> Iterator[str]:
    """The URL of the same database by way of a PgBouncer that gives clients at most ``pool_size`` connections at once.

    It ends with this process, however that ends. Raises ``PgBouncerUnavailable``.
    """
    binary, user, server = _binary(), server_user(), make_url(url)
    with tempfile.TemporaryDirectory(prefix="towpath-pgbouncer-", ignore_cleanup_errors=True) as folder:
        port = free_port()
        written = Path(folder) / "pgbouncer.ini"
        known = {"host": server.host, "port": server.port or 5432, "user": server.username}
        password = f" password='{server.password}'" if server.password else ""
        text = CONFIGURATION.format(**known, password=password, listen_port=port, pool_size=pool_size)
        written.write_text(text)
        if user is not None:
            shutil.chown(folder, user)
        log = Path(folder) / "pgbouncer.log"
        command = [sys.executable, SUPERVISE, *(["--user", user] if user else []), binary, "-q", written]
        with log.open("wb") as output:
            bouncer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, cwd=folder)
        try:
            pooled_url = server.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
            _wait_until_ready(bouncer, pooled_url, log)
            yield pooled_url
        finally:
            bouncer.stdin.close()  # supervise.py ends it
            bouncer.wait(timeout=STOP_SECONDS)


def _binary() -> str:
    found = _found()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _install()
        found = _found()
    if found is None:
        raise PgBouncerUnavailable("there is no pgbouncer here; install it (on Debian: apt-get install pgbouncer)")
    return found


def _found() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")


def _install() -> None:
    """From the distribution; RUNLEVEL keeps its service from being started."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "pgbouncer"]
    for command in (install, ["apt-get", "update", "-qq"], install):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        if command is install and done.returncode == 0:
            return
    raise PgBouncerUnavailable(f"pgbouncer could not be installed: {done.stderr.strip()[-500:]}")


def _wait_until_ready(bouncer: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            if bouncer.poll() is not None or time.monotonic() > deadline:
                raise PgBouncerUnavailable(f"PgBouncer did not start: {log.read_text()[-2000:]}") from None
        time.sleep(0.05)
