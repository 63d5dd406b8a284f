"""SQS and Lambda's event source mapping in this process, for tests of handlers and of Lambda functions.

``LocalFunction`` is a handler with all of it around; ``LocalMapping`` calls any Lambda function for the messages of a
``LocalQueue`` or of a consumer. AWS's rules hold: receive counts, visibility, message groups, redrive, partial batch
responses.
"""

from lambda_runtime.local.consumers import ConsumerSource
from lambda_runtime.local.function import FunctionEnded, LocalFunction
from lambda_runtime.local.mapping import Invocation, LocalMapping, MappingSettings
from lambda_runtime.local.queue import LocalQueue, Sent
from lambda_runtime.local.response import Verdict, verdict
from towpath.testing import LocalClock

__all__ = [
    "ConsumerSource",
    "FunctionEnded",
    "Invocation",
    "LocalClock",
    "LocalFunction",
    "LocalMapping",
    "LocalQueue",
    "MappingSettings",
    "Sent",
    "Verdict",
    "verdict",
]
