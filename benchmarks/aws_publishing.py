"""Publishing through SNS beside bare boto3, on one LocalStack: ``python -m benchmarks.aws_publishing`` prints a table.

    python -m benchmarks.aws_publishing [--json figures.json] [--rounds 7] [--sizes 1 10 100 1000]

Every figure is taken in a fresh process, Towpath and boto3 in turn, and the medians are told. boto3 sends the same
envelopes, which were made before, by PublishBatch of ten entries, on as many threads as Towpath has. On the FIFO topic
messages have one of 50 keys: boto3 sends them in any order, Towpath never two of a key at once. Nobody
subscribes, so that nothing but publishing is measured. The processor time is the publisher's, without LocalStack's.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from aws_transport.address import Address
from aws_transport.batches import Entry, message_group, request
from aws_transport.bindings import Bindings
from aws_transport.clients import make_clients
from aws_transport.sending import PARALLEL_BATCHES
from tests.servers.localstack import Aws, private_localstack
from tests.servers.provision import provisioned
from towpath import NewMessage, connect
from towpath.envelope import Sources, prepare
from towpath.manifest import Manifest
from towpath.message import utc_now
from towpath.resolve import resolve
from towpath.topology import parse_topology

ROOT = Path(__file__).parent.parent
REGION = "eu-west-1"
TOPICS = {"standard": "letters", "FIFO": "steps"}
TOPOLOGY = {"name": "bench", "topics": {"letters": {}, "steps": {"fifo": True}}}
WAYS = ("towpath", "boto3")
KEYS = 50
BATCH = 10
CALLS = {1: 100, 10: 40, 100: 10, 1_000: 3}  # in one measurement, by messages in a call
PAYLOAD = {"customer": "tenant-acme", "documents": [{"name": "minutes.pdf", "pages": 12}], "note": "x" * 200}
ATTRIBUTES = {"kind": "pdf", "pages": 12}


# --- One process -------------------------------------------------------------------------------------------------


def messages(count):
    return [
        NewMessage(payload=PAYLOAD | {"n": n}, attributes=ATTRIBUTES, partition_key=f"key-{n % KEYS}")
        for n in range(count)
    ]


def by_towpath(folder, topic, calls, size):
    """Answers what makes one call, of so many messages that were made before."""
    transport = connect(f"aws://{REGION}", folder / "manifest.json", bindings=folder / "bindings.json")
    prepared = iter([messages(size) for _ in range(calls)])

    def call():
        results = transport.publish(topic, next(prepared))
        assert {result.status for result in results} == {"accepted"}, results

    return call


def by_boto3(folder, topic, calls, size):
    """The same with entries of PublishBatch that were made before."""
    manifest = Manifest.load(folder / "manifest.json")
    arn = Bindings.load(folder / "bindings.json").topics[topic].arn
    sns = make_clients(Address(region=REGION), os.environ["TOWPATH_AWS_ENDPOINT"], with_ledger=False).sns
    prepared = iter([list(batches(manifest.topics[topic], topic, size)) for _ in range(calls)])

    def send(batch):
        answer = sns.publish_batch(TopicArn=arn, PublishBatchRequestEntries=batch)
        assert not answer.get("Failed"), answer

    def call():
        wanted = next(prepared)
        if len(wanted) == 1:
            send(wanted[0])
            return
        with ThreadPoolExecutor(PARALLEL_BATCHES) as pool:
            list(pool.map(send, wanted))

    return call


def batches(topic, name, size):
    sources = Sources(clock=utc_now, random_bytes=os.urandom)
    entries = (
        request(Entry(position=n, prepared=prepared, group=message_group(prepared.message, topic.aws)), topic.aws)
        for n, prepared in enumerate(
            prepare(name, message, topic.max_payload_bytes, sources) for message in messages(size)
        )
    )
    while batch := list(islice(entries, BATCH)):
        yield batch


def measure(way, folder, topic, calls, size):
    call = {"towpath": by_towpath, "boto3": by_boto3}[way](Path(folder), topic, calls + 1, size)
    call()  # connections are made, and what is loaded at first use
    clock, processor = time.perf_counter(), time.process_time()
    for _ in range(calls):
        call()
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    print(json.dumps({"seconds": clock, "processor": processor}))


# --- The measurement ---------------------------------------------------------------------------------------------


def measured(way, folder, topic, size, environment):
    arguments = (way, folder, topic, CALLS[size], size)
    command = [sys.executable, "-m", "benchmarks.aws_publishing", "--process", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def figures(folder, kind, size, rounds, environment):
    """Medians of both ways, each round beginning with the other one."""
    taken = {way: [] for way in WAYS}
    for number in range(rounds):
        for way in WAYS if number % 2 == 0 else reversed(WAYS):
            taken[way].append(measured(way, folder, TOPICS[kind], size, environment))
    count = CALLS[size] * size
    found = {"kind": kind, "size": size, "rounds": rounds}
    for way, rows in taken.items():
        found[way] = {
            "messages_a_second": count / statistics.median(row["seconds"] for row in rows),
            "processor_ms_a_message": 1000 * statistics.median(row["processor"] for row in rows) / count,
        }
    ratios = [b["seconds"] / a["seconds"] for a, b in zip(taken["towpath"], taken["boto3"], strict=True)]
    return found | {"ratio": statistics.median(ratios)}


def table(rows):
    drawn = Table(
        "topic",
        "messages a call",
        "Towpath, messages a second",
        "boto3",
        "times",
        "Towpath, processor ms a message",
        "boto3",
    )
    for row in rows:
        towpath, bare = row["towpath"], row["boto3"]
        drawn.add_row(
            row["kind"],
            f"{row['size']:,}",
            f"{towpath['messages_a_second']:,.0f}",
            f"{bare['messages_a_second']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{towpath['processor_ms_a_message']:.2f}",
            f"{bare['processor_ms_a_message']:.2f}",
        )
    return drawn


def main():
    if sys.argv[1:2] == ["--process"]:
        way, folder, topic, *numbers = sys.argv[2:]
        measure(way, folder, topic, *map(int, numbers))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", nargs="*", type=int, default=list(CALLS), choices=list(CALLS))
    parser.add_argument("--kinds", nargs="*", default=list(TOPICS), choices=list(TOPICS))
    options = parser.parse_args()
    manifest = resolve(parse_topology(TOPOLOGY), f"b{os.getpid()}")
    with private_localstack() as endpoint, tempfile.TemporaryDirectory() as folder:
        aws = Aws(endpoint=endpoint, region=REGION)
        with provisioned(aws, manifest) as deployment:
            Path(folder, "manifest.json").write_text(manifest.to_json())
            Path(folder, "bindings.json").write_text(deployment.bindings.to_json())
            environment = os.environ | aws.variables
            found = [
                figures(folder, kind, size, options.rounds, environment)
                for kind in options.kinds
                for size in options.sizes
            ]
    Console().print(table(found))
    if options.json:
        options.json.write_text(json.dumps({"cores": os.cpu_count(), "figures": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
