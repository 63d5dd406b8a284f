"""A manifest's function on LocalStack: deployed with its alias and mapping, it gets what is published."""

import io
import os
import sys
import time
import zipfile
from pathlib import Path

from tests.servers.localstack import Aws
from tests.servers.provision import provisioned
from towpath.resolve import resolve
from towpath.topology import parse_topology

ENTRY = """
import os, sys, boto3
def handler(event, context):
    queue = os.environ["TOWPATH_QUEUE_URL"]
    assert queue.endswith(event["Records"][0]["eventSourceARN"].rpartition(":")[2]), queue
    assert context.invoked_function_arn.endswith(":live"), context.invoked_function_arn
    boto3.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])
    bad = [record["messageId"] for record in event["Records"] if "bad" in record["body"]]
    return {"batchItemFailures": [{"itemIdentifier": id} for id in bad]}
"""
TOPOLOGY = {
    "name": "mapping-test",
    "topics": {"letters": {}},
    "subscriptions": {
        "letters.read": {
            "topic": "letters",
            "handler": "some.module:handle",
            "max_attempts": 1,
            "lease_seconds": 5,
            "lambda": {"timeout_seconds": 2, "runtime": f"python3.{sys.version_info.minor}", "maximum_concurrency": 2},
        }
    },
}


def test_a_deployed_function_gets_published_messages_and_answers_one_by_one(aws: Aws, tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("lambda_runtime/entry.py", ENTRY)
    zip_path = tmp_path / "function.zip"
    zip_path.write_bytes(content.getvalue())
    manifest = resolve(parse_topology(TOPOLOGY), f"m{os.getpid()}")
    lambda_, sns, sqs = aws.client("lambda"), aws.client("sns"), aws.client("sqs")
    with provisioned(aws, manifest) as deployment:
        arn = deployment.deploy_function("letters.read", zip_path)
        assert deployment.bindings.subscriptions["letters.read"].function_arn == arn
        for text in ("good", "bad", "good"):
            sns.publish(TopicArn=deployment.bindings.topics["letters"].arn, Message=text)
        binding = deployment.bindings.subscriptions["letters.read"]
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        end = time.monotonic() + 30
        counts = None
        while counts != ["0", "1"] and time.monotonic() < end:
            time.sleep(0.2)
            counts = list(
                sqs.get_queue_attributes(QueueUrl=binding.queue_url, AttributeNames=names)["Attributes"].values()
            )
        assert counts == ["0", "1"]
    assert not [f for f in lambda_.list_functions()["Functions"] if "mapping-test" in f["FunctionName"]]
    assert not [u for u in sqs.list_queues().get("QueueUrls", []) if "mapping-test" in u]
    assert not [t for t in sns.list_topics()["Topics"] if "mapping-test" in t["TopicArn"]]
