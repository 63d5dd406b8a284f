"""What a cold start loads, and how it fails: each case in a process of its own, as Lambda has it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lambda_runtime.environment import read_environment
from tests.fakes.lambdas import DEAD, EVENTS, QUEUE, record
from towpath.errors import InvalidEnvironment

ROOT = Path(__file__).parents[2]
# Powertools itself loads the bare package botocore, whose weight is in its modules.
HEAVY = ("pydantic", "boto3", "botocore.session", "botocore.client", "sqlalchemy", "tomllib", "typer", "aws_cdk")
SETTINGS = {
    "policy": {
        "subscription": "documents.convert",
        "topic": "documents.process",
        "handler": "app.documents:process",
        "partition_mode": "none",
        "status": "active",
        "max_attempts": 5,
        "backoff": {"base_seconds": 10, "max_seconds": 900},
        "lease_seconds": 60,
        "heartbeat": "auto",
        "max_processing_seconds": None,
        "accept_foreign": True,
    },
    "fifo": False,
    "concurrency": 10,
    "timeout_seconds": 60,
}
VARIABLES = {
    "TOWPATH_SUBSCRIPTION": json.dumps(SETTINGS),
    "TOWPATH_QUEUE_URL": QUEUE,
    "TOWPATH_DEAD_LETTER_QUEUE_URL": DEAD,
}
RECORD = record(1, "1")
HANDLER = """
from towpath import Context, Message, Retry

def process(message: Message, context: Context):
    context.log.info("handling", extra={"page": 1})
    return Retry("not yet") if message.payload == "retry" else None
