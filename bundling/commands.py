"""``towpath bundle``: build a zip for Lambda, and verify one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from bundling.build import BundleRequest, build
from bundling.loopback_sqs import ENDPOINT
from bundling.reports import bundle_json, print_bundle, print_verification, verification_json
from bundling.sandbox import LAMBDA_HAS, REGION, Conditions
from bundling.selection import Selection, function_environment, select, whose_settings
from bundling.stamp import read_stamp
from bundling.target import Target, host_target, lambda_target
from bundling.upload import make_store, read_place, upload
from bundling.verify import Sqs, read_event, verify
from towpath.cli.known import subscriptions_of_manifest
from towpath.cli.output import JsonFlag, print_json, print_sentence, stderr, telling
from towpath.manifest import Manifest

ManifestOption = Annotated[
    Path, typer.Option("--manifest", "-m", envvar="TOWPATH_MANIFEST", help="The manifest that says what runs where.")
]


class TargetChoice(StrEnum):
    """Where the target comes from."""

    MANIFEST = "manifest"
    HOST = "host"


class BuildByDefault(TyperGroup):
    """A group whose first word may be left out: what is no command of it goes to ``build``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``build`` in front, unless a command or the help is asked for. ``ctx`` is click's Context, be it click's
        own or the copy that newer versions of Typer carry.
        """
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["build", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=BuildByDefault,
    no_args_is_help=True,
    help="Make the zip of a subscription's Lambda function: 'towpath bundle SUBSCRIPTION' is short for "
    "'towpath bundle build SUBSCRIPTION'.",
)


@app.command("build")
def build_command(
    *,
    subscription: Annotated[
        str,
        typer.Argument(
            metavar="SUBSCRIPTION",
            help="Its name, or '.' for one zip of all that Lambda hosts.",
            autocompletion=subscriptions_of_manifest,
        ),
    ],
    project: Annotated[Path, typer.Option(help="The folder with the handler and its dependencies file.")] = Path(),
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the zip.")] = Path("dist"),
    manifest: ManifestOption = Path("manifest.json"),
    target: Annotated[
        TargetChoice, typer.Option(help="The Python and processor of the manifest, or of this machine.")
    ] = TargetChoice.MANIFEST,
    runtime: Annotated[str | None, typer.Option(help="A Lambda runtime instead, such as python3.13.")] = None,
    architecture: Annotated[str | None, typer.Option(help="An architecture instead: arm64 or x86_64.")] = None,
    pyc: Annotated[bool, typer.Option(help="Put compiled files in, which about halves the cold start.")] = True,
    with_boto3: Annotated[bool, typer.Option("--with-boto3", help="Put boto3 in, though Lambda has one.")] = False,
    requirements: Annotated[
        Path | None, typer.Option(help="The dependencies file, instead of the first that the project has.")
    ] = None,
    upload_to: Annotated[
        str | None, typer.Option("--upload", metavar="S3_URL", help="Put the zip into S3, at s3://bucket/prefix.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make the zip, the same bytes for the same project, locked dependencies and target.

    uv resolves and installs the dependencies for the target: wheels only, except for folders named as dependencies.
    They are those of the first there is of requirements.txt (which may be locked with hashes), pylock.toml, uv.lock and
    pyproject.toml, in the project. With --upload the zip comes into S3 under a key that its content makes, unless it is
    there. Exit 0 when the zip is made, 1 when not.

    Example: towpath bundle documents.convert --project examples/quickstart
    """
    place = read_place(upload_to) if upload_to is not None else None
    store = make_store() if place is not None else None
    selected = select(Manifest.load(manifest), subscription, str(manifest))
    bundle = build(
        BundleRequest(
            name=selected.name,
            handlers=selected.handlers,
            entry_point=selected.entry_point,
            target=_target(selected, target, runtime, architecture),
            project=project,
            output=output,
            bytecode="compiled" if pyc else "left out",
            boto3="included" if with_boto3 else "left out",
            requirements=requirements,
            route="direct upload" if place is None else "S3",
        ),
        _tell,
    )
    uploaded = None
    if place is not None and store is not None:
        _tell(f"upload it to s3://{place.bucket}")
        uploaded = upload(bundle.path, bundle.s3_key, bundle.sha256, place, store)
    with telling(f"{bundle.path} is made"):
        if as_json:
            print_json(bundle_json(bundle, uploaded))
        else:
            print_bundle(bundle, uploaded)


