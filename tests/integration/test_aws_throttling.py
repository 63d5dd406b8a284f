"""Publishing to a service that throttles, through boto3's real retries: how many requests it gets."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from aws_transport.bindings import Bindings, TopicBinding
from aws_transport.transport import AwsTransport
from towpath import NewMessage, connect
from towpath.resolve import resolve
from towpath.topology import parse_topology

ERROR = b"""<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error>
<RequestId>r</RequestId></ErrorResponse>"""
MANIFEST = resolve(parse_topology({"name": "throttled", "topics": {"letters": {}, "steps": {"fifo": True}}}), "unit")
BINDINGS = Bindings(
    topics={
        "letters": TopicBinding(arn="arn:aws:sns:eu-west-1:1:letters", fifo=False),
        "steps": TopicBinding(arn="arn:aws:sns:eu-west-1:1:steps.fifo", fifo=True),
    },
    subscriptions={},
)


class Throttling(BaseHTTPRequestHandler):
    """Refuses everything, and keeps each request's path."""

    came: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.came.append(self.path)
        self.send_response(400)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(ERROR)))
        self.end_headers()
        self.wfile.write(ERROR)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def throttling_service() -> Iterator[tuple[str, list[str]]]:
    came: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Service", (Throttling,), {"came": came}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", came
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("topic", ["letters", "steps"])
def test_a_service_that_throttles_gets_few_requests_and_every_message_is_retryable(
    topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bindings.json").write_text(BINDINGS.to_json())
    with throttling_service() as (endpoint, came):
        for name, value in {
            "TOWPATH_AWS_ENDPOINT": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_MAX_ATTEMPTS", raising=False)
        opened = connect("aws://eu-west-1", MANIFEST, bindings=tmp_path / "bindings.json")
        assert isinstance(opened, AwsTransport)
        with opened as transport:
            results = transport.publish(topic, [NewMessage(payload=n) for n in range(1_000)])
    assert {result.error.code for result in results} == {"TransportUnavailable"}
    assert len(results) == 1_000
    # a hundred batches: three failures end it, with seven more on their way at most, each asked for three times
    assert 3 * 3 <= len(came) <= (3 + 7) * 3
