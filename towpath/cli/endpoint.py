"""An HTTP endpoint beside a worker: ``/metrics`` for Prometheus, ``/healthz`` for whoever restarts it."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Final, Protocol, TypeAlias

import typer

from towpath.errors import TowpathError
from towpath.observing import Standing

FOLDER_VARIABLE: Final = "TOWPATH_METRICS_FOLDER"  # where a process of several writes what it counts
_ADDRESS: Final = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):)?(?P<port>[0-9]{1,5})")
_LOOPBACK: Final = "127.0.0.1"
_HIGHEST_PORT: Final = 65_535
_SLOW_SECONDS: Final = 10.0  # what a client gets to send its request and to take its answer
_TEXT: Final = "text/plain; charset=utf-8"
_UNWELL: Final = frozenset({"error", "draining"})

MetricsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve /metrics for Prometheus and /healthz for probes on this address; without a host on 127.0.0.1.",
        show_default=False,
    ),
]


class CannotServe(TowpathError):
    """The address for metrics cannot be listened on; the message says which and why."""

    def __init__(self, address: Address, error: OSError) -> None:
        reason = error.strerror or str(error)
        super().__init__(f"cannot serve metrics on {address}: {reason}; give --metrics another address")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen. Port 0 stands for any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def address(text: str) -> Address:
    """``9464``, ``0.0.0.0:9464`` or ``[::1]:9464``. Raises ``typer.BadParameter``."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > _HIGHEST_PORT:
        raise typer.BadParameter(f"--metrics {text!r} is no address; write 9464 or 0.0.0.0:9464")
    host = (found["host"] or _LOOPBACK).strip("[]")
    return Address(host=host, port=int(found["port"]))


# --- How a worker is ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether a worker is as it should be, and in which state it is with each subscription."""

    status: str
    subscriptions: dict[str, list[str]]

    @property
    def well(self) -> bool:
        """Whether it does its work: it has begun, is not about to end, and has no fault."""
        return self.status == "running"

    def document(self) -> bytes:
        """As JSON, without anything that names a message."""
        return json.dumps({"status": self.status, "subscriptions": self.subscriptions}).encode() + b"\n"


def health(standings: Sequence[Standing]) -> Health:
    """``starting`` while there is nothing to tell of, ``error`` before ``draining``, else ``running``.

    A subscription that is paused, or that this worker has no handler for, does not make it unwell: to start it anew
    would change nothing.
    """
    states: dict[str, list[str]] = {}
    for standing in standings:
        states.setdefault(standing.subscription, []).append(standing.state)
    found = {standing.state for standing in standings}
    worst = next((state for state in ("error", "draining") if state in found & _UNWELL), "running")
    return Health(status=worst if states else "starting", subscriptions=states)


# --- The server --------------------------------------------------------------------------------------------------


class Answers(Protocol):
    """What the endpoint serves. Called on threads of the server, several at a time."""

    def metrics(self, accept: str) -> tuple[str, bytes]:
        """The content type and the text of all metrics, in the best form of those that a client accepts."""

    def health(self) -> Health:
        """How the worker is now."""


@contextmanager
def serving(where: Address, answers: Answers) -> Iterator[Address]:
    """Listen on ``where`` until the end; gives the address with the port that it got. Raises ``CannotServe``."""
    try:
        server = _server(where, answers)
    except OSError as error:  # also for a name that nobody knows, and a port that is taken
        raise CannotServe(where, error) from error
    thread = threading.Thread(target=server.serve_forever, name="towpath-metrics", daemon=True)
    thread.start()
    try:
        yield Address(host=where.host, port=server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


def _server(where: Address, answers: Answers) -> _Server:
    (family, *_), *_ = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)

    class Requests(_Requests):
        answered_by = answers

    class Server(_Server):
        address_family = family

    return Server((where.host, where.port), Requests)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True  # the port of a worker that was just restarted

    def server_bind(self) -> None:
        """As its base, without asking a name server for this machine's name, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that goes away, or sends what is no request, is no matter of the worker's."""


class _Requests(BaseHTTPRequestHandler):
    answered_by: Answers
    timeout = _SLOW_SECONDS
    server_version = "towpath"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer one of the two paths."""
        match self.path.partition("?")[0]:
            case "/metrics":
                self._answer(*self._metrics())
            case "/healthz":
                found = self.answered_by.health()
                status = HTTPStatus.OK if found.well else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, "application/json", found.document())
            case _:
                self._answer(HTTPStatus.NOT_FOUND, _TEXT, b"there are /metrics and /healthz\n")

    def do_HEAD(self) -> None:
        """The same without the body."""
        self.do_GET()

    def _metrics(self) -> tuple[HTTPStatus, str, bytes]:
        """A handler's own metrics may raise anything; then a scraper is told, and probes are answered as before."""
        try:
            return HTTPStatus.OK, *self.answered_by.metrics(self.headers.get("Accept", ""))
        except Exception as error:  # noqa: BLE001 - see above
            logging.getLogger("towpath.worker").warning(
                "the metrics cannot be told: %s: %s", type(error).__name__, error
            )
            return HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, b"the metrics cannot be told; the worker's log says why\n"

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the standard library
        """Nothing: a line for each scrape would hide what a worker has to say."""