@app.command("verify")
def verify_command(
    context: typer.Context,
    *,
    path: Annotated[Path, typer.Argument(metavar="ZIP", help="A zip that 'towpath bundle' made.")],
    event: Annotated[list[Path], typer.Option("--event", "-e", help="A JSON file with an SQS event; may be repeated.")],
    env: Annotated[
        list[str] | None, typer.Option("--env", help="NAME=VALUE for the function; may be repeated.")
    ] = None,
    packages: Annotated[
        list[str] | None, typer.Option("--with", help="A package beside the runtime client; may be repeated.")
    ] = None,
    bare: Annotated[
        bool, typer.Option("--bare", help="Neither boto3, which Lambda's Python has, nor a stand-in for SQS.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for the start and for each event.")] = 30,
    subscription: Annotated[
        str | None, typer.Option(help="Whose settings the function gets, instead of the zip's own.")
    ] = None,
    manifest: ManifestOption = Path("manifest.json"),
    as_json: JsonFlag = False,
) -> None:
    """Run the zip under AWS's runtime client (awslambdaric) with boto3 and nothing else, and send it events.

    The function gets its settings from the manifest where that exists, and no credentials but those of --env. Its own
    calls to SQS, for retries and dead letters, go to a stand-in that says yes and counts them, unless --env gives
    TOWPATH_AWS_ENDPOINT. Exit 0 when it answered every event, 1 when it failed, 2 when the zip is for another Python
    or processor than this machine's: then its contents were checked and it was not run.

    Example: towpath bundle verify dist/documents.convert.zip --event event.json
    """
    settings = _settings(path, manifest, subscription) if manifest.is_file() else {}
    given = _variables(env or [])
    conditions = Conditions(
        timeout_seconds=timeout, packages=(*(() if bare else LAMBDA_HAS), *dict.fromkeys(packages or ())), tell=_tell
    )
    sqs: Sqs = "not there" if bare or ENDPOINT in given else "stand-in"
    report = verify(path, [read_event(file) for file in event], {**settings, **given}, conditions, sqs)
    if as_json:
        print_json(verification_json(report))
    else:
        print_verification(report, debug=bool(context.obj))
    if report.run is None:
        raise typer.Exit(2)
    if report.run.started.error is not None and not manifest.is_file() and not as_json:
        print_sentence(f"{manifest} does not exist, so the function got no settings; name the manifest with --manifest")
    if not report.run.succeeded:
        raise typer.Exit(1)


def _tell(step: str) -> None:
    """Progress, on standard error."""
    stderr().print(Text(f"{step} ..."), style="dim", soft_wrap=True)


def _target(selected: Selection, choice: TargetChoice, runtime: str | None, architecture: str | None) -> Target:
    """The target: this machine's, or the manifest's with what was given instead."""
    given = host_target() if choice is TargetChoice.HOST else selected.target
    wanted = lambda_target(runtime or f"python{given.python}", architecture or given.architecture)
    return given if (given.python, given.architecture) == (wanted.python, wanted.architecture) else wanted


def _settings(path: Path, manifest_path: Path, subscription: str | None) -> dict[str, str]:
    """What a deployment sets for the function: of ``subscription``, or of the one that the zip was built for."""
    manifest = Manifest.load(manifest_path)
    name = subscription or whose_settings(manifest, path, read_stamp(path).name)
    return function_environment(manifest, name, REGION, str(manifest_path))


def _variables(pairs: list[str]) -> dict[str, str]:
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--env")
        variables[name] = value
    return variables
