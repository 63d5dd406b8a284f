"""An SQS client that answers as the API reference says, and remembers what it was asked."""


class FakeSqs:
    """Records every call; ``refuse`` maps a receipt handle or body to the failed entry's code and message."""

    def __init__(self, refuse=None, error=None, deaf=()):
        self.calls = []
        self.refuse = refuse or {}
        self.error = error
        self.deaf = deaf

    def _answer(self, name, queue_url, entries, key):
        self.calls.append((name, queue_url, entries))
        if self.error is not None:
            raise self.error
        ids = [entry["Id"] for entry in entries]
        assert 1 <= len(ids) == len(set(ids)) <= 10
        failed = [
            {"Id": e["Id"], "Code": self.refuse[e[key]][0], "Message": self.refuse[e[key]][1], "SenderFault": True}
            for e in entries
            if e[key] in self.refuse
        ]
        done = [{"Id": e["Id"]} for e in entries if e[key] not in self.refuse and e[key] not in self.deaf]
        return {"Successful": done} | ({"Failed": failed} if failed else {})

    def delete_message_batch(self, *, QueueUrl, Entries):  # noqa: N803 - boto3's names
        return self._answer("delete", QueueUrl, Entries, "ReceiptHandle")

    def change_message_visibility_batch(self, *, QueueUrl, Entries):  # noqa: N803 - boto3's names
        return self._answer("hide", QueueUrl, Entries, "ReceiptHandle")

    def send_message_batch(self, *, QueueUrl, Entries):  # noqa: N803 - boto3's names
        return self._answer("send", QueueUrl, Entries, "MessageBody")
