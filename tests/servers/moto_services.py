"""KMS and DynamoDB for what deploys to LocalStack: moto answers for the two services that our LocalStack cannot run.

LocalStack's DynamoDB is a Java program, and its KMS makes no key on every Python.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moto.core.request import Request
from moto.dynamodb.responses import DynamoHandler
from moto.kms.responses import KmsResponse
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Response

ANSWERING = {"TrentService": KmsResponse, "DynamoDB_20120810": DynamoHandler}  # as the header X-Amz-Target calls them


@contextmanager
def moto_services() -> Iterator[str]:
    """The endpoint of both services, on a free loopback port until the end."""
    server = make_server("127.0.0.1", 0, _answer, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, name="moto", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - werkzeug's name
        pass


def _answer(environ: dict[str, Any], start_response: Any) -> Any:
    request = Request(environ)
    service = request.headers.get("X-Amz-Target", "").partition(".")[0]
    status, headers, body = ANSWERING[service].dispatch(request, request.url, request.headers)
    told = {name: str(value) for name, value in headers.items() if name != "status"}
    return Response(body, status=headers.get("status", status), headers=told)(environ, start_response)
