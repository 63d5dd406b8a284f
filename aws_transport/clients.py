"""The boto3 clients of a transport, made once. Importing this module loads boto3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

ENDPOINT_VARIABLE = "TOWPATH_AWS_ENDPOINT"
_CONNECTIONS = 50  # threads of a worker that call at once: its lease keeper, settler and publishing handlers


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """The two services that messages travel through. boto3's clients may be used from several threads."""

    sns: SNSClient
    sqs: SQSClient

    def close(self) -> None:
        """Close the idle connections."""
        self.sns.close()
        self.sqs.close()


def make_clients(address: Address, endpoint: str | None) -> Clients:
    """Clients for ``address`` at ``endpoint`` (``None`` leaves that to boto3's own settings).

    No call is made: rights are looked at by the first one. Raises ``InvalidTransportUrl`` for a profile that is not
    in the AWS configuration, and for an endpoint that is no URL.
    """
    config = Config(retries={"mode": "standard"}, max_pool_connections=_CONNECTIONS)
    try:
        session = _session(address, endpoint)
        return Clients(
            sns=session.client("sns", endpoint_url=endpoint, config=config),
            sqs=session.client("sqs", endpoint_url=endpoint, config=config),
        )
    except ProfileNotFound as error:
        raise InvalidTransportUrl(f"the AWS configuration has no profile {address.profile!r}") from error
    except ValueError as error:
        problem = f"{ENDPOINT_VARIABLE}, or boto3's own setting of it, is no URL like http://127.0.0.1:4566: {error}"
        raise InvalidTransportUrl(problem) from error
    except BotoCoreError as error:
        raise InvalidTransportUrl(f"no AWS clients can be made for {address.region}: {error}") from error


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
