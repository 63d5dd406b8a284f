"""The boto3 clients of a transport, made once. Importing this module loads boto3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, DeferredRefreshableCredentials
from botocore.exceptions import BotoCoreError, ProfileNotFound

from towpath.errors import InvalidTransportUrl

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient

    from aws_transport.address import Address
    from aws_transport.ledger import LedgerClient

ENDPOINT_VARIABLE = "TOWPATH_AWS_ENDPOINT"
_CONNECTIONS = 50  # threads of a worker that call at once: its lease keeper, settler and publishing handlers
_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 10  # of SNS and DynamoDB: three tries with a reservation of a deduplication key end before it does
_POLL_ANSWER_SECONDS = 30  # of SQS, whose long polls take 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """The services that messages travel through. boto3's clients may be used from several threads.

    ``ledger`` is DynamoDB's, there where a topic has a ledger of deduplication keys.
    """

    sns: SNSClient
    sqs: SQSClient
    ledger: LedgerClient | None = None

    def close(self) -> None:
        """Close the idle connections."""
        self.sns.close()
        self.sqs.close()
        if self.ledger is not None:
            self.ledger.close()


def make_clients(address: Address, endpoint: str | None, *, with_ledger: bool) -> Clients:
    """Clients for ``address`` at ``endpoint`` (``None`` leaves that to boto3's own settings).

    boto3 tries again by itself in mode ``standard``: three times in all, after longer and longer pauses with jitter,
    and less the more calls fail (AWS SDKs and tools reference guide, "Retry behavior").

    No call is made: rights are looked at by the first one. Raises ``InvalidTransportUrl`` for a profile that is not
    in the AWS configuration, and for an endpoint that is no URL.
    """
    config, polls = _config(_ANSWER_SECONDS), _config(_POLL_ANSWER_SECONDS)
    with _making(address):
        session = _session(address, endpoint)
        return Clients(
            sns=session.client("sns", endpoint_url=endpoint, config=config),
            sqs=session.client("sqs", endpoint_url=endpoint, config=polls),
            ledger=session.client("dynamodb", endpoint_url=endpoint, config=config) if with_ledger else None,
        )


def client_maker(address: Address, endpoint: str | None) -> Callable[[str], Any]:
    """Makes clients of any service, by boto3's name of it, as ``make_clients`` does for those of messages.

    Raises ``InvalidTransportUrl``, here and when a client is made.
    """
    with _making(address):
        untyped: Any = _session(address, endpoint)  # its stubs know the services' names one by one

    def make(service: str) -> Any:
        with _making(address):
            return untyped.client(service, endpoint_url=endpoint, config=_config(_ANSWER_SECONDS))

    return make


@contextmanager
def _making(address: Address) -> Iterator[None]:
    try:
        yield
    except ProfileNotFound as error:
        raise InvalidTransportUrl(f"the AWS configuration has no profile {address.profile!r}") from error
    except ValueError as error:
        problem = f"{ENDPOINT_VARIABLE}, or boto3's own setting of it, is no URL like http://127.0.0.1:4566: {error}"
        raise InvalidTransportUrl(problem) from error
    except BotoCoreError as error:
        raise InvalidTransportUrl(f"no AWS clients can be made for {address.region}: {error}") from error


def _config(answer_seconds: int) -> Config:
    return Config(
        retries={"mode": "standard"},
        max_pool_connections=_CONNECTIONS,
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=answer_seconds,
    )


def _session(address: Address, endpoint: str | None) -> boto3.Session:
    source = boto3.Session(profile_name=address.profile, region_name=address.region)
    if address.role_arn is None:
        return source
    request = {"RoleArn": address.role_arn, "RoleSessionName": "towpath"}
    if address.external_id is not None:
        request["ExternalId"] = address.external_id
    assumed = _AssumedRole(source.client("sts", endpoint_url=endpoint).assume_role, request)
    inner = botocore.session.get_session()
    inner.register_component("credential_provider", CredentialResolver([assumed]))
    return boto3.Session(botocore_session=inner, region_name=address.region)


class _AssumedRole(CredentialProvider):
    """Credentials of a role, assumed at the first call and again before they expire."""

    METHOD = "assume-role"
    CANONICAL_NAME = "custom-towpath-role"

    def __init__(self, assume_role: Callable[..., Mapping[str, Any]], request: Mapping[str, str]) -> None:
        super().__init__()
        self._assume_role = assume_role
        self._request = request

    def load(self) -> DeferredRefreshableCredentials:
        return DeferredRefreshableCredentials(refresh_using=self._assume, method=self.METHOD)

    def _assume(self) -> dict[str, Any]:
        credentials = self._assume_role(**self._request)["Credentials"]
        return {
            "access_key": credentials["AccessKeyId"],
            "secret_key": credentials["SecretAccessKey"],
            "token": credentials["SessionToken"],
            "expiry_time": credentials["Expiration"].isoformat(),
        }
