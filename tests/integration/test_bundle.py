"""Real bundles, made by uv and run under AWS's runtime client."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bundling.build import Bundle, BundleRequest, build
from bundling.errors import InterpreterMissing, UnusableProject, UvFailed, WheelMissing
from bundling.sandbox import Conditions
from bundling.target import Target, host_target
from bundling.uv import find_uv, this_python
from bundling.verify import Event, Run, verify
from tests.fakes.json_shapes import shaped
from towpath.cli.main import build_app
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import load_topology

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "tests" / "events"
QUICKSTART = ROOT / "examples" / "quickstart"
BUDGET_BYTES = 2_500_000  # Powertools in, boto3 out
HANDLER = """
from towpath import Complete


def process(message, context):
    print("handled", message.topic)
    return Complete()
"""


def quickstart_manifest() -> Manifest:
    return resolve(load_topology(ROOT / "examples" / "quickstart" / "topology.toml"), "test")


def request(project: Path, output: Path, *, name: str = "documents.convert", handler: str) -> BundleRequest:
    return BundleRequest(
        name=name,
        handlers=(handler,),
        entry_point="lambda_runtime.entry.handler",
        target=host_target(),
        project=project,
        output=output,
    )


def quickstart(root: Path, output: Path) -> BundleRequest:
    return request(root / "examples" / "quickstart", output, handler="quickstart.documents:process")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return build(quickstart(ROOT, tmp_path_factory.mktemp("dist")))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that stands for a package index which has Towpath."""
    folder = tmp_path_factory.mktemp("index")
    find_uv(folder).run("build", ROOT, "--wheel", "--out-dir", folder, *this_python(), purpose="build Towpath")
    return folder


@pytest.fixture
def project(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's project outside of the clone, which takes Towpath from an index."""
    monkeypatch.setenv("UV_FIND_LINKS", str(index))
    folder = tmp_path / "project"
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "work.py").write_text(HANDLER)
    (folder / "requirements.txt").write_text("towpath[lambda]\n")
    return folder


def names(bundle: Bundle) -> set[str]:
    with zipfile.ZipFile(bundle.path) as archive:
        return set(archive.namelist())


