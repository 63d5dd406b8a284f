"""DynamoDB for the tests, which LocalStack has only with Java: moto's, as a process with an endpoint of its own.

It answers one request after another, so that a conditional write is one step, as it is on AWS.
``python -m tests.servers.dynamodb`` prints its endpoint and serves until its standard input ends.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
from botocore import xform_name
from botocore.exceptions import ClientError
from moto import mock_aws

REGION = "eu-west-1"
END_SECONDS = 20


@contextmanager
def private_dynamodb() -> Iterator[str]:
    """The endpoint of a DynamoDB of our own. It ends with this process, however that ends."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.dynamodb"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        endpoint = process.stdout.readline().strip()
        assert endpoint, "DynamoDB for the tests did not start"
        yield endpoint
    finally:
        process.stdin.close()
        process.wait(END_SECONDS)
        process.stdout.close()


class Tables(BaseHTTPRequestHandler):
    """DynamoDB's protocol, JSON 1.0, before moto."""

    client: Any

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        status, answer = self.answered(operation, request)
        body = json.dumps(answer, default=_written).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answered(self, operation: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        try:
            answer = getattr(self.client, xform_name(operation))(**request)
        except ClientError as error:
            told = error.response["Error"]
            refusal = {"__type": f"com.amazonaws.dynamodb.v20120810#{told['Code']}", "message": told["Message"]}
            return 400, refusal | ({"Item": error.response["Item"]} if "Item" in error.response else {})
        return 200, {name: value for name, value in answer.items() if name != "ResponseMetadata"}

    def log_message(self, *arguments: object) -> None:
        pass


def _written(value: object) -> object:
    if isinstance(value, datetime):
        return value.timestamp()
    raise TypeError(f"{value!r} is nothing that a ledger of deduplication keys holds")


def main() -> None:
    with mock_aws():
        handler = type("OwnTables", (Tables,), {"client": boto3.client("dynamodb", region_name=REGION)})
        server = HTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
