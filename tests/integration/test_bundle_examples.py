"""The examples of bundling: the same bytes wherever and whenever they are built, and every file that they name."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bundling.binaries import library_platform
from bundling.build import Bundle, BundleRequest, build
from bundling.sandbox import REGION, Conditions, make_sandbox
from bundling.selection import function_environment, select
from bundling.stamp import Stamp
from bundling.target import LAMBDA_PYTHONS, Target, host_target
from bundling.uv import find_uv
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import load_topology

ROOT = Path(__file__).parents[2]
PACKAGES = ("aws_transport", "bundling", "lambda_runtime", "local_transport", "towpath")
FILES = ("pyproject.toml", "README.md", "LICENSE")
HOST = host_target()
ARM = replace(HOST, architecture="arm64", system="linux")  # Python of this machine, so that it can be compiled for
EXAMPLES = {"standard-library": HOST, "typed-payload": HOST, "compiled-dependency": ARM}
IMAGE = ROOT / "examples" / "container-image"


def manifest_of(example: Path) -> Manifest:
    return resolve(load_topology(example / "topology.toml"), "test")


def bundled(clone: Path, example: str, target: Target, output: Path) -> Bundle:
    project = clone / "examples" / example
    manifest = manifest_of(project)
    (name,) = manifest.subscriptions
    selected = select(manifest, name)
    request = BundleRequest(
        name=name,
        handlers=selected.handlers,
        entry_point=selected.entry_point,
        target=target,
        project=project,
        output=output,
    )
    return build(request)


@pytest.fixture(scope="module")
def clones(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The clone with its examples at two places, the files of the second written in another order."""
    one = tmp_path_factory.mktemp("one")
    two = tmp_path_factory.mktemp("two") / "a folder of another name"
    for clone, names in ((one, [*PACKAGES, "examples"]), (two, ["examples", *reversed(PACKAGES)])):
        for name in names:
            shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__", "dist", "*.db*"))
        for name in FILES:
            shutil.copyfile(ROOT / name, clone / name)
    return one, two


@pytest.mark.parametrize("example", EXAMPLES)
def test_two_runs_in_two_folders_give_the_same_bytes(example: str, clones: tuple[Path, Path], tmp_path: Path) -> None:
    target = EXAMPLES[example]
    with ThreadPoolExecutor(2) as threads:
        runs = [
            threads.submit(bundled, clone, example, target, tmp_path / str(number))
            for number, clone in enumerate(clones)
        ]
        first, second = (run.result() for run in runs)
    assert first.path.read_bytes() == second.path.read_bytes()
    assert (first.sha256, first.tree_hash, first.s3_key) == (second.sha256, second.tree_hash, second.s3_key)
    with zipfile.ZipFile(first.path) as archive:
        found = {name: library_platform(archive.read(name)) for name in archive.namelist() if ".so" in name}
        assert not any(str(clones[0]).encode() in archive.read(name) for name in archive.namelist())
    assert set(found.values()) == ({f"{target.system} {target.cpu}"} if example != "standard-library" else set())


# --- The container image: what can be said of a Dockerfile without Docker ------------------------------------------


def instructions() -> list[tuple[str, str]]:
    lines = (IMAGE / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    words = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, rest in words]


def test_the_image_is_aws_s_own_for_the_functions_python_and_processor() -> None:
    (function,) = [subscription.aws.function for subscription in manifest_of(IMAGE).subscriptions.values()]
    (base,) = [rest for word, rest in instructions() if word == "FROM"]
    python, architecture = re.fullmatch(r"public\.ecr\.aws/lambda/python:(3\.\d+)-(arm64|x86_64)", base).groups()
    assert python in LAMBDA_PYTHONS
    assert (f"python{python}", architecture) == (function.runtime, function.architecture)
    platform = {"arm64": "linux/arm64", "x86_64": "linux/amd64"}[architecture]
    assert f"--platform {platform} --file examples/container-image/Dockerfile" in (IMAGE / "Dockerfile").read_text()


