"""What a function may have besides its handler: metrics, ids in log lines, traces, idempotency."""

import asyncio
import io
import json
import time
from contextlib import redirect_stdout
from datetime import timedelta

import boto3
import pytest
from aws_lambda_powertools import Tracer
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer
from moto import mock_aws

from lambda_runtime.emf import report_to_log
from lambda_runtime.figures import Figures
from lambda_runtime.idempotency import Idempotency
from tests.fakes.lambdas import LambdaContext, failed, function, record
from tests.fakes.sqs import FakeSqs
from towpath import Context, DeadLetter, FatalError, Message, Retry, TransientError

FIGURES = Figures(
    processed=4,
    completed=1,
    retried=1,
    dead_lettered=1,
    released=1,
    failed=0,
    durations_ms=[1.5, 2.25, 3.125],
    oldest_age_ms=1250.5,
)


def written(figures, **variables):
    output = io.StringIO()
    report = report_to_log("documents.convert", variables)
    with redirect_stdout(output):
        report(figures)
    (line,) = output.getvalue().splitlines()
    return line


def by_powertools(figures, service=None):
    metrics = EphemeralMetrics(namespace="Towpath", service=service)
    metrics.add_dimension(name="subscription", value="documents.convert")
    counts = ("processed", "completed", "retried", "dead_lettered", "released", "failed")
    for name in counts:
        title = "".join(part.capitalize() for part in name.split("_"))
        metrics.add_metric(name=title, unit=MetricUnit.Count, value=getattr(figures, name))
    for duration in figures.durations_ms:
        metrics.add_metric(name="DurationMs", unit=MetricUnit.Milliseconds, value=duration)
    if figures.oldest_age_ms is not None:
        metrics.add_metric(name="OldestAgeMs", unit=MetricUnit.Milliseconds, value=figures.oldest_age_ms)
    output = io.StringIO()
    with redirect_stdout(output):
        metrics.flush_metrics()
    return json.loads(output.getvalue())


def without_time(line):
    line["_aws"]["Timestamp"] = None
    return line


# --- Metrics ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", [None, "converter"])
@pytest.mark.parametrize("durations", [(), (1.5, 2.25, 3.125)])
@pytest.mark.parametrize("age", [None, 0.0, 1250.5])
def test_the_line_of_metrics_is_the_one_that_powertools_writes(service, durations, age):
    figures = Figures(
        processed=4,
        completed=1,
        retried=1,
        dead_lettered=1,
        released=1,
        failed=0,
        durations_ms=durations,
        oldest_age_ms=age,
    )
    ours = json.loads(written(figures, **({"POWERTOOLS_SERVICE_NAME": service} if service else {})))
    assert without_time(ours) == without_time(by_powertools(figures, service))


def test_of_more_than_a_hundred_durations_a_hundred_are_told_with_the_shortest_and_the_longest():
    durations = [float(n) for n in range(1, 10_001)]
    figures = Figures(
        processed=10_000,
        completed=10_000,
        retried=0,
        dead_lettered=0,
        released=0,
        failed=0,
        durations_ms=durations,
        oldest_age_ms=None,
    )
    told = json.loads(written(figures))["DurationMs"]
    assert (len(told), told[0], told[-1]) == (100, 1.0, 10_000.0)
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("variables", "is_on"),
    [
        ({}, True),
        ({"POWERTOOLS_METRICS_DISABLED": "true"}, False),
        ({"POWERTOOLS_METRICS_DISABLED": "0"}, True),
        ({"POWERTOOLS_DEV": "1"}, False),
        ({"POWERTOOLS_DEV": "1", "POWERTOOLS_METRICS_DISABLED": "false"}, True),
    ],
)
def test_powertools_variables_turn_metrics_off(variables, is_on):
    assert (report_to_log("documents.convert", variables) is not None) is is_on


def test_the_namespace_is_powertools_variable_where_it_is_set():
    line = json.loads(written(FIGURES, POWERTOOLS_METRICS_NAMESPACE="Orders"))
    assert line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Orders"


def test_an_invocation_reports_what_its_records_came_to():
    told = []

    def process(message: Message, context: Context):
        outcomes = {1: Retry(), 2: DeadLetter("no"), 4: SystemExit(1)}
        outcome = outcomes.get(message.payload)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    handler = function(process, FakeSqs(), extras={"report": told.append}, fifo=True, concurrency=1).handle
    records = [record(n, n, group=f"g{n}") for n in range(5)] + [record(5, 5, group="g1"), {"messageId": "broken"}]
    for one in records[:6]:
        one["attributes"]["SentTimestamp"] = "1000"
    handler({"Records": records}, None)
    (figures,) = told
    assert (figures.processed, figures.completed, figures.retried) == (7, 2, 2)
    assert (figures.dead_lettered, figures.released, figures.failed) == (1, 1, 1)
    assert len(figures.durations_ms) == 5
    assert figures.oldest_age_ms is None  # the broken one does not say when it was sent


