"""A stand-in for the few SQS calls that a function makes about its own messages, on a loopback port.

It takes note of what is asked and says yes. It is for rehearsing a bundle on a machine without AWS, no emulator: the
conformance suite runs on LocalStack. The protocol is SQS's JSON one (Amazon SQS developer guide, "Making Query API
requests for Amazon SQS using AWS JSON protocol").
"""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

ENDPOINT: Final = "TOWPATH_AWS_ENDPOINT"  # read by the Lambda runtime, in place of AWS's address
_PREFIX = "AmazonSQS."


@dataclass(slots=True)
class LoopbackSqs:
    """What was asked so far: ``calls`` by action. ``hidden`` maps receipt handles to visibility time-outs in seconds,
    ``sent`` queue URLs to the entries of SendMessageBatch.
    """

    endpoint: str
    calls: Counter[str] = field(default_factory=Counter)
    hidden: dict[str, int] = field(default_factory=dict)
    sent: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a function's own calls to SQS here, with credentials that nothing else accepts."""
        return {
            ENDPOINT: self.endpoint,
            "AWS_ACCESS_KEY_ID": "rehearsal",
            "AWS_SECRET_ACCESS_KEY": "rehearsal",
        }

    def answer(self, action: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Take note of one call; its answer, or ``None`` for an action that a function has no business with."""
        actions: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "ChangeMessageVisibilityBatch": self._hide,
            "SendMessageBatch": self._send,
            "DeleteMessageBatch": _all_done,
        }
        self.calls[action] += 1
        return actions[action](request) if action in actions else None

    def _hide(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.hidden |= {entry["ReceiptHandle"]: entry["VisibilityTimeout"] for entry in request["Entries"]}
        return _all_done(request)

    def _send(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.sent.setdefault(request["QueueUrl"], []).extend(request["Entries"])
        digests = {e["Id"]: hashlib.md5(e["MessageBody"].encode(), usedforsecurity=False) for e in request["Entries"]}
        sent = [
            {"Id": entry_id, "MessageId": str(uuid.uuid4()), "MD5OfMessageBody": digest.hexdigest()}
            for entry_id, digest in digests.items()
        ]
        return {"Successful": sent, "Failed": []}


def _all_done(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]], "Failed": []}


@contextmanager
def loopback_sqs() -> Iterator[LoopbackSqs]:
    """Serve on a free loopback port until the block ends."""
    with _Server() as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield server.sqs
        finally:
            server.shutdown()
            serving.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sqs = LoopbackSqs(endpoint=f"http://127.0.0.1:{self.server_address[1]}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave together
    server: _Server

    def do_POST(self) -> None:
        """Answer one call."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        action = self.headers.get("X-Amz-Target", "").removeprefix(_PREFIX)
        answer = self.server.sqs.answer(action, json.loads(body))
        if answer is None:
            refusal = {"__type": "com.amazonaws.sqs#UnsupportedOperation", "message": f"{action} is not rehearsed"}
            self._reply(400, refusal)
        else:
            self._reply(200, answer)

    def _reply(self, status: int, document: Mapping[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Stay silent."""
