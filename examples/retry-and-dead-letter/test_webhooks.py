"""Each answer of a receiver and what becomes of the webhook; and the whole way of one that is busy at first."""

import json
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from towpath import NewMessage


@dataclass
class Receiver:
    """Gives its answers one after another, and remembers what it was sent: ids and bodies."""

    url: str
    answers: deque[tuple[int, dict[str, str]]] = field(default_factory=deque)
    received: list[tuple[str | None, object]] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known.received.append((self.headers["Idempotency-Key"], body))
            status, headers = known.answers.popleft()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        known = Receiver(url=f"http://127.0.0.1:{server.server_port}/hook?from=shop")
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield known
        server.shutdown()
        serving.join()


@pytest.mark.parametrize(
    ("answer", "state", "reason", "delay"),
    [
        ((204, {}), "completed", "", None),
        ((429, {"Retry-After": "120"}), "retried", "Retry: 127.0.0.1 answered 429", timedelta(minutes=2)),
        ((503, {}), "retried", "Retry: 127.0.0.1 answered 503", timedelta(seconds=10)),
        ((503, {"Retry-After": "Fri, 31 Jan 2031 08:15:00 GMT"}), "retried", "Retry: 127.0.0.1 answered 503", None),
        ((410, {}), "dead", "127.0.0.1 refuses it: 410", None),
    ],
)
def test_an_answer_decides(towpath_deliver, receiver, answer, state, reason, delay):
    receiver.answers.append(answer)
    delivered = towpath_deliver("webhook.send", {"url": receiver.url, "body": {"order": 7}})
    assert (delivered.state, delivered.reason) == (state, reason)
    assert delay is None or delivered.delay == delay


def test_a_receiver_that_is_away_is_tried_again(towpath_deliver):
    delivered = towpath_deliver("webhook.send", {"url": "http://127.0.0.1:9/hook", "body": {}})
    assert delivered.state == "retried"
    assert delivered.reason.startswith("TransientError: 127.0.0.1 cannot be reached")


@pytest.mark.parametrize("url", ["ftp://example.org/hook", "https:///hook", "hook"])
def test_an_address_that_cannot_be_meant_is_set_aside_at_once(towpath_deliver, url):
    assert towpath_deliver("webhook.send", {"url": url, "body": {}}).state == "dead"


def test_a_busy_receiver_gets_it_when_it_said_and_can_know_it_again(towpath_transport, towpath_work, receiver):
    receiver.answers.extend([(503, {"Retry-After": "60"}), (200, {})])
    (result,) = towpath_transport.publish(
        "webhook.requested", [NewMessage(payload={"url": receiver.url, "body": {"order": 7}})]
    )
    assert towpath_work().states == {"retried": 1}
    towpath_work.advance(60)
    assert towpath_work().states == {"completed": 1}
    assert receiver.received == [(result.id, {"order": 7})] * 2


def test_a_receiver_that_stays_away_leaves_a_dead_letter_after_five_attempts(towpath_transport, towpath_work, receiver):
    receiver.answers.extend([(500, {})] * 5)
    towpath_transport.publish("webhook.requested", [NewMessage(payload={"url": receiver.url, "body": {}})])
    for _ in range(4):
        assert towpath_work().states == {"retried": 1}
        towpath_work.advance(900)
    (letter,) = towpath_work().dead_letters
    assert (letter.reason, letter.attempts) == ("MaxAttemptsExceeded", 5)
    assert letter.error.startswith("Retry: 127.0.0.1 answered 500")
