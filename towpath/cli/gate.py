"""The gate before a deployment: ``towpath terraform gate`` and ``towpath cdk gate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from towpath.cli.output import JsonFlag, print_json, print_sentence, print_warning
from towpath.gate import Blocked, Edit, Verdict, blocked, load_overrides, verdict
from towpath.gate.files import plan_edits, template_edits
from towpath.message import utc_now

Allow: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--allow", metavar="FILE", help="The overrides: addresses, environment, last day and reason, as JSON."
    ),
]
Environment: TypeAlias = Annotated[
    str | None, typer.Option("--environment", "-e", help="Which environment's overrides count; needed with --allow.")
]

terraform = typer.Typer(help="What a plan of Terraform's would do to what runs.", no_args_is_help=True)
cdk = typer.Typer(help="What a deployment by the CDK would do to what runs.", no_args_is_help=True)


@terraform.callback()
@cdk.callback()
def _group() -> None:
    """Typer makes a single command of an app that has one; this keeps it a group."""


@terraform.command("gate")
def terraform_gate(
    *,
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="What terraform show -json printed of the saved plan.")],
    allow: Allow = None,
    environment: Environment = None,
    as_json: JsonFlag = False,
) -> None:
    """Stop a plan that deletes, replaces or forgets what runs, or makes it worse, unless each address is allowed.

    Worse is a shorter retention, fewer receives or a shorter visibility timeout, a filter that is not provably wider,
    raw delivery or a mapping switched off, another key, an alarm less, a policy that allows more or less, and each of
    these that is known only after the apply. Exit 0 when nothing is blocked, 1 when something is, 2 on wrong use.

    Example: towpath terraform gate plan.json --allow overrides.json --environment prod
    """
    _judge(plan_edits(plan), allow, environment, as_json=as_json)


@cdk.command("gate")
def cdk_gate(
    *,
    deployed: Annotated[
        Path, typer.Argument(metavar="DEPLOYED", help="The folder of the deployed templates, STACK.template.json.")
    ],
    synthesised: Annotated[Path, typer.Argument(metavar="SYNTHESISED", help="The folder that cdk synth wrote.")] = Path(
        "cdk.out"
    ),
    allow: Allow = None,
    environment: Environment = None,
    as_json: JsonFlag = False,
) -> None:
    """Stop a deployment that deletes, replaces or forgets what runs, or makes it worse, unless each address is allowed.

    The deployed template is what aws cloudformation get-template --stack-name STACK answers, the other what cdk synth
    wrote; two files may be given instead of folders. Rules and exits are those of towpath terraform gate.

    Example: towpath cdk gate deployed cdk.out --allow overrides.json --environment prod
    """
    _judge(template_edits(deployed, synthesised), allow, environment, as_json=as_json)


def _judge(edits: Sequence[Edit], allow: Path | None, environment: str | None, *, as_json: bool) -> None:
    if (allow is None) is not (environment is None):
        raise typer.BadParameter("--allow and --environment go together: an override is for one environment")
    found = blocked(edits)
    overrides = load_overrides(allow) if allow is not None else ()
    addresses = {edit.address for edit in edits}
    judged = verdict(found, addresses, overrides, environment or "", utc_now().date())
    _print(judged, len(edits), as_json=as_json)
    if judged.blocked:
        raise typer.Exit(1)


def _print(judged: Verdict, changes: int, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "blocked": [asdict(one) for one in judged.blocked],
                "allowed": [asdict(one) for one in judged.allowed],
                "notes": list(judged.notes),
                "changes": changes,
            }
        )
        return
    for one in judged.blocked:
        print_sentence(f"blocked, {_told(one)}")
    for one in judged.allowed:
        print_sentence(f"allowed, {_told(one)}")
    for note in judged.notes:
        print_warning(note)
    print_sentence(_summary(judged, changes))


def _told(one: Blocked) -> str:
    return f"{one.impact}: {one.kind} {one.address}: {one.sentence}"


def _summary(judged: Verdict, changes: int) -> str:
    resources = f"{changes} {'resource changes' if changes == 1 else 'resources change'}"
    if not judged.blocked and not judged.allowed:
        return f"Nothing is blocked: {resources}."
    return f"{len(judged.blocked)} blocked, {len(judged.allowed)} allowed by overrides: {resources}."
