"""Time for the ledgers of deduplication keys: moved on by shifting what is stored, as ``tests.servers.clock`` does."""

from collections.abc import Iterable
from typing import Any


def age_keys(dynamodb: Any, tables: Iterable[str], seconds: float) -> None:
    """Let ``seconds``, a whole number, pass for every key in these tables."""
    for table in tables:
        for item in dynamodb.scan(TableName=table)["Items"]:
            dynamodb.update_item(
                TableName=table,
                Key={"deduplication_key": item["deduplication_key"]},
                UpdateExpression="SET expires_at = expires_at - :seconds",
                ExpressionAttributeValues={":seconds": {"N": str(int(seconds))}},
            )
