"""Servers that tests share: each is started when a test first asks for it, and stopped at the end."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NoReturn

import pytest

from tests.servers.localstack import Aws, LocalStackUnavailable, private_localstack


def left_out(what: str, reason: str) -> NoReturn:
    """Skip what needs a server that this machine cannot run; a failure where ``CI=true``."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}: {reason}", pytrace=False)
    pytest.skip(f"{what}: {reason}")


@pytest.fixture(scope="session")
def aws() -> Iterator[Aws]:
    """LocalStack, or what ``TOWPATH_AWS_ENDPOINT`` names; see ``tests/localstack/README.md``."""
    with ExitStack() as stack:
        try:
            endpoint = stack.enter_context(private_localstack())
        except LocalStackUnavailable as error:
            left_out("LocalStack", str(error))
        yield Aws(endpoint=endpoint, region="eu-west-1")
