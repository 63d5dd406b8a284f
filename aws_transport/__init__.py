"""The AWS transport: publishing through SNS, consuming from SQS. Importing this package loads no boto3."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from towpath.ports import Transport
    from towpath.transports import Options


def open_transport(url: str, options: Options) -> Transport:
    """What the entry point ``aws`` of ``towpath.transports`` names; see ``aws_transport.transport``."""
    from aws_transport.transport import open_transport as opened

    return opened(url, options)
