"""What a plan of Terraform says, as facts."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.parity.properties import TERRAFORM, Facts, add, read

# Blocks that Terraform's description of the configuration leaves out, since they are there or not by a condition.
DYNAMIC = {"image_config", "vpc_config", "scaling_config"}
_COMMON = {"aws_kms_key", "aws_kms_alias", "aws_cloudwatch_dashboard"}
_META = {"count", "for_each", "depends_on", "lifecycle", "timeouts"}
READERS = {
    "attributes": lambda found: [[one["name"], one["type"]] for one in found],
    "ttl": lambda ttl: [ttl[0]["attribute_name"], ttl[0]["enabled"]],
    "recovery": lambda recovery: recovery[0]["enabled"],
    "environment": lambda environment: environment[0]["variables"],
    "logging": lambda logging: [logging[0]["log_format"], logging[0]["log_group"]],
    "command": lambda image: image[0]["command"],
    "vpc": lambda vpc: [sorted(vpc[0]["subnet_ids"]), sorted(vpc[0]["security_group_ids"])],
    "maximum concurrency": lambda scaling: scaling[0]["maximum_concurrency"],
}


def facts_of(plan: Mapping[str, Any], module: str) -> Facts:
    """The facts of the module instance ``module`` in a plan's JSON."""
    facts: Facts = {}
    written = _written(plan, module)
    for change in plan["resource_changes"]:
        if change.get("module_address") != f"module.{module}" or change["mode"] != "managed":
            continue
        kind, index, after = (change["type"], change["name"]), str(change.get("index", "")), change["change"]["after"]
        if kind == ("aws_iam_role_policy", "function"):
            add(facts, ("role", index), "policies", {after["name"]: json.loads(after["policy"])})
        elif kind == ("aws_iam_role_policy_attachment", "extra"):
            role = facts.setdefault(("role", index.rpartition("/")[0]), {})
            role["extra policies"] = sorted([*role.get("extra policies", []), after["policy_arn"]])
        else:
            _add(
                facts,
                kind,
                "" if kind[0].startswith(("aws_kms", "aws_cloudwatch_dash")) else index,
                after,
                written[kind],
            )
    return facts


def _add(facts: Facts, kind: tuple[str, str], index: str, after: Mapping[str, Any], written: set[str]) -> None:
    table = TERRAFORM[kind]
    unknown = written - table.properties.keys() - _META
    assert not unknown, f"{kind} sets {sorted(unknown)}, which no table names"
    standard = after.get("fifo_queue", after.get("fifo_topic")) is False
    for attribute, named in table.properties.items():
        if standard and attribute == "content_based_deduplication":
            continue  # the provider's default, which only a FIFO one has
        if named is not None and attribute in written | DYNAMIC:
            add(facts, (table.name, index), named, read(after.get(attribute), READERS.get(named)))


def _written(plan: Mapping[str, Any], module: str) -> dict[tuple[str, str], set[str]]:
    """What the module's configuration sets of each resource, by type and name; the rest are the provider's defaults."""
    resources = plan["configuration"]["root_module"]["module_calls"][module]["module"]["resources"]
    return {(one["type"], one["name"]): set(one["expressions"]) for one in resources}


def outputs_of(plan: Mapping[str, Any], module: str) -> dict[str, Any]:
    """The outputs of the module instance ``module``, as far as a plan knows them."""
    told = plan["output_changes"][module]["after"]
    return {name: _parsed(value) for name, value in told.items() if value not in (None, {}, [])}


def _parsed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _parsed(item) for key, item in value.items()}
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value within ``value``, with its path."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    else:
        yield path, value
