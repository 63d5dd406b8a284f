"""The CDK app: ``cdk.json`` runs it, with what it was told in the context."""

from __future__ import annotations

import os
import sys

from aws_cdk import (
    App,
    BootstraplessSynthesizer,
    CliCredentialsStackSynthesizer,
    DefaultStackSynthesizer,
    Environment,
    IStackSynthesizer,
)

from cdk_app.context import Synthesis, Wanted, read_context
from cdk_app.stacks import towpath_stacks
from towpath.errors import TowpathError


def main() -> int:
    """Synthesise the stacks. 0, or 1 with a sentence on standard error about what is wrong."""
    app = App()
    try:
        wanted = read_context(app.node.get_all_context(), os.environ)
        _make(app, wanted)
    except TowpathError as error:
        print(f"towpath: {error}", file=sys.stderr)  # noqa: T201 - what the CDK's CLI shows
        return 1
    app.synth()
    return 0


def _make(app: App, wanted: Wanted) -> None:
    where = Environment(account=wanted.account, region=wanted.region)
    synthesizer = _synthesizer(wanted.synthesis)
    towpath_stacks(app, wanted.manifest, wanted.inputs, env=where, synthesizer=synthesizer)


def _synthesizer(synthesis: Synthesis) -> IStackSynthesizer:
    match synthesis:
        case "default":
            return DefaultStackSynthesizer()
        case "cli-credentials":
            return CliCredentialsStackSynthesizer()
        case "bootstrapless":
            return BootstraplessSynthesizer()


if __name__ == "__main__":
    sys.exit(main())
