"""The ledger of deduplication keys on DynamoDB: who was first, and for how long that counts.

A publisher reserves a key for two minutes, publishes, and confirms the key for its window. Each step is one conditional
write. Whether a key still counts is told by its ``expires_at`` and the publisher's clock: DynamoDB's TTL deletes late,
up to days (Amazon DynamoDB developer guide, "Using time to live"), so it only clears up.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.batches import DeduplicationClaim
from aws_transport.faults import AwsFault, code_of, explained, may_pass
from towpath.envelope import Sources
from towpath.message import PublishError, PublishResult

RESERVED_SECONDS: Final = 120
_SENDING_SECONDS: Final = 60  # how long a call to SNS takes at most, all of boto3's tries together
_REFUSED: Final = "ConditionalCheckFailedException"
_NAMES: Final = {"#key": "deduplication_key", "#state": "state", "#id": "message_id", "#ends": "expires_at"}
_HELD: Final = {"#token": "token"}


class LedgerClient(Protocol):
    """What is needed of boto3's DynamoDB client."""

    def put_item(self, **request: Any) -> Mapping[str, Any]:
        """Write an item, if the condition holds."""

    def update_item(self, **request: Any) -> Mapping[str, Any]:
        """Change an item, if the condition holds."""

    def delete_item(self, **request: Any) -> Mapping[str, Any]:
        """Remove an item, if the condition holds."""

    def close(self) -> None:
        """Close the idle connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A key that is this publisher's to publish a message for. ``token`` tells it from any other reservation."""

    claim: DeduplicationClaim
    message_id: str
    token: str
    ends_at: datetime

    def holds_for_sending(self, now: datetime) -> bool:
        """Whether it is long enough until somebody else may reserve the key."""
        return self.ends_at - now >= timedelta(seconds=_SENDING_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The keys of one topic, in a table of their own. Keeps no state, so any number of threads may share one."""

    client: LedgerClient
    table: str
    sources: Sources
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("towpath.aws"))

    def reserve(self, claim: DeduplicationClaim, message_id: str) -> Reservation | PublishResult:
        """Reserve a key that counts for nobody; else the answer for the message.

        A ``duplicate`` of a key that is confirmed, whose window it renews when it is a sliding one; a rejection with
        ``DeduplicationPending`` while another publisher has the key reserved.
        """
        now = self.sources.clock()
        reservation = Reservation(
            claim=claim,
            message_id=message_id,
            token=self.sources.random_bytes(16).hex(),
            ends_at=now + timedelta(seconds=RESERVED_SECONDS),
        )
        try:
            self._write_reservation(reservation, now)
        except ClientError as error:
            if code_of(error) != _REFUSED:
                return _rejected(message_id, _unusable(error))
            return self._standing(reservation, _item(error), now)
        except BotoCoreError as error:
            return _rejected(message_id, _unusable(error))
        return reservation

    def confirm(self, reservation: Reservation) -> None:
        """The message is with SNS: its key counts for the window, from now on.

        When that cannot be written the reservation runs out, and a repeat is let through after it: the message was
        taken, so its publisher is told no error.
        """
        change = {
            "UpdateExpression": "SET #state = :confirmed, #ends = :ends REMOVE #token",
            "ConditionExpression": "#token = :token",
            "ExpressionAttributeNames": _only("#state", "#ends") | _HELD,
            "ExpressionAttributeValues": {
                ":confirmed": {"S": "confirmed"},
                ":ends": _seconds(self._window_end(reservation.claim)),
                ":token": {"S": reservation.token},
            },
        }
        self._change(reservation.claim, change, "its deduplication key counts for 2 minutes only")

    def withdraw(self, reservation: Reservation) -> None:
        """SNS did not take the message: the next publisher may have the key at once."""
        request = {
            "TableName": self.table,
            "Key": _key(reservation.claim),
            "ConditionExpression": "#token = :token",
            "ExpressionAttributeNames": _HELD,
            "ExpressionAttributeValues": {":token": {"S": reservation.token}},
        }
        try:
            self.client.delete_item(**request)
        except (BotoCoreError, ClientError) as error:
            self._note(error, "its deduplication key stays reserved for 2 minutes")

    def _write_reservation(self, reservation: Reservation, now: datetime) -> None:
        self.client.put_item(
            TableName=self.table,
            Item=_key(reservation.claim)
            | {
                "state": {"S": "reserved"},
                "message_id": {"S": reservation.message_id},
                "token": {"S": reservation.token},
                "expires_at": _seconds(reservation.ends_at),
            },
            ConditionExpression="attribute_not_exists(#key) OR #ends <= :now",
            ExpressionAttributeNames=_only("#key", "#ends"),
            ExpressionAttributeValues={":now": {"N": str(math.floor(now.timestamp()))}},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )

    def _standing(self, wanted: Reservation, item: Mapping[str, Any], now: datetime) -> Reservation | PublishResult:
        """What stands in the way of a reservation: another one, or a message that won."""
        if _text(item, "token") == wanted.token:  # boto3 asked again, since the first answer did not come
            return wanted
        if _text(item, "state") != "confirmed":
            problem = "another publisher has reserved the deduplication key; try again, for two minutes at most"
            return _rejected(wanted.message_id, PublishError(code="DeduplicationPending", message=problem))
        winner = _text(item, "message_id")
        if wanted.claim.window == "sliding":
            self._renew(wanted.claim, winner, now)
        return PublishResult(id=winner, status="duplicate")

    def _renew(self, claim: DeduplicationClaim, winner: str, now: datetime) -> None:
        """Have the winner's key count for the repeat's window, unless it counts for longer, or for another, by now."""
        condition = "#state = :confirmed AND #id = :winner AND #ends > :now AND #ends < :ends"
        change = {
            "UpdateExpression": "SET #ends = :ends",
            "ConditionExpression": condition,
            "ExpressionAttributeNames": _only("#state", "#id", "#ends"),
            "ExpressionAttributeValues": {
                ":confirmed": {"S": "confirmed"},
                ":winner": {"S": winner},
                ":now": {"N": str(math.floor(now.timestamp()))},
                ":ends": _seconds(self._window_end(claim)),
            },
        }
        self._change(claim, change, "its window is not renewed")

    def _change(self, claim: DeduplicationClaim, change: Mapping[str, Any], otherwise: str) -> None:
        try:
            self.client.update_item(TableName=self.table, Key=_key(claim), **change)
        except (BotoCoreError, ClientError) as error:
            self._note(error, otherwise)

    def _note(self, error: AwsFault, otherwise: str) -> None:
        """Log a change that was not made, but for one that is not to be made any more."""
        if not (isinstance(error, ClientError) and code_of(error) == _REFUSED):
            self.log.warning("the ledger %s could not be written, so %s: %s", self.table, otherwise, explained(error))

    def _window_end(self, claim: DeduplicationClaim) -> datetime:
        return self.sources.clock() + timedelta(seconds=claim.ttl_seconds)


def _key(claim: DeduplicationClaim) -> dict[str, Any]:
    return {"deduplication_key": {"S": claim.key}}


def _only(*names: str) -> dict[str, str]:
    return {name: _NAMES[name] for name in names}


def _seconds(moment: datetime) -> dict[str, str]:
    """Whole seconds since 1970, as DynamoDB's TTL reads them, rounded up: a window is never shorter than was said."""
    return {"N": str(math.ceil(moment.timestamp()))}


def _item(refused: ClientError) -> Mapping[str, Any]:
    """The item that was in the way, which DynamoDB sends along."""
    response: Mapping[str, Any] = refused.response
    item: Mapping[str, Any] = response.get("Item", {})
    return item


def _text(item: Mapping[str, Any], name: str) -> str:
    return str(item.get(name, {}).get("S", ""))


def _unusable(error: AwsFault) -> PublishError:
    problem = f"the ledger of deduplication keys could not be asked: {explained(error)}"
    return PublishError(code="TransportUnavailable" if may_pass(error) else "TransportRejected", message=problem)


def _rejected(message_id: str, error: PublishError) -> PublishResult:
    return PublishResult(id=message_id, status="rejected", error=error)
