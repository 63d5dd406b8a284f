"""A stretch of network before an AWS endpoint that a test can let fail, request by request."""

import http.client
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import parse_qs, urlsplit

CAUGHT_SECONDS = 120
ANSWER_SECONDS = 60

# What befalls a request that comes now, and one whose answer is awaited now:
Weather = Literal[
    "fair",  # it is passed on, and so is its answer
    "refusing",  # nobody listens
    "cutting",  # its connection is dropped, and nothing is passed on
    "losing answers",  # it is passed on, and its connection dropped in place of the answer
    "throttling",  # AWS has enough
    "hanging",  # nothing happens; when it is over the request is passed on, unless its sender is gone
    "holding answers",  # it is passed on, and then nothing happens; when it is over its connection is dropped
]
THROTTLED_SNS = (
    b"<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error>"
    b"<RequestId>r</RequestId></ErrorResponse>"
)
THROTTLED_SQS = json.dumps({"__type": "com.amazonaws.sqs#RequestThrottled", "message": "Rate exceeded"}).encode()


class AwsRelay:
    """Stands before the AWS of ``endpoint``, at ``url``."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.weather: Weather = "fair"
        self._only: str | None = None
        self.befallen: Counter[tuple[Weather, str]] = Counter()  # requests by what befell them, and by AWS's operation
        self._changed = threading.Condition()
        self._caught = 0
        self._place = _bound(0)  # has the port while nobody listens there: else another process might get it
        self._listener: _Listener | None = None
        self._listen()

    @property
    def url(self) -> str:
        """The endpoint for clients."""
        return f"http://127.0.0.1:{self._place.getsockname()[1]}"

    def turn(self, weather: Weather, only: str | None = None) -> None:
        """From here on it is so: for all requests, or for those of one operation of AWS's."""
        with self._changed:
            self.weather, self._only = weather, only
            self._caught = 0
            self._changed.notify_all()
        if weather == "refusing":
            self._stop_listening()
        else:
            self._listen()

    def await_caught(self) -> None:
        """Until a request, or an answer, is held up."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._caught, CAUGHT_SECONDS), "nothing came"

    def hold(self) -> None:
        """Until the weather changes."""
        with self._changed:
            held_by = self.weather
            self._caught += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.weather != held_by)

    def befall(self, operation: str) -> Weather:
        """What befalls a request now."""
        with self._changed:
            weather = self.weather if self._only in (None, operation) else "fair"
            self.befallen[weather, operation] += 1
            return weather

    def close(self) -> None:
        """Hold up nothing any more, and take no more requests."""
        self.turn("cutting")
        self._stop_listening()
        self._place.close()

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = _Listener(self, self._place.getsockname()[1])

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.end()
            self._listener = None


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, relay: AwsRelay, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Passing, bind_and_activate=False)
        self.relay = relay
        self.socket.close()
        self.socket = _bound(port)
        self.server_address = self.socket.getsockname()
        self.server_activate()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that is gone, or a server that is: that is what is tried here."""


class _Passing(BaseHTTPRequestHandler):
    """One request to a connection, as HTTP 1.0 has it."""

    server: _Listener

    def do_POST(self) -> None:
        relay = self.server.relay
        body = self.rfile.read(int(self.headers["Content-Length"]))
        operation = _operation(self.headers.get("X-Amz-Target"), body)
        weather = relay.befall(operation)
        if weather == "hanging":
            relay.hold()
            if self._sender_is_gone():
                return
            weather = relay.befall(operation)
        if weather == "throttling":
            self._answer(400, *self._throttled())
        elif weather != "cutting":
            answer = self._passed_on(body)
            weather = relay.befall(operation)
            if weather == "holding answers":
                relay.hold()
            elif weather not in ("losing answers", "cutting"):
                self._answer(*answer)

    def _passed_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        target = urlsplit(self.server.relay.endpoint)
        connection = http.client.HTTPConnection(str(target.hostname), target.port, timeout=ANSWER_SECONDS)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        try:
            connection.request("POST", self.path, body, headers)
            answer = connection.getresponse()
            kept = [(n, v) for n, v in answer.getheaders() if n.lower() not in _OF_A_CONNECTION]
            return answer.status, kept, answer.read()
        finally:
            connection.close()

    def _throttled(self) -> tuple[list[tuple[str, str]], bytes]:
        if "X-Amz-Target" in self.headers:
            error = ("x-amzn-query-error", "RequestThrottled;Sender")
            return [("Content-Type", "application/x-amz-json-1.0"), error], THROTTLED_SQS
        return [("Content-Type", "text/xml")], THROTTLED_SNS

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _sender_is_gone(self) -> bool:
        with suppress(BlockingIOError):
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        return False

    def log_message(self, *arguments: object) -> None:
        pass


def _operation(target: str | None, body: bytes) -> str:
    """AWS's name for what is asked for, by either of its protocols."""
    return target.rpartition(".")[2] if target else parse_qs(body.decode())["Action"][0]


_OF_A_CONNECTION = ("connection", "content-length", "transfer-encoding", "keep-alive")


def _bound(port: int) -> socket.socket:
    """A socket that has the port, beside others of ours that have it; who listens gets the connections."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    return made


@contextmanager
def aws_relay(endpoint: str) -> Iterator[AwsRelay]:
    """A relay before ``endpoint``, until the block ends."""
    relay = AwsRelay(endpoint)
    try:
        yield relay
    finally:
        relay.close()