def test_a_settle_that_breaks_is_counted_as_failed():
    told = []
    broken = FakeSqs(error=RuntimeError("no boto3"))
    handler = function(lambda message, context: Retry(), broken, extras={"report": told.append}).handle
    handler({"Records": [record(1, 1)]}, None)
    assert (told[0].failed, told[0].retried) == (1, 0)


def test_metrics_that_cannot_be_written_cost_no_batch(caplog):
    def report(figures):
        raise OSError("no space left")

    handler = function(lambda message, context: None, FakeSqs(), extras={"report": report}).handle
    assert failed(handler({"Records": [record(1, 1)]}, None)) == []
    assert "the metrics are lost: OSError: no space left" in caplog.messages


def test_the_age_of_the_oldest_record_is_told():
    told = []
    sent = record(1, 1)
    sent["attributes"]["SentTimestamp"] = "1000"
    function(lambda message, context: None, FakeSqs(), extras={"report": told.append}).handle({"Records": [sent]}, None)
    assert told[0].oldest_age_ms > 1_000_000_000_000


@pytest.mark.parametrize("sent", [float("inf"), "9" * 400, None, "yesterday", ""])
def test_a_record_that_was_sent_at_no_time_costs_its_age_alone(sent):
    reported, one = [], record(1, 1)
    one["attributes"]["SentTimestamp"] = sent
    function(lambda message, context: None, FakeSqs(), extras={"report": reported.append}).handle(
        {"Records": [one]}, None
    )
    assert (reported[0].completed, reported[0].oldest_age_ms) == (1, None)


def test_an_event_without_records_reports_nothing_that_has_happened():
    told = []
    function(lambda message, context: None, FakeSqs(), extras={"report": told.append}).handle({"Records": []}, None)
    assert told == []


# --- Traces ----------------------------------------------------------------------------------------------------


@pytest.fixture
def sent(monkeypatch):
    """What X-Ray gets, below a segment that is open in this thread, as Lambda has it."""
    from aws_xray_sdk.core import xray_recorder

    class Emitter:
        def __init__(self):
            self.sent = []

        def send_entity(self, entity):
            self.sent.append(entity)

    monkeypatch.setenv("AWS_XRAY_SDK_ENABLED", "true")
    emitter, before = Emitter(), xray_recorder.emitter
    xray_recorder.configure(emitter=emitter, sampling=False)
    xray_recorder.begin_segment("function")
    yield emitter.sent
    xray_recorder.end_segment()
    xray_recorder.configure(emitter=before)


@pytest.fixture
def tracer(sent):
    return Tracer(service="documents", disabled=False, auto_patch=False)


def test_each_delivery_has_a_subsegment_with_its_ids_whatever_thread_handles_it(sent, tracer):
    def process(message: Message, context: Context):
        if message.payload == 1:
            raise ValueError("no")

    handler = function(process, FakeSqs(), extras={"tracer": tracer}, concurrency=3).handle
    handler({"Records": [record(n, n, receives=2) for n in range(6)]}, LambdaContext(50_000))
    assert [part.name for part in sent] == ["## documents.convert"] * 6
    assert sorted(part.annotations["message_id"] for part in sent) == [f"message-{n}" for n in range(6)]
    assert {part.annotations["attempt"] for part in sent} == {2}
    assert {part.parent_segment.name for part in sent} == {"function"}
    (faulty,) = [part for part in sent if getattr(part, "fault", False)]
    assert faulty.annotations["message_id"] == "message-1"


