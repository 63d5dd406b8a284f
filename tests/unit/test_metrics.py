"""A worker's metrics: what is counted, what is read when somebody looks, and the endpoint that serves it."""

import json
import re
import socket
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from towpath.cli.backlogs import Backlogs
from towpath.cli.endpoint import Address, CannotServe, address, health, serving
from towpath.cli.main import build_app
from towpath.cli.metrics import Metrics, Recorder, SharedMetrics
from towpath.errors import TransportUnavailable
from towpath.observing import ENDINGS, Ended, Standing
from towpath.operating import Backlog

LABELS = {"subscription": "convert", "topic": "documents"}
RUNNING = Standing(subscription="convert", topic="documents", state="running", in_flight=2)
FREE = Address(host="127.0.0.1", port=0)
PAGE = Path(__file__).parents[2] / "docs/how-to/scale-workers.md"


class Scaled:
    """A transport whose operator tells the backlog, or what it is told to raise."""

    def __init__(self, *names: str) -> None:
        self.names = names or ("convert",)
        self.asked: list[str | None] = []
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def operator(self):
        return self

    def backlog(self, subscription=None):
        self.asked.append(subscription)
        self.gate.wait(20)
        if self.error is not None:
            raise self.error
        return [
            Backlog(subscription=name, claimable=1_000, in_flight=3, claimable_capped=True, in_flight_capped=False)
            for name in self.names
            if subscription in (None, name)
        ]


@pytest.fixture
def metrics():
    registry = CollectorRegistry()
    made = Metrics(registry, Recorder(registry))
    made.begin(lambda: [RUNNING], Scaled().operator)
    return made


def samples(metrics: Metrics) -> dict:
    _, text = metrics.metrics("")
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


# --- What is counted -------------------------------------------------------------------------------------------


def test_a_batch_is_counted_by_what_became_of_each_delivery(metrics):
    batch = [Ended(ending="completed", duration=0.2, age=3.0)] * 3 + [Ended(ending="lease_lost", duration=700.0)]
    metrics.recorder.settled("convert", "documents", [*batch, Ended(ending="released")])
    found = samples(metrics)
    assert found["towpath_deliveries_total", "completed", "convert", "documents"] == 3
    assert found["towpath_deliveries_total", "convert", "documents", "released"] == 1
    assert found["towpath_leases_lost_total", "convert", "documents"] == 1
    assert found["towpath_handler_duration_seconds_count", "convert", "documents"] == 4
    assert found["towpath_handler_duration_seconds_sum", "convert", "documents"] == pytest.approx(700.6)
    assert found["towpath_age_at_start_seconds_bucket", "5.0", "convert", "documents"] == 3
    assert found["towpath_age_at_start_seconds_count", "convert", "documents"] == 3


def test_every_series_is_there_before_anything_happens(metrics):
    found = samples(metrics)
    for ending in ENDINGS:
        key = ("towpath_deliveries_total", *sorted((ending, *LABELS.values())))
        assert found[key] == 0
    assert found["towpath_leases_lost_total", "convert", "documents"] == 0
    assert found["towpath_deliveries_in_flight", "convert", "documents"] == 2
    assert found["towpath_worker_state", "convert", "documents", "running"] == 1
    assert found["towpath_worker_state", "convert", "documents", "error"] == 0


def test_the_backlog_is_told_as_the_operator_tells_it(metrics):
    found = samples(metrics)
    assert found["towpath_backlog_deliveries", "claimable", "convert", "documents"] == 1_000
    assert found["towpath_backlog_deliveries", "convert", "documents", "in_flight"] == 3
    assert found["towpath_backlog_capped", "claimable", "convert", "documents"] == 1
    assert found["towpath_backlog_capped", "convert", "documents", "in_flight"] == 0
    assert found[("towpath_backlog_up",)] == 1