def test_the_image_calls_what_the_manifest_says() -> None:
    (function,) = [subscription.aws.function for subscription in manifest_of(IMAGE).subscriptions.values()]
    assert [json.loads(rest) for word, rest in instructions() if word == "CMD"] == [[function.handler]]


def test_everything_that_the_image_copies_is_in_the_clone_and_is_enough() -> None:
    copied = {
        source: rest.split()[-1] for word, rest in instructions() if word == "COPY" for source in rest.split()[:-1]
    }
    assert [source for source in copied if not (ROOT / source).exists()] == []
    towpath = {source for source, to in copied.items() if to.startswith("/tmp/towpath")}
    assert towpath == {*PACKAGES, *FILES, "terraform"}  # what makes Towpath's wheel: a link in it leads to the module
    assert all(copied[name] == f"/tmp/towpath/{name}" for name in PACKAGES)
    (handler,) = [subscription.handler for subscription in manifest_of(IMAGE).subscriptions.values()]
    assert copied[f"examples/container-image/{handler.partition(':')[0]}.py"] == "${LAMBDA_TASK_ROOT}/"


def test_the_image_installs_from_what_was_copied_and_compiles_last() -> None:
    runs = [rest for word, rest in instructions() if word == "RUN"]
    requirements = [rest.split()[-1] for word, rest in instructions() if word == "COPY" and "requirements.txt" in rest]
    assert runs[0].endswith(f'--target "${{LAMBDA_TASK_ROOT}}" --requirement {requirements[0]}')
    assert (IMAGE / "requirements.txt").read_text().splitlines()[0] == "/tmp/towpath[lambda]"
    assert [word for word, _ in instructions()][-2:] == ["RUN", "CMD"]
    assert "compileall" in runs[-1]


def test_what_the_image_would_hold_answers_an_event(tmp_path: Path) -> None:
    """The instructions, done in a folder that stands for the image's root, by uv in place of pip."""
    image, function = tmp_path / "image", tmp_path / "function"
    task = function / "task"
    task.mkdir(parents=True)
    python, uv = sys.executable, find_uv(tmp_path).executable
    for word, rest in instructions():
        if word == "COPY":
            *sources, to = in_folder(rest, image, task).split()
            for source in sources:
                copy_into_image(ROOT / source, Path(to), exactly=not to.endswith("/"))
        elif word == "RUN":
            command = in_folder(rest, image, task).replace(
                "pip install --no-cache-dir", f"{uv} pip install --python {python}"
            )
            command = command.replace("python -m compileall", f"{python} -m compileall")
            requirements = image / "tmp" / "requirements.txt"
            requirements.write_text((IMAGE / "requirements.txt").read_text().replace("/tmp/", f"{image}/tmp/"))
            subprocess.run(["bash", "-ec", command], check=True, capture_output=True)
    (name,) = manifest_of(IMAGE).subscriptions
    stamp = Stamp(name=name, entry_point="lambda_runtime.entry.handler", target=HOST)
    settings = function_environment(manifest_of(IMAGE), name, REGION)
    with closing(make_sandbox(function, stamp, settings, Conditions())) as sandbox:
        assert sandbox.wait_until_ready().error is None
        record = json.loads((ROOT / "examples/compiled-dependency/event.json").read_text())
        invoked = sandbox.invoke("event", record)
    assert invoked.response == {"batchItemFailures": []}
    assert "1 lines" in invoked.logs


def in_folder(text: str, root: Path, task: Path) -> str:
    return text.replace("/tmp/", f"{root}/tmp/").replace("${LAMBDA_TASK_ROOT}", str(task))


def copy_into_image(source: Path, to: Path, *, exactly: bool) -> None:
    """As COPY does: a folder's contents into a folder, a file into a folder whose name ends with a slash."""
    if source.is_dir():
        shutil.copytree(source, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        return
    target = to if exactly else to / source.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