def test_an_async_handlers_subsegment_is_open_while_it_runs(sent, tracer):
    seen = []

    async def process(message: Message, context: Context):
        await asyncio.sleep(0)
        seen.append(tracer.provider.get_trace_entity().name)

    function(process, FakeSqs(), extras={"tracer": tracer}).handle({"Records": [record(1, 1)]}, LambdaContext(50_000))
    assert seen == ["## documents.convert"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_where_no_trace_is_open_the_handler_runs_all_the_same(sent, tracer, monkeypatch):
    from aws_xray_sdk.core import xray_recorder

    seen = []
    xray_recorder.configure(context_missing="IGNORE_ERROR")
    xray_recorder.clear_trace_entities()
    handler = function(lambda message, context: seen.append(message.id), FakeSqs(), extras={"tracer": tracer}).handle
    assert failed(handler({"Records": [record(1, 1)]}, None)) == []
    xray_recorder.begin_segment("function")
    assert seen == ["message-1"]


def test_a_tracer_that_is_disabled_costs_nothing():
    tracer = Tracer(service="documents", disabled=True)
    handler = function(lambda message, context: None, FakeSqs(), extras={"tracer": tracer})
    assert handler.on_begin == ()


# --- Idempotency -----------------------------------------------------------------------------------------------


@pytest.fixture
def table(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        client = boto3.client("dynamodb")
        client.create_table(
            TableName="done",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield client


def kept(table):
    return table.scan(TableName="done")["Items"]


def once(process, sqs=None, **options):
    """What Lambda would call, with a new persistence layer, as a new environment has it."""
    extras = {"idempotency": DynamoDBPersistenceLayer(table_name="done")}
    return function(process, sqs or FakeSqs(), extras=extras, **options).handle


def test_a_message_that_was_completed_does_not_run_again_though_sqs_delivers_it_again(table):
    runs = []
    for _ in range(2):
        handler = once(lambda message, context: runs.append(message.id))
        assert failed(handler({"Records": [record(1, 1), record(2, 2)]}, LambdaContext(50_000))) == []
    assert sorted(runs) == ["message-1", "message-2"]
    assert {item["status"]["S"] for item in kept(table)} == {"COMPLETED"}


def test_the_key_is_the_envelopes_id_which_a_message_keeps_when_it_is_sent_anew(table):
    body = json.dumps(
        {
            "schema": "towpath/1",
            "id": "0195b2a4-7c1d-7e3f-8a4b-5c6d7e8f9a0b",
            "topic": "documents.process",
            "published_at": "2026-01-31T08:15:00.000Z",
        }
    )
    runs = []
    handler = once(lambda message, context: runs.append(message.id))
    for n in range(2):  # two messages of SQS, one of Towpath
        handler({"Records": [record(n, body)]}, LambdaContext(50_000))
    assert runs == ["0195b2a4-7c1d-7e3f-8a4b-5c6d7e8f9a0b"]


def test_two_subscriptions_of_one_table_each_handle_the_message(table):
    runs = []
    for name in ("documents.convert", "documents.index"):
        handler = once(lambda message, context: runs.append(context.subscription), subscription=name)
        handler({"Records": [record(1, 1)]}, LambdaContext(50_000))
    assert runs == ["documents.convert", "documents.index"]


@pytest.mark.parametrize(
    "outcome",
    [Retry(after=0), DeadLetter("no"), ValueError("no"), FatalError("no"), TransientError("no"), SystemExit(1)],
    ids=lambda outcome: type(outcome).__name__,
)
def test_what_is_not_completed_runs_again(table, outcome):
    runs = []

    def process(message: Message, context: Context):
        runs.append(context.attempt)
        if len(runs) == 1 and isinstance(outcome, BaseException):
            raise outcome
        return outcome if len(runs) == 1 else None

    first, second = FakeSqs(), FakeSqs()
    once(process, first)({"Records": [record(1, 1)]}, LambdaContext(50_000))
    assert kept(table) == []
    assert [name for name, _, _ in first.calls] in (["hide"], ["hide", "send"])  # as without idempotency
    assert failed(once(process, second)({"Records": [record(1, 1, receives=2)]}, LambdaContext(50_000))) == []
    assert runs == [1, 2]


def test_an_async_handler_runs_once_too(table):
    runs = []

    async def process(message: Message, context: Context):
        await asyncio.sleep(0)
        runs.append(message.id)

    for _ in range(2):
        assert failed(once(process)({"Records": [record(1, 1)]}, LambdaContext(50_000))) == []
    assert runs == ["message-1"]


def test_a_message_that_is_being_handled_elsewhere_is_retried(table):
    inner = []

    def process(message: Message, context: Context):
        again = once(lambda message, context: None, sqs := FakeSqs())
        inner.append((failed(again({"Records": [record(1, 1, receives=2)]}, LambdaContext(50_000))), sqs.calls[0][0]))

    assert failed(once(process)({"Records": [record(1, 1)]}, LambdaContext(50_000))) == []
    assert inner == [(["message-1"], "hide")]


def test_what_was_in_progress_when_a_function_was_killed_runs_again_once_its_time_is_over(table):
    runs = []

    def killed(message: Message, context: Context):
        item = kept(table)[0]
        runs.append(int(item["in_progress_expiration"]["N"]))
        table.update_item(  # as it stands some seconds later
            TableName="done",
            Key={"id": item["id"]},
            UpdateExpression="SET in_progress_expiration = :then",
            ExpressionAttributeValues={":then": {"N": "1"}},
        )
        handler = once(lambda message, context: runs.append("again"))
        assert failed(handler({"Records": [record(1, 1, receives=2)]}, LambdaContext(50_000))) == []

    once(killed)({"Records": [record(1, 1)]}, LambdaContext(50_000))
    assert len(runs) == 2
    assert runs[1] == "again"


def test_how_long_a_message_is_remembered_can_be_said(table):
    settings = Idempotency(persistence=DynamoDBPersistenceLayer(table_name="done"), keep=timedelta(hours=1))
    handler = function(lambda message, context: None, FakeSqs(), extras={"idempotency": settings}).handle
    handler({"Records": [record(1, 1)]}, LambdaContext(50_000))
    (item,) = kept(table)
    assert 3_500 < int(item["expiration"]["N"]) - time.time() < 3_700


def test_a_table_that_does_not_answer_is_a_failed_attempt_and_the_handler_does_not_run(table):
    runs = []
    table.delete_table(TableName="done")
    handler = once(lambda message, context: runs.append(1), sqs := FakeSqs())
    assert failed(handler({"Records": [record(1, 1)]}, LambdaContext(50_000))) == ["message-1"]
    assert (runs, sqs.calls[0][0]) == ([], "hide")
