"""Pollers of an event source mapping, as many as a case wants: AWS has several, and LocalStack has one.

Each is an event source mapping of ``lambda_runtime.local``, between a real queue and a real function.
"""

import json
import threading
from typing import Any

from aws_transport.bindings import SubscriptionBinding
from aws_transport.settlement import SqsAttribute
from lambda_runtime.local import LocalMapping, MappingSettings, Sent
from lambda_runtime.local.queue import Received
from tests.servers.provision import Clients

IDLE_SECONDS = 0.05


class Pollers:
    """Receive batches of a queue and call its function, side by side, from ``start`` to ``stop``."""

    def __init__(self, clients: Clients, binding: SubscriptionBinding, *, batch_size: int, count: int) -> None:
        self.count = count
        self.running = False
        self._ending = threading.Event()
        self._lambda = clients.client("lambda")
        self._arn = binding.function_arn
        self._source = QueueSource(clients.client("sqs"), binding.queue_url)
        self._settings = MappingSettings(batch_size=batch_size)
        self._threads = [threading.Thread(target=self._poll) for _ in range(count)]

    def start(self) -> None:
        """Begin."""
        self.running = True
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End, once the calls that are under way have ended."""
        self._ending.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _poll(self) -> None:
        mapping = LocalMapping(self._source, self._called, self._settings)
        while not self._ending.is_set():
            if mapping.poll() is None:
                self._ending.wait(IDLE_SECONDS)

    def _called(self, event: Any, _: object) -> Any:
        answer = self._lambda.invoke(FunctionName=self._arn, Payload=json.dumps(event).encode())
        text = answer["Payload"].read()
        if "FunctionError" in answer:
            raise RuntimeError(text)
        return json.loads(text)


class QueueSource:
    """A queue of SQS, as a mapping polls it."""

    def __init__(self, sqs: Any, queue_url: str) -> None:
        self._sqs = sqs
        self._url = queue_url

    def receive(self, limit: int) -> list[Received]:
        answer = self._sqs.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=limit,
            WaitTimeSeconds=0,  # else what has come would wait for what may
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return [_received(message) for message in answer.get("Messages", ())]

    def delete(self, receipt: str) -> None:
        self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=receipt)


def _received(message: Any) -> Received:
    system = message["Attributes"]
    sent = Sent(
        id=message["MessageId"],
        body=message["Body"],
        group_id=system.get("MessageGroupId"),
        deduplication_id=system.get("MessageDeduplicationId"),
        attributes={
            name: SqsAttribute(data_type=given["DataType"], value=given.get("StringValue", given.get("BinaryValue")))
            for name, given in message.get("MessageAttributes", {}).items()
        },
    )
    return Received(
        sent=sent,
        receipt=message["ReceiptHandle"],
        receives=int(system["ApproximateReceiveCount"]),
        sent_at=int(system["SentTimestamp"]) / 1000,
        first_received_at=int(system["ApproximateFirstReceiveTimestamp"]) / 1000,
    )
