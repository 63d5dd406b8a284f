"""Sends webhooks. What may pass is tried again, what cannot succeed is set aside for a person."""

import json
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlsplit

from towpath import Complete, Context, FatalError, Message, Outcome, Retry, TransientError

TIMEOUT_SECONDS = 10
CONNECTIONS = {"http": HTTPConnection, "https": HTTPSConnection}
BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


@dataclass(frozen=True)
class Webhook:
    """What to tell whom."""

    url: str
    body: dict[str, Any]


def send(message: Message[Webhook], context: Context) -> Outcome:
    """POST the body to the receiver.

    An attempt whose answer got lost is made again, so every attempt carries the message's id: a receiver that remembers
    it takes the webhook once.
    """
    url = urlsplit(message.payload.url)
    if url.scheme not in CONNECTIONS or not url.hostname:
        raise FatalError("the receiver's address is no http or https URL")
    status, retry_after = post(url, message.payload.body, message.id)
    context.log.info("%s answered %d", url.hostname, status)
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return Complete()
    if status in BUSY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Retry(f"{url.hostname} answered {status}", after=retry_after)
    raise FatalError(f"{url.hostname} refuses it: {status}")


def post(url: SplitResult, body: dict[str, Any], message_id: str) -> tuple[int, float | None]:
    """The answer's status, and in how many seconds the receiver wants to be asked again.

    Raises ``TransientError`` where no answer comes.
    """
    headers = {"Content-Type": "application/json", "Idempotency-Key": message_id}
    try:
        connection = CONNECTIONS[url.scheme](url.netloc, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("POST", url._replace(scheme="", netloc="").geturl() or "/", json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, seconds_to_wait(answer)
        finally:
            connection.close()
    except OSError as error:
        raise TransientError(f"{url.hostname} cannot be reached: {error}") from error


def seconds_to_wait(answer: HTTPResponse) -> float | None:
    """Retry-After where it counts seconds (RFC 9110, section 10.2.3); for its other form the back-off will do."""
    told = answer.headers.get("Retry-After", "")
    return float(told) if told.isascii() and told.isdigit() else None
