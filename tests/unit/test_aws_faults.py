"""What AWS's and boto3's errors mean: every one of botocore's is in one of the two tables."""

import inspect
from typing import Any

import botocore.exceptions
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.faults import entry_error, may_pass, publish_error, translated, was_refused
from towpath.errors import TransportRejected, TransportUnavailable

# Botocore's own errors that waiting may help against; all others are of the caller, the configuration or the machine.
PASSING = {
    "CapacityNotAvailableError",
    "ChecksumError",
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "ConnectionError",
    "CredentialRetrievalError",
    "EndpointConnectionError",
    "HTTPClientError",
    "IncompleteReadError",
    "MetadataRetrievalError",
    "ProxyConnectionError",
    "ReadTimeoutError",
    "ResponseStreamingError",
    "SSLError",
    "TokenRetrievalError",
}
# Of these, those after which nobody knows whether the call was carried out.
UNSURE = {
    "ChecksumError",
    "ConnectionClosedError",
    "HTTPClientError",
    "IncompleteReadError",
    "ReadTimeoutError",
    "ResponseStreamingError",
}
KNOWN = sorted(
    name
    for name, one in vars(botocore.exceptions).items()
    if inspect.isclass(one) and issubclass(one, BotoCoreError) and one is not BotoCoreError
)


def made(name: str) -> BotoCoreError:
    """An error of this class, whatever its text needs."""
    kind = getattr(botocore.exceptions, name)
    error = kind.__new__(kind)
    Exception.__init__(error, name)
    return error


def client_error(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "Anything")


def test_the_table_names_errors_that_there_are() -> None:
    assert set(KNOWN) >= PASSING >= UNSURE


@pytest.mark.parametrize("name", KNOWN)
def test_each_error_of_botocore_is_passing_or_not_and_so_is_what_it_becomes(name: str) -> None:
    error = made(name)
    assert may_pass(error) == (name in PASSING)
    assert was_refused(error) == (name not in UNSURE)
    ours = translated(error, "do it")
    assert isinstance(ours, TransportUnavailable if name in PASSING else TransportRejected)
    assert publish_error(error).retryable == (name in PASSING)


@pytest.mark.parametrize(
    ("code", "status", "passing", "refused"),
    [
        # throttling, in the words of each service
        ("Throttling", 400, True, True),
        ("ThrottlingException", 400, True, True),
        ("ThrottledException", 400, True, True),
        ("Throttled", 429, True, True),
        ("RequestThrottled", 403, True, True),
        ("AWS.SimpleQueueService.RequestThrottled", 403, True, True),
        ("TooManyRequestsException", 429, True, True),
        ("Anything", 429, True, True),
        ("RequestLimitExceeded", 400, True, True),
        ("ProvisionedThroughputExceededException", 400, True, True),
        ("KMSThrottling", 400, True, True),
        ("KMS.ThrottlingException", 400, True, True),
        ("KmsThrottled", 400, True, True),
        ("OverLimit", 403, True, True),
        # AWS's own trouble: nobody knows what it did before
        ("InternalError", 500, True, False),
        ("InternalFailure", 500, True, False),
        ("ServiceUnavailable", 503, True, False),
        ("Anything", 500, True, False),
        ("Anything", 502, True, False),
        ("Anything", 504, True, False),
        # credentials that are renewed
        ("ExpiredToken", 403, True, True),
        ("ExpiredTokenException", 400, True, True),
        ("RequestExpired", 400, True, True),
        # the caller's fault, which waiting does not mend
        ("AccessDenied", 403, False, True),
        ("AccessDeniedException", 400, False, True),
        ("AuthorizationError", 403, False, True),
        ("InvalidClientTokenId", 403, False, True),
        ("SignatureDoesNotMatch", 403, False, True),
        ("UnrecognizedClientException", 400, False, True),
        ("OptInRequired", 403, False, True),
        ("NotFound", 404, False, True),
        ("AWS.SimpleQueueService.NonExistentQueue", 400, False, True),
        ("QueueDoesNotExist", 400, False, True),
        ("ResourceNotFoundException", 400, False, True),
        ("InvalidParameter", 400, False, True),
        ("ParameterValueInvalid", 400, False, True),
        ("InvalidMessageContents", 400, False, True),
        ("InvalidSecurity", 403, False, True),
        ("KMSAccessDenied", 400, False, True),
        ("KMS.AccessDeniedException", 400, False, True),
        ("KMSDisabled", 400, False, True),
        ("EndpointDisabled", 400, False, True),
        ("BatchRequestTooLong", 400, False, True),
        ("", 400, False, True),
    ],
)
def test_an_error_of_aws_is_told_by_its_code_and_by_whose_fault_it_is(
    code: str, status: int, passing: bool, refused: bool
) -> None:
    error = client_error(code, status)
    assert (may_pass(error), was_refused(error)) == (passing, refused)
    assert publish_error(error).code == ("TransportUnavailable" if passing else "TransportRejected")


@pytest.mark.parametrize(
    ("code", "sender_fault", "retryable"),
    [
        ("InternalError", False, True),
        ("Anything", False, True),
        ("ThrottledException", True, True),
        ("KMSThrottling", True, True),
        ("InvalidParameter", True, False),
        ("AuthorizationError", True, False),
        ("AWS.SimpleQueueService.InvalidMessageContents", True, False),
    ],
)
def test_a_failed_entry_is_told_by_its_code_and_side(code: str, sender_fault: bool, retryable: bool) -> None:
    assert entry_error(code, "why", sender_fault=sender_fault).retryable == retryable


def test_an_error_without_a_status_or_a_code_is_the_callers() -> None:
    assert not may_pass(ClientError({}, "Anything"))
    assert isinstance(translated(ClientError({}, "Anything"), "do it"), TransportRejected)