def test_without_an_answer_there_is_no_figure_and_the_rest_is_told():
    registry, transport = CollectorRegistry(), Scaled()
    transport.error = TransportUnavailable("the database does not answer")
    metrics = Metrics(registry, Recorder(registry))
    metrics.begin(lambda: [RUNNING], transport.operator)
    found = samples(metrics)
    assert found[("towpath_backlog_up",)] == 0
    assert not [name for name, *_ in found if name == "towpath_backlog_deliveries"]
    assert found["towpath_deliveries_in_flight", "convert", "documents"] == 2


def test_no_label_names_anything_that_there_are_many_of(metrics):
    metrics.recorder.settled("convert", "documents", [Ended(ending="completed", duration=1, age=1)])
    _, text = metrics.metrics("")
    labels = {
        label
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        for label in sample.labels
    }
    assert labels == {"subscription", "topic", "outcome", "state", "le", "version", "python"}


def test_the_page_lists_the_metrics_that_there_are(metrics):
    _, text = metrics.metrics("")
    exposed = dict(re.findall(r"^# TYPE (towpath_\w+) (\w+)$", text.decode(), re.MULTILINE))
    listed = dict(re.findall(r"^\| `(towpath_\w+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE))
    assert listed == exposed


# --- The backlog, for those who ask often ------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_however_many_ask_the_transport_is_asked_once_in_ten_seconds():
    transport, clock = Scaled(), Clock()
    backlogs = Backlogs(transport.operator, lambda: ["convert"], clock)
    for _ in range(5):
        assert len(backlogs.current()) == 1
    clock.now += 9
    backlogs.current()
    assert transport.asked == ["convert"]
    clock.now += 1
    backlogs.current()
    assert transport.asked == ["convert"] * 2


def test_the_first_look_is_for_what_is_served_by_then():
    transport, names = Scaled(), []
    backlogs = Backlogs(transport.operator, lambda: names, Clock())
    assert list(backlogs.current()) == []
    names.append("convert")
    assert [row.subscription for row in backlogs.current()] == ["convert"]


def test_figures_are_told_for_a_minute_when_the_transport_does_not_answer_and_then_no_more():
    transport, clock = Scaled(), Clock()
    backlogs = Backlogs(transport.operator, lambda: ["convert"], clock)
    assert backlogs.current() is not None
    transport.error = TransportUnavailable("gone")
    clock.now += 59
    assert backlogs.current() is not None
    clock.now += 1
    assert backlogs.current() is None
    asked = len(transport.asked)
    assert backlogs.current() is None
    assert len(transport.asked) == asked  # also what fails is asked for once in ten seconds


def test_a_transport_that_hangs_is_not_asked_twice_and_nobody_waits_for_long():
    transport, clock = Scaled(), Clock()
    transport.gate.clear()
    backlogs = Backlogs(transport.operator, lambda: ["convert"], clock, patience=0)
    assert backlogs.current() is None
    clock.now += 100
    assert backlogs.current() is None
    assert transport.asked == ["convert"]
    transport.gate.set()


def test_of_many_subscriptions_all_are_asked_for_at_once_and_only_those_that_are_served_are_told():
    transport = Scaled("a", "b", "c", "d", "e")
    backlogs = Backlogs(transport.operator, lambda: ["a", "b", "c", "d"], Clock())
    assert [row.subscription for row in backlogs.current()] == ["a", "b", "c", "d"]
    assert transport.asked == [None]


# --- Where it is served ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("9464", "127.0.0.1", 9464),
        ("0.0.0.0:9464", "0.0.0.0", 9464),
        ("[::1]:0", "::1", 0),
        ("localhost:65535", "localhost", 65535),
    ],
)
def test_an_address_is_a_port_with_or_without_a_host(text, host, port):
    assert address(text) == Address(host=host, port=port)


