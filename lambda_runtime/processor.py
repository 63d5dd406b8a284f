"""Powertools' batch processor, with the records of a batch handled together instead of one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aws_lambda_powertools.utilities.batch import BasePartialBatchProcessor, EventType
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_runtime.records import record_id

HandleRecords = Callable[[Sequence[Any]], set[int]]


class NotDone(Exception):
    """A record goes back to its queue; the log says why."""


class SqsProcessor(BasePartialBatchProcessor):
    """Powertools' processor around a handler of all records at once, which answers the positions of those done.

    ``response()`` has the id of every other record, once, in the order of the event, and never one that is empty:
    Lambda takes an empty or unknown id for a failure of the whole batch. One object serves one invocation.
    """

    success_messages: list[Any]

    def __init__(self) -> None:
        super().__init__(EventType.SQS, raise_on_entire_batch_failure=False)

    def _prepare(self) -> None:
        """A new object has no results of another invocation to remove."""

    def process(self) -> list[tuple[Any, ...]]:
        """Handle the records; Powertools' entries ("success" or "fail", detail, record) in the order of the event."""
        done = self.handler(self.records)
        reported: set[str] = set()
        entries: list[tuple[Any, ...]] = []
        for position, record in enumerate(self.records):
            if position in done:
                entries.append(("success", None, record))
                self.success_messages.append(record)  # as success_handler does
                continue
            found = record_id(record)
            if found is not None and found not in reported:
                reported.add(found)
                failure = NotDone(found)
                entries.append(self.failure_handler(SQSRecord(record), (NotDone, failure, failure.__traceback__)))
        return entries

    def _process_record(self, record: dict[str, Any]) -> tuple[Any, ...]:
        raise NotImplementedError("records are handled together, by process()")

    async def _async_process_record(self, record: dict[str, Any]) -> tuple[Any, ...]:
        raise NotImplementedError("records are handled together, by process()")
