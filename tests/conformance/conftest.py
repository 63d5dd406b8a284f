"""The transports that the suite runs on, and the matrix that it prints at its end."""

import pytest

from bundling.build import BundleRequest, build
from bundling.target import host_target
from tests.conformance.harness import FUNCTION, DatabaseHarness, LambdaHarness, PolledHarness

TRANSPORTS = ("sqlite", "postgresql", "aws-worker", "aws-lambda")


def pytest_configure(config):
    config.addinivalue_line("markers", "case(id, promise): a conformance case and the promise that it states")


@pytest.fixture(scope="session")
def scripted_zip(tmp_path_factory):
    """The suite's handler as a Lambda zip for this machine, bundled as a user bundles one."""
    request = BundleRequest(
        name="scripted",
        handlers=("scripted:handle",),
        entry_point="lambda_runtime.entry.handler",
        target=host_target(),
        project=FUNCTION,
        output=tmp_path_factory.mktemp("zip"),
    )
    return build(request).path


@pytest.fixture(params=TRANSPORTS)
def harness(request, tmp_path, monkeypatch):
    """Each transport in turn."""
    monkeypatch.syspath_prepend(FUNCTION)
    if request.param == "sqlite":
        url = request.getfixturevalue("sqlite_tables_url")
        return DatabaseHarness(name="sqlite", url=url, folder=tmp_path, environment=monkeypatch)
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_tables_url")
        return DatabaseHarness(name="postgresql", url=url, folder=tmp_path, environment=monkeypatch)
    aws = request.getfixturevalue("aws")
    if request.param == "aws-worker":
        return PolledHarness(aws=aws, folder=tmp_path, environment=monkeypatch)
    zip_path = request.getfixturevalue("scripted_zip")
    return LambdaHarness(aws=aws, zip_path=zip_path, folder=tmp_path, environment=monkeypatch)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Keep each case's outcome on each transport for the matrix."""
    report = (yield).get_result()
    marker = item.get_closest_marker("case")
    if marker is None or not (report.when == "call" or report.outcome != "passed"):
        return
    outcomes = item.config.stash.setdefault(MATRIX, {})
    outcomes.setdefault(marker.args, {})[item.callspec.params["harness"]] = report.outcome


MATRIX = pytest.StashKey()
WORDS = {"passed": "ok", "failed": "FAILED", "skipped": "left out"}


def pytest_terminal_summary(terminalreporter, config):
    """The matrix: every case and the transports that it ran on."""
    outcomes = config.stash.get(MATRIX, {})
    if not outcomes:
        return
    terminalreporter.section("conformance")
    width = max(len(name) for name in TRANSPORTS) + 2
    terminalreporter.write_line("case  " + "".join(name.ljust(width) for name in TRANSPORTS) + "promise")
    for (case, promise), by_transport in sorted(outcomes.items()):
        cells = (WORDS.get(by_transport.get(name, ""), "-").ljust(width) for name in TRANSPORTS)
        terminalreporter.write_line(f"{case:<6}" + "".join(cells) + promise)
    ran = [name for name in TRANSPORTS if any(o.get(name) in ("passed", "failed") for o in outcomes.values())]
    terminalreporter.write_line(f"transports that ran: {', '.join(ran) or 'none'}")
