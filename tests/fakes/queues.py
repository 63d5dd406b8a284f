"""SQS queues in memory, as the API reference describes them. They can be told to fail.

Time stands still: what is hidden stays so until its visibility is set to 0.
"""

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

NUMBERS = itertools.count(1)


@dataclass
class Stored:
    """A message in a queue."""

    body: str
    id: str
    attributes: dict[str, Any] = field(default_factory=dict)
    group: str | None = None
    sent_ms: int = 1_767_312_000_000
    source: str | None = None
    receives: int = 0
    handle: str | None = None  # of whoever holds it

    def shown(self) -> dict[str, Any]:
        system = {"SentTimestamp": str(self.sent_ms), "ApproximateReceiveCount": str(self.receives)}
        system |= {"MessageGroupId": self.group} if self.group else {}
        system |= {"DeadLetterQueueSourceArn": self.source} if self.source else {}
        message = {"MessageId": self.id, "ReceiptHandle": self.handle, "Body": self.body, "Attributes": system}
        return message | ({"MessageAttributes": self.attributes} if self.attributes else {})


class FakeQueues:
    """An SQS client. ``refuse[(call, queue)]`` holds errors to raise, or predicates on entries that fail, in turn."""

    def __init__(self) -> None:
        self.queues: dict[str, list[Stored]] = defaultdict(list)
        self.sent: list[dict[str, Any]] = []
        self.refuse: dict[tuple[str, str], list[Any]] = {}
        self.batches: dict[str, list[int]] = defaultdict(list)
        self._swallowed: dict[str, set[str]] = defaultdict(set)

    def put(self, url: str, body: str, **more: Any) -> Stored:
        stored = Stored(body=body, id=more.pop("id", f"id-{next(NUMBERS)}"), **more)
        self.queues[url].append(stored)
        return stored

    def bodies(self, url: str) -> list[str]:
        return [stored.body for stored in self.queues[url]]

    def hidden(self, url: str) -> list[str]:
        return [stored.body for stored in self.queues[url] if stored.handle is not None]

    # What boto3's client has

    def receive_message(self, **request: Any) -> dict[str, Any]:
        self._fail("receive", request["QueueUrl"])
        url, found = request["QueueUrl"], []
        locked = {s.group for s in self.queues[url] if s.handle is not None and url.endswith(".fifo")} - {None}
        for stored in self.queues[url]:
            if stored.handle is None and stored.group not in locked and len(found) < request["MaxNumberOfMessages"]:
                stored.handle, stored.receives = f"handle-{next(NUMBERS)}", stored.receives + 1
                found.append(stored.shown())
        return {"Messages": found} if found else {}

    def delete_message_batch(self, **request: Any) -> dict[str, Any]:
        def delete(entry: dict[str, Any]) -> None:
            self.queues[request["QueueUrl"]].remove(self._held(request["QueueUrl"], entry))

        return self._each("delete", request, delete)

    def change_message_visibility_batch(self, **request: Any) -> dict[str, Any]:
        def change(entry: dict[str, Any]) -> None:
            if entry["VisibilityTimeout"] == 0:
                self._held(request["QueueUrl"], entry).handle = None

        return self._each("hide", request, change)

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        url = request["QueueUrl"]
        groups = [entry.get("MessageGroupId") for entry in request["Entries"]]
        assert len(set(groups)) == len(groups) or not url.endswith(".fifo")

        def send(entry: dict[str, Any]) -> None:
            assert ("MessageDeduplicationId" in entry) == url.endswith(".fifo")
            assert "MessageGroupId" in entry or not url.endswith(".fifo")
            self.sent.append(entry)
            once = entry.get("MessageDeduplicationId")
            if once in self._swallowed[url]:
                return
            self._swallowed[url] |= {once} if once else set()
            self.put(
                url, entry["MessageBody"], attributes=entry["MessageAttributes"], group=entry.get("MessageGroupId")
            )

        return self._each("send", request, send)

    def get_queue_attributes(self, **request: Any) -> dict[str, Any]:
        stored = self.queues[request["QueueUrl"]]
        held = sum(one.handle is not None for one in stored)
        return {
            "Attributes": {
                "ApproximateNumberOfMessages": str(len(stored) - held),
                "ApproximateNumberOfMessagesDelayed": "0",
                "ApproximateNumberOfMessagesNotVisible": str(held),
            }
        }

    def _held(self, url: str, entry: dict[str, Any]) -> Stored:
        return next(stored for stored in self.queues[url] if stored.handle == entry["ReceiptHandle"])

    def _each(self, call: str, request: Any, do: Any) -> dict[str, Any]:
        entries = request["Entries"]
        assert 1 <= len(entries) <= 10
        self.batches[call].append(len(entries))
        fails = self._fail(call, request["QueueUrl"]) or (lambda entry: False)
        answer: dict[str, Any] = {"Successful": [], "Failed": []}
        for entry in entries:
            if fails(entry):
                answer["Failed"].append(
                    {"Id": entry["Id"], "Code": "InternalError", "Message": "oops", "SenderFault": False}
                )
            else:
                do(entry)
                answer["Successful"].append({"Id": entry["Id"]})
        return answer

    def _fail(self, call: str, url: str) -> Any:
        planned = self.refuse.get((call, url), [])
        fault = planned.pop(0) if planned else None
        if isinstance(fault, Exception):
            raise fault
        return fault