@pytest.mark.parametrize("text", ["", "x", ":9464", "65536", "1.2.3.4:", "a b:1", "::1:9464", "9464/metrics", "-1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(typer.BadParameter, match=r"is no address; write 9464 or 0\.0\.0\.0:9464"):
        address(text)


def work(*arguments: str):
    arguments = ("work", "x", "--transport", "sqlite:///there-is-none.db", *arguments)
    return CliRunner().invoke(build_app(), arguments, env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_a_wrong_address_is_wrong_use_and_found_before_the_transport_is_opened():
    done = work("--metrics", "host:port")
    assert done.exit_code == 2
    assert "'host:port' is no address" in done.stderr


def test_a_port_that_is_taken_is_told_before_the_transport_is_opened():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = work("--metrics", str(port))
    assert isinstance(done.exception, CannotServe)
    expected = f"cannot serve metrics on 127.0.0.1:{port}: Address already in use; give --metrics another address"
    assert str(done.exception) == expected


def test_a_host_that_is_not_this_machines_is_told():
    with (
        pytest.raises(CannotServe, match=r"cannot serve metrics on 192\.0\.2\.1:0: "),
        served(Address(host="192.0.2.1", port=0), None),
    ):
        pass


# --- The endpoint ------------------------------------------------------------------------------------------------


@contextmanager
def served(where, answers):
    with serving(where, answers) as got:
        yield f"http://{got}"


def fetch(url: str, **headers: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_metrics_are_served_in_the_form_that_the_client_takes(metrics):
    with served(FREE, metrics) as url:
        status, content_type, text = fetch(f"{url}/metrics")
        assert (status, content_type.partition(";")[0]) == (200, "text/plain")
        assert "towpath_build_info{" in text
        _, content_type, text = fetch(f"{url}/metrics?x=y", Accept="application/openmetrics-text; version=1.0.0")
        assert content_type.startswith("application/openmetrics-text; version=1.0.0")
        assert text.endswith("# EOF\n")
        assert fetch(f"{url}/")[0] == 404


def test_a_metric_of_a_handler_that_breaks_is_told_and_keeps_no_probe_from_its_answer(metrics, caplog):
    class Broken:
        def collect(self):
            raise KeyError("mine")

    metrics._registry.register(Broken())
    with served(FREE, metrics) as url:
        assert fetch(f"{url}/metrics")[0] == 500
        assert fetch(f"{url}/healthz")[0] == 200
    assert "the metrics cannot be told: KeyError: 'mine'" in caplog.text


def test_a_file_that_a_process_has_just_begun_is_left_out(tmp_path):
    (tmp_path / "counter_1.db").touch()
    shared = SharedMetrics(tmp_path)
    assert shared.standings() == []
    assert shared.answers.metrics("")[1] == b""


def test_a_client_that_says_nothing_or_nonsense_keeps_nobody_from_an_answer(metrics):
    with served(FREE, metrics) as url:
        where = url.removeprefix("http://").split(":")
        with socket.create_connection(where) as silent, socket.create_connection(where) as rude:
            rude.sendall(b"\x00\xff\r\n\r\n")
            assert fetch(f"{url}/healthz")[0] == 200
            silent.close()


@pytest.mark.parametrize(
    ("states", "status", "code"),
    [
        ([], "starting", 503),
        (["running"], "running", 200),
        (["running", "paused"], "running", 200),
        (["running", "handler_not_found", "unsupported"], "running", 200),
        (["running", "error"], "error", 503),
        (["draining"], "draining", 503),
        (["draining", "error"], "error", 503),
    ],
)
def test_a_worker_is_well_unless_it_has_a_fault_or_is_about_to_end(states, status, code):
    registry = CollectorRegistry()
    metrics = Metrics(registry, Recorder(registry))
    standings = [Standing(subscription=f"s{i}", topic="t", state=state, in_flight=0) for i, state in enumerate(states)]
    assert health(standings).status == status
    metrics.begin(lambda: standings, Scaled().operator)
    with served(FREE, metrics) as url:
        answered, content_type, text = fetch(f"{url}/healthz")
    assert (answered, content_type) == (code, "application/json")
    assert json.loads(text) == {
        "status": status,
        "subscriptions": {f"s{i}": [state] for i, state in enumerate(states)},
    }
