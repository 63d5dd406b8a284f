"""``towpath bindings``: what a deployment made, and whether it is what the manifest says."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from aws_transport.address import Address
from aws_transport.bindings import Bindings
from aws_transport.checking.comparing import findings
from aws_transport.checking.deployed import Place, first_place
from aws_transport.checking.findings import SEVERITIES, Finding
from aws_transport.checking.pacing import Pacer
from aws_transport.checking.reading import Reader, Services
from aws_transport.checking.rights import documents
from aws_transport.clients import ENDPOINT_VARIABLE, client_maker
from aws_transport.stacks import bindings_of_stacks
from towpath.cli.output import (
    JsonFlag,
    print_document,
    print_failure,
    print_json,
    print_sentence,
    print_table,
    telling,
    write_whole,
)
from towpath.errors import InvalidBindings, Mistake
from towpath.manifest import Manifest

# AWS Lambda's quota is 15 requests a second for all of its control plane, for everybody in the account and region
# (AWS Lambda developer guide, "Lambda quotas", "API requests"); here are four requests to Lambda among ten.
_RATE: Final = 12.0

app = typer.Typer(help="What a deployment made on AWS, and whether it is what the manifest says.", no_args_is_help=True)

ManifestFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="MANIFEST", envvar="TOWPATH_MANIFEST", help="The manifest that was deployed.")
]
BindingsFile: TypeAlias = Annotated[
    Path, typer.Option("--bindings", envvar="TOWPATH_BINDINGS", help="The bindings that the deployment wrote.")
]
AwsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--transport",
        envvar="TOWPATH_TRANSPORT",
        help="Region and rights: aws://eu-west-1?role_arn=... Default: the region at hand, and boto3's own rights.",
        show_default=False,
    ),
]


@app.command("check")
def check_command(
    *,
    manifest: ManifestFile = Path("manifest.json"),
    bindings: BindingsFile = Path("bindings.json"),
    transport: AwsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare what exists on AWS with the manifest: what is, what should be, what to do. Nothing is changed.

    Everything is looked at, whatever is missing or refused: topics, queues, policies, deliveries, functions, aliases,
    event source mappings, tables and keys. Exit 0 when all is as it should be but for warnings, 1 when there is an
    error, 2 when a file has mistakes.

    Example: towpath bindings check --bindings bindings.json manifest.json
    """
    wanted, bound = Manifest.load(manifest), Bindings.load(bindings)
    place = _place(bound, bindings)
    address = Address(region=place.region) if transport is None else Address.parse(transport)
    if address.region != place.region:
        problem = f"are in {place.region}, and the transport's URL names {address.region}"
        raise InvalidBindings(str(bindings), [Mistake(path="", problem=problem)])
    facts = Reader(services=_services(address), pacer=Pacer(_RATE, time.monotonic, time.sleep)).read(wanted, bound)
    found = findings(wanted, bound, facts, place)
    counts = {severity: sum(one.severity == severity for one in found) for severity in SEVERITIES}
    looked = {"topics": len(facts.topics), "subscriptions": len(facts.subscriptions)}
    if as_json:
        print_json({"findings": [asdict(one) for one in found], "counts": dict(counts), "looked_at": dict(looked)})
    else:
        _print(found, counts, looked)
    if counts["error"]:
        raise typer.Exit(1)


@app.command("rights")
def rights_command(
    *,
    manifest: ManifestFile = Path("manifest.json"),
    bindings: BindingsFile = Path("bindings.json"),
    key: Annotated[
        str | None, typer.Option("--key", metavar="ARN", help="The KMS key of a deployment that has one.")
    ] = None,
) -> None:
    """Print what a check must be allowed: IAM policy documents by name, each small enough for a managed policy.

    Example: towpath bindings rights --bindings bindings.json manifest.json
    """
    bound = Bindings.load(bindings)
    print_json(dict(documents(Manifest.load(manifest), _place(bound, bindings), key)))


@app.command("from-stack")
def from_stack_command(
    *,
    stacks: Annotated[
        list[str] | None, typer.Argument(metavar="[STACK]...", help="Names of the deployment's stacks.")
    ] = None,
    manifest: Annotated[
        Path | None, typer.Option("--manifest", envvar="TOWPATH_MANIFEST", help="Whose stacks to read, without names.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="Where to write them; - is standard output.")] = (
        "bindings.json"
    ),
    transport: AwsOption = None,
) -> None:
    """Write the bindings that CDK's stacks have among their outputs, of all stacks together.

    Terraform has them as they are: terraform output -json bindings > bindings.json

    Example: towpath bindings from-stack towpath-documents-prod-topics towpath-documents-prod-subscriptions-1
    """
    names = stacks or (_stacks_of(Manifest.load(manifest)) if manifest is not None else [])
    if not names:
        raise typer.BadParameter("name the stacks, or the manifest that they were deployed from with --manifest")
    address = Address.parse(transport) if transport is not None else Address(region=_own_region())
    made = client_maker(address, os.environ.get(ENDPOINT_VARIABLE) or None)("cloudformation")
    found = bindings_of_stacks(made, names)
    if output == "-":
        print_document(found.to_json())
        return
    try:
        write_whole(Path(output), found.to_json())
    except OSError as error:
        print_failure(f"{output} cannot be written: {error.strerror}")
        raise typer.Exit(1) from error
    with telling(f"{output} is written"):
        counts = f"topics: {len(found.topics)}, subscriptions: {len(found.subscriptions)}"
        print_sentence(f"Wrote {output} ({counts}).")


def _place(bindings: Bindings, file: Path) -> Place:
    place = first_place(bindings)
    if place is None:
        problem = "name no topic or queue by an ARN with region and account; write them anew from a deployment"
        raise InvalidBindings(str(file), [Mistake(path="", problem=problem)])
    return place


def _services(address: Address) -> Services:
    make = client_maker(address, os.environ.get(ENDPOINT_VARIABLE) or None)
    return Services(
        sns=make("sns"), sqs=make("sqs"), functions=make("lambda"), tables=make("dynamodb"), keys=make("kms")
    )


def _own_region() -> str:
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise typer.BadParameter("name the region with --transport aws://REGION, or set AWS_REGION")
    return region


def _stacks_of(manifest: Manifest) -> list[str]:
    if manifest.aws is None:
        return []
    own = [one.aws.stack_name for one in manifest.subscriptions.values() if one.aws is not None]
    return list(dict.fromkeys([manifest.aws.topics_stack_name, *sorted(own)]))


def _print(found: Sequence[Finding], counts: dict[Any, int], looked: dict[str, int]) -> None:
    if found:
        headings = ("severity", "subject", "what is", "what should be", "what to do")
        rows = [(one.severity, one.subject, one.what_is, one.what_should_be, one.what_to_do) for one in found]
        print_table(headings, rows)
    told = ", ".join(f"{count} {_noun(kind, count)}" for kind, count in counts.items() if count) or "no findings"
    seen = ", ".join(f"{count} {_noun(kind.removesuffix('s'), count)}" for kind, count in looked.items())
    print_sentence(f"Looked at {seen}: {told}.")


def _noun(one: str, count: int) -> str:
    return one if count == 1 else f"{one}s"
