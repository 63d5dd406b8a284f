"""The transports that the suite runs on, and the matrix that it prints at its end."""

import shutil
from contextlib import contextmanager
from functools import partial

import pytest

from bundling.build import BundleRequest, build
from bundling.target import host_target
from tests.conformance.harness import FUNCTION, DatabaseHarness, PolledHarness
from tests.conformance.local_mapping import LocalMappingHarness
from tests.conformance.needs import TRANSPORTS
from tests.conformance.on_lambda import LambdaHarness
from tests.conformance.on_moto import MotoHarness
from tests.servers.postgres import fresh_database


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
    with opened(request.param, request, tmp_path, monkeypatch) as made:
        yield made


@contextmanager
def opened(transport, request, folder, environment):
    """The harness of this transport, with its files in ``folder`` and its variables in ``environment``."""
    environment.syspath_prepend(FUNCTION)
    if transport == "sqlite":
        url = f"sqlite:///{shutil.copy(request.getfixturevalue('sqlite_with_tables'), folder / 'suite.db')}"
        yield DatabaseHarness(name="sqlite", url=url, folder=folder, environment=environment)
    elif transport == "postgresql":
        tables = request.getfixturevalue("postgres_with_tables")
        with fresh_database(request.getfixturevalue("postgres_server"), tables) as url:
            yield DatabaseHarness(name="postgresql", url=url, folder=folder, environment=environment)
    elif transport == "local-mapping":
        yield LocalMappingHarness(folder=folder, environment=environment)
    elif transport == "moto":
        yield MotoHarness(folder=folder, environment=environment)
    else:
        yield _on_aws(transport, request, {"folder": folder, "environment": environment})


def _on_aws(transport, request, files):
    aws, dynamodb = request.getfixturevalue("aws"), partial(request.getfixturevalue, "dynamodb")
    if transport == "aws-worker":
        return PolledHarness(aws=aws, dynamodb=dynamodb, **files)
    return LambdaHarness(aws=aws, dynamodb=dynamodb, zip_path=request.getfixturevalue("scripted_zip"), **files)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Keep each case's outcome on each transport for the matrix."""
    report = (yield).get_result()
    marker = item.get_closest_marker("case")
    if marker is None or not (report.when == "call" or report.outcome != "passed"):
        return
    outcomes = item.config.stash.setdefault(MATRIX, {})
    transport = next(value for name, value in item.callspec.params.items() if name in ("harness", "selected", "lived"))
    outcomes.setdefault(marker.args, {}).setdefault(transport, set()).add(report.outcome)


MATRIX = pytest.StashKey()
WORDS = {"failed": "FAILED", "passed skipped": "in part", "passed": "ok", "skipped": "left out"}


def pytest_terminal_summary(terminalreporter, config):
    """The matrix: every case and the transports that it ran on."""
    outcomes = config.stash.get(MATRIX, {})
    if not outcomes:
        return
    terminalreporter.section("conformance")
    width = max(len(name) for name in TRANSPORTS) + 2
    terminalreporter.write_line("case  " + "".join(name.ljust(width) for name in TRANSPORTS) + "promise")
    for (case, promise), by_transport in sorted(outcomes.items()):
        cells = (word(by_transport.get(name, set())).ljust(width) for name in TRANSPORTS)
        terminalreporter.write_line(f"{case:<6}" + "".join(cells) + promise)
    ran = [name for name in TRANSPORTS if any(o.get(name, set()) - {"skipped"} for o in outcomes.values())]
    terminalreporter.write_line(f"transports that ran: {', '.join(ran) or 'none'}")


def word(outcomes):
    """One word for a case on a transport, whose reports have these outcomes."""
    return next((said for wanted, said in WORDS.items() if outcomes.issuperset(wanted.split())), "-")
