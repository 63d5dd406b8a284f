"""boto3's SQS client as a function has it: of its own role and region, and not before it is needed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


class ClientOnFirstUse:
    """Gives the same SQS client at every call; boto3 is imported and the client made at the first. Thread-safe.

    Credentials and region are boto3's own choice; ``endpoint`` replaces AWS's address when it is given.
    """

    def __init__(self, endpoint: str | None, *, connections: int) -> None:
        self._endpoint = endpoint
        self._connections = connections
        self._lock = threading.Lock()
        self._client: SQSClient | None = None

    def __call__(self) -> SQSClient:
        """The client. Raises what boto3 raises when it has no region."""
        with self._lock:  # boto3's default session must not be made by two threads at once
            if self._client is None:
                self._client = self._made()
            return self._client

    def _made(self) -> SQSClient:
        import boto3
        from botocore.config import Config

        config = Config(
            retries={"mode": "standard", "total_max_attempts": 3},
            connect_timeout=2,
            read_timeout=10,
            max_pool_connections=self._connections,
        )
        return boto3.client("sqs", endpoint_url=self._endpoint, config=config)
