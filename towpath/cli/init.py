"""``towpath init``: a project of one's own, which runs at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from typing import Annotated, Final, TypeAlias, get_args

import typer

from towpath.cli.origin import origin
from towpath.cli.output import JsonFlag, print_failure, print_json, print_sentence, telling
from towpath.cli.starting import MODULE, Start, name_problem, needed_by, present, project_files, write_project
from towpath.topology.models import Runtime

_NEXT: Final = ("make test", "make demo", "make dev", "make bundle", "make synth")


class InfrastructureChoice(StrEnum):
    """What deploys the project."""

    TERRAFORM = "terraform"
    CDK = "cdk"


class PayloadChoice(StrEnum):
    """What the handler takes: a pydantic model, or JSON as it came."""

    MODEL = "model"
    JSON = "json"


Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The project's name, and that of its folder.")]
Infrastructure: TypeAlias = Annotated[InfrastructureChoice, typer.Option("--infrastructure", help="What deploys it.")]
Payload: TypeAlias = Annotated[
    PayloadChoice, typer.Option("--payload", help="What its handler takes: a pydantic model, or plain JSON.")
]
From: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--towpath",
        metavar="PATH",
        help="The clone or wheel of Towpath that it depends on. Default: where this one came from.",
        show_default=False,
    ),
]


def init(
    name: Name,
    *,
    infrastructure: Infrastructure = InfrastructureChoice.TERRAFORM,
    payload: Payload = PayloadChoice.MODEL,
    towpath: From = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a project in the folder NAME: topology, handler, tests, Makefile, and Terraform or the CDK.

    It runs at once: 'make test', 'make demo', 'make bundle' and 'make synth' need nothing to be filled in. No file is
    ever overwritten.

    Example: towpath init shop --infrastructure cdk --payload json
    """
    if (problem := name_problem(name, needed_by("towpath", _requires))) is not None:
        raise typer.BadParameter(problem, param_hint="NAME")
    folder = Path(name)
    start = Start(
        name=name,
        infrastructure=infrastructure.value,
        payload=payload.value,
        origin=origin(folder, distribution("towpath"), Path(__file__).parents[1], towpath),
        python=_python(),
    )
    texts = project_files(start)
    if there := present(folder, texts):
        print_failure(f"{folder} has {', '.join(there)} already, and nothing was written: choose another name")
        raise typer.Exit(1)
    _write(folder, texts)
    _tell(folder, start, sorted(texts), as_json=as_json)


def _requires(package: str) -> list[str]:
    try:
        return requires(package) or []
    except PackageNotFoundError:
        return []


def _python() -> str:
    """The Python of the project's function: this one's minor version, where Lambda has it."""
    here = f"python{sys.version_info.major}.{sys.version_info.minor}"
    supported: tuple[str, ...] = get_args(Runtime)
    return (here if here in supported else "python3.13").removeprefix("python")


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    try:
        write_project(folder, texts)
    except OSError as error:
        print_failure(f"{error.filename} cannot be written: {error.strerror}; nothing of the project is left")
        raise typer.Exit(1) from error


def _tell(folder: Path, start: Start, paths: Sequence[str], *, as_json: bool) -> None:
    with telling(f"{folder} is made"):
        if as_json:
            chosen = {"name": start.name, "infrastructure": start.infrastructure, "payload": start.payload}
            print_json({**chosen, "folder": str(folder.resolve()), "files": [*paths], "next": [*_NEXT]})
            return
        for path in paths:
            if not path.startswith(MODULE):
                print_sentence(f"  {folder / path}")
        print_sentence(f"Made {folder}: {len(paths)} files. Next: cd {folder} && make test, then make demo.")
