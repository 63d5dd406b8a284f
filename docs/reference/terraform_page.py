"""Writes the README of the Terraform module, its tables from the HCL; ``generate.py`` runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

MODULE = Path(__file__).parents[2] / "terraform"

BLOCK = re.compile(r'^(variable|output|resource) "([^"]+)"(?: "([^"]+)")? \{\n(.*?)^\}$', re.MULTILINE | re.DOTALL)
ARGUMENT = re.compile(r"^  (\w+) += (.*(?:\n    .*|\n  [\])}].*)*)", re.MULTILINE)

HEAD = """\
# Towpath's Terraform module

Everything that a [manifest](../docs/reference/manifest.md) describes on AWS: topics, queues with their dead-letter and
delivery-failure queues, subscriptions, functions with roles, logs, aliases and event source mappings, ledgers of
deduplication keys, a KMS key, alarms, a dashboard. The module copies names and numbers from the manifest and computes
none. [Deploy with Terraform](../docs/how-to/deploy-with-terraform.md) goes through a deployment from the first to the
last step; [`examples/basic`](examples/basic/main.tf) is the shortest root,
[`examples/complete`](examples/complete/main.tf) has everything that can be chosen.

```hcl
module "towpath" {
  source = "./towpath/terraform"

  manifest_path = "manifest.json"
  region        = "eu-west-1"
  account_id    = "123456789012"
  artifacts     = { "documents.convert" = jsondecode(file("documents.convert.json")) } # of towpath bundle --json
}
```

A plan needs no AWS: there is no data source, and every ARN is known before anything is made. What is wrong with the
manifest or the inputs is refused by `terraform plan`, in one sentence.

Instances have the manifest's names as keys, `aws_sqs_queue.queue["documents.convert"]`, so that a topic or subscription
more or less changes no other. Nothing has `prevent_destroy`, which could not be lifted for one subscription: read the
plan before you apply it.

"""

TAIL = """\

## Who may do what

The statements are the manifest's; the outputs `*_policy_json` are for roles that you make. A map has more than one
policy where one would be longer than IAM allows: attach all of them.

| who | may |
|---|---|
| a function's role | receive from its queue, send to its dead letters, write its log; what Lambda needs in a VPC |
| `publisher_policy_json` | publish to the topics, use their ledgers |
| `worker_policy_json`, `consumer_policy_json` | receive from the queues of all, or of one, and set aside dead letters |
| `operator_policy_json` | look at every queue, empty and fill those of dead letters, send back to the others |
| SNS | send to a queue from its own topic and this account, over TLS as everybody |

## What checkov would have otherwise

`make checkov` is clean but for these, which are skipped in place with their reasons:

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A variable, an output or a resource, with the text of its arguments on one line each."""

    kind: str
    name: str
    body: str
    arguments: dict[str, str]
    file: str


def terraform_page() -> str:
    """The whole README."""
    found = list(blocks())
    inputs = sorted((one for one in found if one.kind == "variable"), key=lambda one: "default" in one.arguments)
    lines = [
        *_table(("input", "type", "default", "what it is"), (_input(one) for one in inputs), "Inputs"),
        *_table(("output", "what it is"), (_output(one) for one in found if one.kind == "output"), "Outputs"),
        *_table(("resource", "file"), (_resource(one) for one in found if one.kind == "resource"), "Resources"),
        *_table(("needs", "version"), _versions(), "Needs"),
    ]
    skips = sorted({skip for one in found for skip in re.findall(r"# checkov:skip=(\w+): (.*)", one.body)})
    skipped = ["| check | why not |", "|---|---|", *(f"| `{check}` | {why} |" for check, why in skips)]
    return HEAD + "\n".join(lines) + TAIL + "\n".join(skipped) + "\n"


def blocks() -> Iterator[Block]:
    """Every block of the module's files, in their order."""
    for file in sorted(MODULE.glob("*.tf")):
        for kind, first, second, body in BLOCK.findall(file.read_text(encoding="utf-8")):
            arguments = {name: _on_one_line(value) for name, value in ARGUMENT.findall(body)}
            name = f"{first}.{second}" if second else first
            yield Block(kind=kind, name=name, body=body, arguments=arguments, file=file.name)


def _on_one_line(value: str) -> str:
    """An argument of several lines as HCL writes it on one."""
    lines = [" ".join(line.split()) for line in value.splitlines()]
    ended = [line if line.endswith("{") or after.startswith("}") else f"{line}," for line, after in pairwise(lines)]
    return " ".join([*ended, lines[-1]])


def _input(one: Block) -> tuple[str, ...]:
    default = one.arguments.get("default")
    kind = one.arguments["type"].replace("|", "\\|")
    return f"`{one.name}`", f"`{kind}`", "must be given" if default is None else f"`{default}`", _text(one)


def _output(one: Block) -> tuple[str, ...]:
    return f"`{one.name}`", _text(one)


def _resource(one: Block) -> tuple[str, ...]:
    return f"`{one.name}`", f"[`{one.file}`]({one.file})"


def _text(one: Block) -> str:
    return one.arguments["description"].strip('"').replace("$${", "${")


def _versions() -> Iterator[tuple[str, ...]]:
    text = (MODULE / "versions.tf").read_text(encoding="utf-8")
    for name, pattern in (("Terraform", r'required_version = "([^"]+)"'), ("AWS provider", r'\bversion = "([^"]+)"')):
        (version,) = re.findall(pattern, text)
        yield name, version.replace("<", "\\<").replace(">", "\\>")


def _table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]], title: str) -> list[str]:
    lines = [f"## {title}", "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]
