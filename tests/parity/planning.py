"""Plans of the Terraform module, without an account: one plan for many manifests, each an instance of the module.

Topics, queues, functions, aliases and keys are in the plan's state already, with nothing but their names and what AWS
makes of these, so that the plan knows URLs and ARNs where other resources hold them. The rest of them is planned.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.cloudformation import ACCOUNT, KEY, REGION, URL, arn
from tests.servers.terraform import MODULE, Terraform
from towpath.manifest import Manifest, Queue

_PROVIDER = 'provider["registry.terraform.io/hashicorp/aws"]'
_SKIPS = ("credentials_validation", "metadata_api_check", "requesting_account_id", "region_validation")


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A manifest, and what the deployment says besides: inputs by the names of the module's variables."""

    manifest: Manifest
    inputs: Mapping[str, Any]


def planned(instances: Mapping[str, Instance], folder: Path) -> dict[str, Any]:
    """The plan of all ``instances``, by their names, as JSON."""
    for name, instance in instances.items():
        (folder / f"{name}.json").write_text(instance.manifest.to_json(), encoding="utf-8")
    (folder / "main.tf.json").write_text(json.dumps(_root(instances, folder)), encoding="utf-8")
    (folder / "terraform.tfstate").write_text(json.dumps(_state(instances)), encoding="utf-8")
    return Terraform(folder=folder).initialise().plan("-refresh=false")


def _root(instances: Mapping[str, Instance], folder: Path) -> dict[str, Any]:
    """A configuration whose modules are the instances, and whose outputs theirs."""
    modules = {
        name: {
            "source": str(MODULE),
            "manifest_path": str(folder / f"{name}.json"),
            "region": REGION,
            "account_id": ACCOUNT,
            **instance.inputs,
        }
        for name, instance in instances.items()
    }
    provider = {"region": REGION, "access_key": "test", "secret_key": "test"}
    return {
        "terraform": {"required_providers": {"aws": {"source": "hashicorp/aws"}}},
        "provider": {"aws": provider | {f"skip_{what}": True for what in _SKIPS}},
        "module": modules,
        "output": {name: {"value": f"${{module.{name}}}"} for name in instances},
    }


def _state(instances: Mapping[str, Instance]) -> dict[str, Any]:
    resources = [resource for name, one in instances.items() for resource in _known(f"module.{name}", one)]
    return {"version": 4, "serial": 1, "lineage": "parity", "outputs": {}, "resources": resources}


def _known(module: str, instance: Instance) -> Iterator[dict[str, Any]]:
    """What is there already: what a change cannot touch of it, and what AWS would tell."""
    topics = {name: topic.aws for name, topic in instance.manifest.topics.items() if topic.aws is not None}
    subscriptions = {name: one.aws for name, one in instance.manifest.subscriptions.items() if one.aws is not None}
    arns = {name: arn("sns", aws.topic_name) for name, aws in topics.items()}
    yield _resource(
        module,
        ("aws_sns_topic", "topic"),
        {
            name: {"id": arns[name], "arn": arns[name], "name": aws.topic_name, "fifo_topic": aws.fifo}
            for name, aws in topics.items()
        },
    )
    for role in ("queue", "dead_letter_queue", "delivery_failure_queue"):
        queues = {name: _queue(getattr(aws, role)) for name, aws in subscriptions.items()}
        yield _resource(module, ("aws_sqs_queue", role), queues)
    functions = {name: aws.function for name, aws in subscriptions.items() if aws.function is not None}
    aliases = {name: arn("lambda", f"function:{one.name}:{one.alias}") for name, one in functions.items()}
    yield _resource(
        module,
        ("aws_lambda_alias", "live"),
        {
            name: {"id": aliases[name], "arn": aliases[name], "name": one.alias, "function_name": one.name}
            for name, one in functions.items()
        },
    )
    images = {name for name, one in instance.inputs["artifacts"].items() if "image_uri" in one}
    yield _resource(
        module,
        ("aws_lambda_function", "function"),
        {
            name: {
                "id": one.name,
                "arn": arn("lambda", f"function:{one.name}"),
                "function_name": one.name,
                "package_type": "Image" if name in images else "Zip",
            }
            for name, one in functions.items()
        },
    )
    if instance.inputs.get("create_kms_key"):
        yield _resource(module, ("aws_kms_key", "key"), {0: _key()})


def _key() -> dict[str, Any]:
    unchangeable = {"key_usage": "ENCRYPT_DECRYPT", "customer_master_key_spec": "SYMMETRIC_DEFAULT"}
    return {"id": KEY.rpartition("/")[2], "key_id": KEY.rpartition("/")[2], "arn": KEY, **unchangeable}


def _queue(queue: Queue) -> dict[str, Any]:
    url = f"{URL}{queue.name}"
    return {"id": url, "url": url, "arn": arn("sqs", queue.name), "name": queue.name, "fifo_queue": queue.fifo}


def _resource(module: str, kind: tuple[str, str], attributes: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any]:
    instances = [{"index_key": key, "schema_version": 0, "attributes": of} for key, of in attributes.items()]
    return {
        "module": module,
        "mode": "managed",
        "type": kind[0],
        "name": kind[1],
        "provider": _PROVIDER,
        "instances": instances,
    }