def records(*documents: Path) -> dict[str, Any]:
    """An SQS event as Lambda sends it, whose messages are claim checks to the documents."""
    (template,) = json.loads((EVENTS / "sqs_standard.json").read_text())["Records"][:1]
    envelope = json.loads(template["body"])
    del envelope["payload"]
    bodies = [
        envelope
        | {
            "attributes": {"kind": "text"},
            "payload_ref": {"uri": path.as_uri(), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
        }
        for path in documents
    ]
    return {"Records": [template | {"messageId": f"m{i}", "body": json.dumps(b)} for i, b in enumerate(bodies)]}


def towpath_bundle(*arguments: str | Path) -> Result:
    words = ["bundle", *(str(argument) for argument in arguments)]
    return CliRunner().invoke(build_app(), words, env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_the_bundle_is_small_and_holds_what_a_function_needs_and_nothing_else(bundle: Bundle) -> None:
    assert bundle.zip_bytes <= BUDGET_BYTES
    assert bundle.s3_key == f"documents.convert/{bundle.sha256}.zip"
    assert bundle.uncompiled == ()
    found = names(bundle)
    assert {"quickstart/documents.py", "lambda_runtime/entry.py", "towpath-bundle.json"} <= found
    assert "towpath-0.1.0.dist-info/METADATA" in found
    tops = {name.partition("/")[0] for name in found}
    assert not tops & {"boto3", "botocore", "bundling", "local_transport", "bin", "documents", "pydantic", "tests"}
    assert not any(name.startswith(("towpath/cli/", "towpath/topology", "towpath/resolve")) for name in found)
    assert not any(name.endswith(("RECORD", "direct_url.json", "topology.toml")) for name in found)
    assert any(name.startswith("quickstart/__pycache__/documents.cpython-") for name in found)


def test_the_bundle_answers_a_real_sqs_event(tmp_path: Path, bundle: Bundle) -> None:
    documents = sorted((ROOT / "examples" / "quickstart" / "documents").iterdir())[:3]
    (tmp_path / "manifest.json").write_text(quickstart_manifest().to_json())
    (tmp_path / "event.json").write_text(json.dumps(records(*documents)))
    results = tmp_path / "results"
    result = towpath_bundle(
        *("verify", bundle.path, "--event", tmp_path / "event.json", "--manifest", tmp_path / "manifest.json"),
        *("--env", f"QUICKSTART_RESULTS={results}", "--json"),
    )
    assert result.exit_code == 0, result.output
    report = shaped("bundle verify", result.stdout)
    (invoked,) = report["run"]["invocations"]
    assert invoked["response"] == {"batchItemFailures": []}
    assert all(document.name in invoked["logs"] for document in documents)
    assert 0 < report["run"]["started"]["duration_ms"] < 30_000
    assert report["run"]["peak_memory_mb"] in range(10, 128)
    assert len(list(results.iterdir())) == len(documents)


def test_the_quickstarts_event_completes_one_record_and_sets_one_aside(tmp_path: Path, bundle: Bundle) -> None:
    (tmp_path / "aws.json").write_text(quickstart_manifest().to_json())
    result = towpath_bundle(
        *("verify", bundle.path, "--event", QUICKSTART / "event.json", "--manifest", tmp_path / "aws.json"),
        *("--env", f"QUICKSTART_DOCUMENTS={QUICKSTART / 'documents'}"),
    )
    assert result.exit_code == 0, result.output
    assert "2 records: 1 completed, 1 dead\n" in result.output
    assert "dead: FatalError: the message has no payload_ref" in result.output
    assert "  INFO summarised macbeth-act-1.md\n" in result.output


def test_the_quickstarts_event_is_as_sqs_sends_it() -> None:
    for record in json.loads((QUICKSTART / "event.json").read_text())["Records"]:
        assert record["md5OfBody"] == hashlib.md5(record["body"].encode()).hexdigest()
        assert record.keys() == json.loads((EVENTS / "sqs_standard.json").read_text())["Records"][0].keys()


def test_a_bundle_without_its_settings_does_not_start_and_says_why(tmp_path: Path, bundle: Bundle) -> None:
    result = towpath_bundle("verify", bundle.path, "--event", EVENTS / "sqs_standard.json", "-m", tmp_path / "none")
    assert result.exit_code == 1
    assert "the function does not start" in result.output
    assert "TOWPATH_SUBSCRIPTION is missing" in result.output


def test_a_bundle_for_another_target_is_looked_at_and_not_run(tmp_path: Path, bundle: Bundle) -> None:
    other = replace(host_target(), python="3.12" if host_target().python != "3.12" else "3.13")
    path = retargeted(bundle.path, tmp_path / "other.zip", other)
    result = towpath_bundle("verify", path, "--event", EVENTS / "sqs_standard.json")
    assert result.exit_code == 2
    assert f"not run: the zip is for {other} and this is {host_target()}" in result.output


def retargeted(path: Path, copy: Path, target: Target) -> Path:
    """The same bundle, with a stamp for another target."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(copy, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            if name == "towpath-bundle.json":
                stamp = json.loads(content)
                stamp["target"] |= {"python": target.python, "architecture": target.architecture}
                content = json.dumps(stamp).encode()
            archive.writestr(name, content)
    return copy


def test_a_project_outside_of_the_clone_takes_towpath_from_an_index(project: Path, tmp_path: Path) -> None:
    manifest = quickstart_manifest().to_json().replace("quickstart.documents:process", "app.work:process")
    (tmp_path / "manifest.json").write_text(manifest)
    result = towpath_bundle(
        *("documents.convert", "--project", project, "--output", tmp_path / "dist", "--target", "host"),
        *("--manifest", tmp_path / "manifest.json", "--no-pyc", "--json"),
    )
    assert result.exit_code == 0, result.output
    report = shaped("bundle build", result.stdout)
    assert report["bytecode"] == "left out"
    path = Path(report["path"])
    assert path == tmp_path / "dist" / "documents.convert.zip"
    verified = towpath_bundle(
        *("verify", path, "-e", EVENTS / "sqs_standard.json", "-e", EVENTS / "sqs_standard.json"),
        *("-m", tmp_path / "manifest.json"),
    )
    assert verified.exit_code == 0, verified.output
    assert verified.output.count("sqs_standard.json answered in ") == 2
    assert "handled documents.process" in verified.output
    assert "cold start " in verified.output


def test_a_project_that_is_a_package_goes_in_as_its_wheel(project: Path, tmp_path: Path) -> None:
    (project / "requirements.txt").unlink()
    (project / "src").mkdir()
    (project / "app").rename(project / "src" / "app")
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "my-app"\nversion = "1.0"\ndependencies = ["towpath[lambda]"]\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["src/app"]\n'
    )
    found = names(build(request(project, tmp_path / "dist", handler="app.work:process")))
    assert {"app/work.py", "my_app-1.0.dist-info/METADATA"} <= found
    assert not any(name.startswith("src") for name in found)


def test_a_handler_that_is_not_in_the_bundle_is_told(project: Path, tmp_path: Path) -> None:
    with pytest.raises(UnusableProject, match=r"no module app\.other"):
        build(request(project, tmp_path / "dist", handler="app.other:process"))
    assert not (tmp_path / "dist").exists()


def test_a_project_without_towpath_is_told_what_to_add(project: Path, tmp_path: Path) -> None:
    (project / "requirements.txt").write_text("six\n")
    with pytest.raises(UnusableProject, match=r"add towpath\[lambda\]"):
        build(request(project, tmp_path / "dist", handler="app.work:process"))


def test_a_handler_of_a_typed_message_is_told_to_add_pydantic(project: Path, tmp_path: Path) -> None:
    handler = "from towpath import Message\n\n\ndef process(message: Message[dict], context):\n    ...\n"
    (project / "app" / "work.py").write_text(handler)
    with pytest.raises(UnusableProject, match=r"app\.work:process takes Message\[dict\].* add pydantic"):
        build(request(project, tmp_path / "dist", handler="app.work:process"))


def test_a_package_that_is_not_what_was_locked_is_refused(project: Path, tmp_path: Path) -> None:
    wrong = "0" * 64
    (project / "requirements.txt").write_text(f"towpath[lambda]\njmespath==1.1.0 --hash=sha256:{wrong}\n")
    with pytest.raises(UvFailed, match="Hash mismatch"):
        build(request(project, tmp_path / "dist", handler="app.work:process"))


def test_a_missing_wheel_is_named_with_the_nearest_choice(project: Path, tmp_path: Path) -> None:
    (project / "requirements.txt").write_text("towpath[lambda]\npydantic-core==2.20.0\n")
    target = Target(python="3.14", architecture="arm64")
    wanted = replace(
        request(project, tmp_path / "dist", handler="app.work:process"), target=target, bytecode="left out"
    )
    with pytest.raises(WheelMissing) as caught:
        build(wanted)
    assert caught.value.requirement == "pydantic-core==2.20.0"
    assert "python3.13" in caught.value.alternatives


def test_a_bundle_for_another_processor_has_that_processors_wheels(project: Path, tmp_path: Path) -> None:
    (project / "requirements.txt").write_text("towpath[lambda]\npydantic\n")
    architecture = "x86_64" if host_target().architecture == "arm64" else "arm64"
    target = Target(python=host_target().python, architecture=architecture)
    found = names(build(replace(request(project, tmp_path / "dist", handler="app.work:process"), target=target)))
    (library,) = [name for name in found if name.endswith(".so")]
    assert target.cpu in library
    assert "towpath/topology/models.py" in found  # pydantic is in, so this part can run


def test_compiling_for_a_python_that_is_not_here_says_how_to_get_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "none"))
    target = Target(python="3.14" if host_target().python != "3.14" else "3.13", architecture="arm64")
    with pytest.raises(
        InterpreterMissing, match=r"'uv python install 3\.1\d', or leave compiled files out with --no-pyc"
    ):
        build(replace(request(project, tmp_path / "dist", handler="app.work:process"), target=target))


def test_the_module_runs_by_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bundling", "nope", "--manifest", "nowhere.json"]
    result = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "nowhere.json cannot be read" in result.stderr


# --- Functions of a few lines, zipped by hand ------------------------------------------------------------------

FUNCTION = """
import json, os, sys, time

if os.environ.get("AT_START") == "raise":
    raise ValueError("no start")


def handler(event, context):
    print("got", event["do"])
    match event["do"]:
        case "raise":
            raise KeyError("no")
        case "crash":
            os._exit(3)
        case "hang":
            time.sleep(60)
        case "tell":
            return {
                "environment": dict(os.environ),
                "path": sys.path,
                "name": context.function_name,
                "memory": context.memory_limit_in_mb,
                "remaining": context.get_remaining_time_in_millis(),
                "home": os.listdir(os.environ["HOME"]),
            }
    return event
"""


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("function") / "function.zip"
    target = host_target()
    stamp = {
        "bundle_version": 1,
        "name": "my.function",
        "entry_point": "function.handler",
        "target": {"python": target.python, "architecture": target.architecture, "system": target.system},
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("function.py", FUNCTION)
        archive.writestr("towpath-bundle.json", json.dumps(stamp))
    return path


def run(path: Path, *actions: str, timeout: float = 20, **environment: str) -> Run:
    events = [Event(name=action, document={"do": action}) for action in actions]
    report = verify(path, events, environment, Conditions(timeout_seconds=timeout))
    assert report.run is not None
    return report.run


def test_a_function_sees_lambdas_variables_and_nothing_of_this_machine(
    function: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mine")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = run(function, "tell", GIVEN="value")
    assert found.succeeded
    response = found.invocations[0].response
    assert response["environment"]["GIVEN"] == "value"
    assert response["environment"]["AWS_EXECUTION_ENV"] == f"AWS_Lambda_python{host_target().python}"
    assert "AWS_SECRET_ACCESS_KEY" not in response["environment"]
    assert str(ROOT) not in response["path"]
    assert response["home"] == []
    assert (response["name"], response["memory"]) == ("my-function", "256")
    assert 0 < response["remaining"] <= 20_000


def test_each_event_has_its_own_answer_and_logs(function: Path) -> None:
    found = run(function, "one", "raise", "two")
    one, failed, two = found.invocations
    assert (one.response, one.is_error, one.logs) == ({"do": "one"}, False, "got one\n")
    assert failed.is_error
    assert failed.response["errorType"] == "KeyError"
    assert "KeyError" in failed.logs
    assert (two.response, two.logs) == ({"do": "two"}, "got two\n")
    assert not found.succeeded


@pytest.mark.parametrize(
    ("action", "error_type", "message"),
    [("crash", "Runtime.ExitError", "exit status 3"), ("hang", "Sandbox.Timedout", "within 3 seconds")],
)
def test_a_function_that_crashed_or_hung_starts_again_for_the_next_event(
    function: Path, action: str, error_type: str, message: str
) -> None:
    failed, following = run(function, action, "next", timeout=3).invocations
    assert failed.is_error
    assert failed.response["errorType"] == error_type
    assert message in failed.response["errorMessage"]
    assert (following.response, following.is_error) == ({"do": "next"}, False)


def test_a_function_that_does_not_start_is_sent_nothing(function: Path) -> None:
    found = run(function, "one", AT_START="raise")
    assert found.invocations == ()
    assert not found.succeeded
    assert found.started.error["errorType"] == "ValueError"


def test_a_lack_of_boto3_comes_with_a_hint(function: Path, tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    for action, hinted in (("No module named 'botocore'", True), ("No module named 'six'", False)):
        event.write_text(json.dumps({"do": action}))
        result = towpath_bundle("verify", function, "--event", event, "--bare")
        assert result.exit_code == 0
        assert ("verify without --bare" in result.output) is hinted


def test_a_failed_start_is_one_line_and_the_stack_is_for_debugging(function: Path, tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text("{}")
    words = ["bundle", "verify", str(function), "--event", str(event), "--env", "AT_START=raise", "--bare"]
    words += ["--manifest", "none.json"]
    result = CliRunner().invoke(build_app(), words, env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "the function does not start: ValueError: no start",
        "none.json does not exist, so the function got no settings; name the manifest with --manifest",
    ]
    debugged = CliRunner().invoke(build_app(), ["--debug", *words], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert "Traceback" in debugged.output


def test_a_failed_event_is_one_line_beside_what_the_function_wrote(function: Path, tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text('{"do": "raise"}')
    result = towpath_bundle("verify", function, "--event", event, "--bare")
    assert result.exit_code == 1
    first, second, third = result.stdout.splitlines()
    assert first.startswith("event.json failed in ")
    assert first.endswith(" ms: KeyError: 'no'")
    assert second == "  got raise"
    assert third.startswith("cold start ")


ENDS = """
from towpath import Complete, FatalError, Retry


def process(message, context):
    match message.payload:
        case {"do": "retry"}:
            return Retry("not yet", after=7)
        case {"do": "fail"}:
            raise ValueError("a poor document")
        case {"do": "die"}:
            raise FatalError("never")
    print("did", message.payload["do"])
    return Complete()
"""


def foreign(*actions: str) -> dict[str, Any]:
    """An SQS event of raw JSON bodies, as a producer that knows nothing of Towpath sends them."""
    attributes = {"ApproximateReceiveCount": "1", "SentTimestamp": "1769847300197"}
    records = [
        {
            "messageId": action,
            "receiptHandle": f"{action}#1",
            "body": json.dumps({"do": action}),
            "attributes": attributes,
        }
        for action in actions
    ]
    return {"Records": [record | {"eventSource": "aws:sqs"} for record in records]}


def test_verify_tells_what_becomes_of_each_record_and_what_was_asked_of_sqs(project: Path, tmp_path: Path) -> None:
    (project / "app" / "work.py").write_text(ENDS)
    built = build(replace(request(project, tmp_path / "dist", handler="app.work:process"), bytecode="left out"))
    manifest, event = tmp_path / "aws.json", tmp_path / "event.json"
    manifest.write_text(quickstart_manifest().to_json().replace("quickstart.documents:process", "app.work:process"))
    event.write_text(json.dumps(foreign("retry", "work", "die", "fail")))
    result = towpath_bundle("verify", built.path, "--event", event, "--manifest", manifest)
    assert result.exit_code == 0, result.output
    summary, retried, dead, failed, printed, calls, _ = result.stdout.splitlines()
    assert summary.startswith("event.json answered in ")
    assert summary.endswith(", 4 records: 1 completed, 1 dead, 2 retried")
    assert retried == "  retry retried, hidden for 7 s: Retry: not yet"
    assert dead == "  die dead: FatalError: never"
    assert failed == "  fail retried, hidden for 1 s: ValueError: a poor document"
    assert printed == "  did work"
    assert calls == "SQS calls, answered by a stand-in: 3 ChangeMessageVisibilityBatch, 1 SendMessageBatch"
    bare = towpath_bundle("verify", built.path, "--event", event, "--manifest", manifest, "--bare")
    assert "4 records: 1 completed, 3 failed" in bare.output
    assert (
        "  fail failed: ValueError: a poor document; could not settle; the delivery comes again: boto3 is"
        in bare.output
    )
    assert "SQS calls" not in bare.output