"""


def run(program, folder, **variables):
    """Run ``program`` in a fresh process in which ``app.documents`` can be imported."""
    (folder / "app").mkdir()
    (folder / "app" / "documents.py").write_text(HANDLER, encoding="utf-8")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    path = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=kept | VARIABLES | {"PYTHONPATH": path, "AWS_DEFAULT_REGION": "eu-west-1"} | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def loaded(program, folder):
    done = run(f"{program}\nimport sys\nprint([m for m in {HEAVY!r} if m in sys.modules])", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def last_line(done):
    return done.stderr.strip().splitlines()[-1]


def test_importing_the_runtime_loads_nothing_heavy(tmp_path):
    assert loaded("import lambda_runtime", tmp_path) == "[]"


def test_a_batch_that_completes_loads_nothing_heavy_either(tmp_path):
    program = (
        "import json\nfrom lambda_runtime.entry import handler\n"
        f"event = json.load(open({str(EVENTS / 'sqs_standard.json')!r}, encoding='utf-8'))\n"
        "assert handler(event, None) == {'batchItemFailures': []}"
    )
    assert loaded(program, tmp_path) == "[]"


def test_the_first_retry_loads_boto3_and_reaches_for_the_endpoint_of_the_environment(tmp_path):
    program = (
        "from lambda_runtime import sqs_handler\nhandler = sqs_handler('app.documents:process')\n"
        f"print(handler({{'Records': [{record(1, 'retry')}]}}, None))"
    )
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_MAX_ATTEMPTS": "1"}
    done = run(program, tmp_path, TOWPATH_AWS_ENDPOINT="http://127.0.0.1:9", **keys)
    lines = done.stdout.splitlines()
    assert lines[-1] == "{'batchItemFailures': [{'itemIdentifier': 'message-1'}]}"
    handled, settled, metrics = (json.loads(line) for line in lines[:-1])
    assert (handled["message"], handled["delivery_id"]) == ("handling", "message-1")
    assert (settled["level"], settled["state"], settled["reason"]) == ("ERROR", "failed", "Retry: not yet")
    assert "http://127.0.0.1:9" in settled["message"]
    assert (metrics["Processed"], metrics["Failed"], metrics["Retried"]) == ([1.0], [1.0], [0.0])


def test_each_line_has_its_own_deliverys_ids_and_its_own_requests(tmp_path):
    program = (
        "from lambda_runtime import sqs_handler\nhandler = sqs_handler('app.documents:process')\n"
        "class Context:\n    def __init__(self, request): self.aws_request_id = request\n"
        "    def get_remaining_time_in_millis(self): return 50_000\n"
        f"records = {[record(n, n) for n in range(3)]}\n"
        "handler({'Records': records[:2]}, Context('first'))\nhandler({'Records': records[2:]}, Context('second'))\n"
        "handler({'Records': records[2:]}, None)"
    )
    done = run(program, tmp_path, POWERTOOLS_METRICS_DISABLED="true")
    lines = [json.loads(line) for line in done.stdout.splitlines()]  # the first two in any order: two threads
    lines[:2] = sorted(lines[:2], key=lambda line: line["delivery_id"])
    assert [(line["delivery_id"], line.get("function_request_id"), line["page"]) for line in lines] == [
        ("message-0", "first", 1),
        ("message-1", "first", 1),
        ("message-2", "second", 1),
        ("message-2", None, 1),
    ]


def test_a_persistence_layer_given_to_sqs_handler_has_a_completed_message_not_run_again(tmp_path):
    program = (
        "import boto3\nfrom moto import mock_aws\n"
        "from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer\n"
        "from lambda_runtime import sqs_handler\n"
        "class Context:\n    aws_request_id = 'first'\n"
        "    def get_remaining_time_in_millis(self): return 50_000\n"
        "with mock_aws():\n"
        "    boto3.client('dynamodb').create_table(TableName='done', BillingMode='PAY_PER_REQUEST',\n"
        "        KeySchema=[{'AttributeName': 'id', 'KeyType': 'HASH'}],\n"
        "        AttributeDefinitions=[{'AttributeName': 'id', 'AttributeType': 'S'}])\n"
        "    layer = DynamoDBPersistenceLayer(table_name='done')\n"
        "    handler = sqs_handler('app.documents:process', idempotency=layer)\n"
        f"    for _ in range(2): print(handler({{'Records': [{RECORD}]}}, Context()))\n"
    )
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    done = run(program, tmp_path, POWERTOOLS_METRICS_DISABLED="true", **keys)
    handled, *answers = done.stdout.splitlines()
    assert json.loads(handled)["message"] == "handling"
    assert answers == ["{'batchItemFailures': []}"] * 2


def test_log_lines_are_not_doubled_by_a_handler_of_the_root_logger(tmp_path):
    program = (
        "import logging\nlogging.basicConfig(level='INFO', stream=__import__('sys').stdout)\n"
        "from lambda_runtime import sqs_handler\nhandler = sqs_handler('app.documents:process')\n"
        f"record = {RECORD}\n"
        "handler({'Records': [record]}, None)"
    )
    done = run(program, tmp_path, POWERTOOLS_METRICS_DISABLED="true")
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["subscription"] == "documents.convert"


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({"TOWPATH_SUBSCRIPTION": ""}, "TOWPATH_SUBSCRIPTION is missing"),
        ({"TOWPATH_SUBSCRIPTION": "{"}, "TOWPATH_SUBSCRIPTION: is not JSON"),
        ({"TOWPATH_SUBSCRIPTION": "{}"}, "policy: is missing, fifo: is missing"),
        ({"TOWPATH_QUEUE_URL": ""}, "TOWPATH_QUEUE_URL is missing"),
        ({"TOWPATH_DEAD_LETTER_QUEUE_URL": ""}, "TOWPATH_DEAD_LETTER_QUEUE_URL is missing"),
    ],
)
def test_a_wrong_environment_fails_the_cold_start_with_one_line_that_says_what_to_do(tmp_path, variables, complaint):
    done = run("import lambda_runtime.entry", tmp_path, **variables)
    assert done.returncode == 1
    line = last_line(done)
    assert line.startswith("towpath.errors.InvalidEnvironment: the function cannot start, ")
    assert complaint in line
    assert line.endswith("deploy it from its manifest, which sets these variables")


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("app.missing:process", "there is no module 'app.missing' on the import path"),
        ("app.documents:missing", "'app.documents' has no 'missing'"),
        ("app.documents", "must have the form 'package.module:function'"),
    ],
)
def test_a_handler_that_does_not_resolve_fails_the_cold_start_with_one_line(tmp_path, path, complaint):
    settings = SETTINGS | {"policy": SETTINGS["policy"] | {"handler": path}}
    own = run("import lambda_runtime.entry", tmp_path, TOWPATH_SUBSCRIPTION=json.dumps(settings))
    assert own.returncode == 1
    assert last_line(own) == f"towpath.errors.HandlerNotFound: handler {path!r}: {complaint}"


def test_a_subscription_that_names_no_handler_fails_the_cold_start_of_the_general_entry_point(tmp_path):
    settings = SETTINGS | {"policy": SETTINGS["policy"] | {"handler": None}}
    done = run("import lambda_runtime.entry", tmp_path, TOWPATH_SUBSCRIPTION=json.dumps(settings))
    assert done.returncode == 1
    assert "policy.handler names no handler" in last_line(done)


def test_publishing_without_a_publisher_says_how_to_get_one(tmp_path):
    program = (
        "from lambda_runtime import sqs_handler\nfrom towpath import NewMessage\n"
        "def process(message, context):\n"
        "    try:\n        context.publish('documents.done', NewMessage())\n"
        "    except Exception as error:\n        print(type(error).__name__, error)\n"
        f"record = {RECORD}\n"
        "sqs_handler(process)({'Records': [record]}, None)"
    )
    assert run(program, tmp_path, POWERTOOLS_METRICS_DISABLED="true").stdout.strip() == (
        "Unsupported context.publish has nothing to publish with here; make the handler with sqs_handler(…, publish=…)"
    )


def test_all_mistakes_of_an_environment_are_in_the_one_line():
    settings = SETTINGS | {"concurrency": 0, "timeout_seconds": -1}
    with pytest.raises(InvalidEnvironment) as caught:
        read_environment({"TOWPATH_SUBSCRIPTION": json.dumps(settings)})
    line = str(caught.value)
    assert "\n" not in line
    for part in ("TOWPATH_QUEUE_URL is missing", "concurrency: must be at least 1, not 0", "timeout_seconds: must be"):
        assert part in line


def test_the_endpoint_is_boto3s_own_choice_when_none_is_given():
    assert read_environment(VARIABLES).endpoint is None
    assert read_environment(VARIABLES | {"TOWPATH_AWS_ENDPOINT": ""}).endpoint is None
    assert read_environment(VARIABLES | {"TOWPATH_AWS_ENDPOINT": "http://127.0.0.1:1"}).endpoint == "http://127.0.0.1:1"
