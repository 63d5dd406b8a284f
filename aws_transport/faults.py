"""What AWS's refusals mean: whether waiting can help, and what to tell the caller."""

from __future__ import annotations

from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    CapacityNotAvailableError,
    ChecksumError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    MetadataRetrievalError,
    TokenRetrievalError,
)
from botocore.exceptions import ConnectionError as NoConnection

from towpath.errors import TransportRejected, TransportUnavailable
from towpath.message import PublishError

AwsFault = BotoCoreError | ClientError

# Codes that pass although AWS calls them the sender's fault, or answers them with a status below 500: throttling in the
# words of its services, SQS's limit on messages in flight, and credentials that are renewed meanwhile. Sources: the API
# references of Amazon SNS, Amazon SQS and Amazon DynamoDB, "Common Errors" and each action's errors.
_PASSING: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InternalError",
        "InternalFailure",
        "KMSThrottling",
        "KMSThrottlingException",
        "KmsThrottled",
        "OverLimit",
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestExpired",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "ServiceUnavailable",
        "Throttled",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionConflictException",
    }
)

# Was cut off while the answer came, so the request may have been carried out.
_CUT_OFF: Final = (HTTPClientError, IncompleteReadError, ChecksumError)

# Could not connect, timed out, was cut off, or the place that hands out credentials did; or boto3 held the call back.
_PASSING_ERRORS: Final = (
    *_CUT_OFF,
    NoConnection,
    CapacityNotAvailableError,
    CredentialRetrievalError,
    MetadataRetrievalError,
    TokenRetrievalError,
)


def translated(error: AwsFault, doing: str) -> TransportUnavailable | TransportRejected:
    """Our error for boto3's, raised while ``doing`` (an infinitive); to be raised ``from`` it."""
    if may_pass(error):
        return TransportUnavailable(f"AWS could not {doing}: {explained(error)}")
    return TransportRejected(f"AWS refused to {doing}: {explained(error)}")


def may_pass(error: AwsFault) -> bool:
    """Whether the same call can succeed later with nothing changed."""
    if isinstance(error, ClientError):
        status = _status(error)
        return code_of(error) in _PASSING or status >= 500 or status == 429
    return isinstance(error, _PASSING_ERRORS)


def was_refused(error: AwsFault) -> bool:
    """Whether it is certain that the call changed nothing: it never left, or AWS said no. Otherwise nobody knows."""
    if isinstance(error, ClientError):
        return _status(error) < 500
    return not isinstance(error, _CUT_OFF)


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def code_of(error: ClientError) -> str:
    """AWS's code, without the name space that SQS's older protocol puts before it."""
    return bare(error.response.get("Error", {}).get("Code", ""))


def bare(code: str) -> str:
    """``AWS.SimpleQueueService.NonExistentQueue`` without its name space."""
    return code.rpartition(".")[2]


def explained(error: AwsFault) -> str:
    """Code and text for a person. boto3's own errors say it in their text."""
    if isinstance(error, ClientError):
        return f"{code_of(error)}: {error.response.get('Error', {}).get('Message', '')}"
    return str(error)


def publish_error(error: AwsFault) -> PublishError:
    """The rejection of every message of a call that failed as a whole."""
    return _publish_error(explained(error), passing=may_pass(error))


def entry_error(code: str, message: str, *, sender_fault: bool) -> PublishError:
    """The rejection of one entry that failed inside an HTTP 200 answer (Amazon SNS API reference, PublishBatch)."""
    return _publish_error(f"{bare(code)}: {message}", passing=not sender_fault or bare(code) in _PASSING)


def _publish_error(explanation: str, *, passing: bool) -> PublishError:
    if passing:
        return PublishError(code="TransportUnavailable", message=f"SNS could not take the message: {explanation}")
    return PublishError(code="TransportRejected", message=f"SNS refused the message: {explanation}")
