"""The manifests that are compared, with their inputs: those of examples and tests, and generated ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from tests.fakes.cloudformation import ACCOUNT, REGION
from tests.fakes.topologies import topologies
from tests.parity.planning import Instance
from tests.servers.cdk import SHA256
from towpath.errors import InvalidTopology
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import load_topology, parse_topology

PROJECT = Path(__file__).resolve().parents[2]
GOLDEN = PROJECT / "tests/unit/golden"
GENERATED = 20
ALARM_TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:operators"
EVERY_INPUT: Mapping[str, Any] = {
    "create_kms_key": True,
    "alarm_actions": [ALARM_TOPIC],
    "ok_actions": [ALARM_TOPIC, f"{ALARM_TOPIC}-calm"],
    "alarm_overrides": {
        "orders.invoice": {
            "age": {"threshold": 60, "period_seconds": 60, "evaluation_periods": 3},
            "errors": {"actions_enabled": False},
        }
    },
    "tags": {"team": "orders", "towpath:topology": "not this"},
    "permissions_boundary": f"arn:aws:iam::{ACCOUNT}:policy/boundary",
    "log_retention_days": 7,
    "vpc": {"subnet_ids": ["subnet-0aa11111", "subnet-0bb22222"], "security_group_ids": ["sg-0cc33333"]},
    "extra_policies": {
        "orders.invoice": {
            "write": f"arn:aws:iam::{ACCOUNT}:policy/write",
            "read": f"arn:aws:iam::{ACCOUNT}:policy/read",
        }
    },
    "reserved_concurrency": {"orders.invoice": 300},
    "function_environment": {"orders.invoice": {"LANGUAGE": "en"}},
}


def of_file(path: Path) -> Manifest:
    """The manifest of a topology."""
    return resolve(load_topology(path), "prod")


def instances(image: str) -> dict[str, Instance]:
    """The chosen ones, by names that Terraform takes for modules. ``image`` is the code of one of the functions."""
    everything = of_file(GOLDEN / "everything.toml")
    named = {
        "documents": Instance(manifest=of_file(GOLDEN / "documents.toml"), inputs={}),
        "everything": Instance(manifest=everything, inputs={}),
        "every_input": Instance(manifest=everything, inputs=EVERY_INPUT),
        "key": Instance(
            manifest=of_file(GOLDEN / "long-names.toml"),
            inputs={"kms_key_arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/given", "kms_key_policy_confirmed": True},
        ),
        "tiny": Instance(manifest=of_file(GOLDEN / "tiny.toml"), inputs={}),
        "quickstart": Instance(manifest=of_file(PROJECT / "examples/quickstart/topology.toml"), inputs={}),
        "typed_payload": Instance(manifest=of_file(PROJECT / "examples/typed-payload/topology.toml"), inputs={}),
        "null_filter": Instance(manifest=null_filter(), inputs={}),
    }
    made = {
        name: Instance(manifest=one.manifest, inputs={"artifacts": _artifacts(one.manifest), **one.inputs})
        for name, one in named.items()
    }
    made["every_input"].inputs["artifacts"]["orders.paused"] = {"image_uri": image}
    return made


def null_filter() -> Manifest:
    """A filter whose every value the renderers must copy: null, false, nothing and numbers."""
    values = [
        None,
        False,
        "",
        0,
        0.1,
        {"numeric": [">", -5, "<=", 1e6]},
        {"anything-but": ["a", "b"]},
        {"exists": False},
    ]
    subscription = {"topic": "t", "handler": "app:run", "filter": {"kind": values}}
    return resolve(parse_topology({"name": "nulls", "topics": {"t": {}}, "subscriptions": {"s": subscription}}), "prod")


def generated() -> dict[str, Instance]:
    """As many generated manifests with something on AWS, the same in every run."""
    found: list[Manifest] = []

    @settings(
        derandomize=True,
        database=None,
        max_examples=3 * GENERATED,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(topologies())
    def gather(document: dict[str, Any]) -> None:
        if len(found) < GENERATED:
            try:
                manifest = resolve(parse_topology(document), "prod")
            except InvalidTopology:
                return
            if any(one.aws is not None for one in manifest.subscriptions.values()) and manifest not in found:
                found.append(manifest)

    gather()
    return {
        f"generated_{number}": Instance(manifest=manifest, inputs={"artifacts": _artifacts(manifest)})
        for number, manifest in enumerate(found)
    }


def _artifacts(manifest: Manifest) -> dict[str, Any]:
    return {
        name: {"s3_bucket": "bundles", "s3_key": f"{name}/{SHA256}.zip", "sha256": SHA256}
        for name, one in manifest.subscriptions.items()
        if one.aws is not None and one.aws.function is not None
    }
