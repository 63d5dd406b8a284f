"""What a deployment says besides its manifest, under the names that the Terraform module's variables have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cdk_app.artifacts import Artifact
from cdk_app.errors import InvalidInputs
from towpath.errors import Mistake, did_you_mean
from towpath.manifest import Alarm, AwsSubscription, Manifest
from towpath.records import key_path

SUBJECT = "the deployment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vpc:
    """Where the functions are put. Their way to SQS and CloudWatch, endpoints or a gateway, is the VPC's matter."""

    subnet_ids: tuple[str, ...]
    security_group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmOverride:
    """What one alarm has otherwise than the manifest says; None leaves it."""

    threshold: int | None = None
    period_seconds: int | None = None
    evaluation_periods: int | None = None
    actions_enabled: bool = True
    """Whether it tells anybody."""

    def of(self, alarm: Alarm) -> Alarm:
        """``alarm`` with what is overridden."""
        return replace(
            alarm,
            threshold=alarm.threshold if self.threshold is None else self.threshold,
            period_seconds=alarm.period_seconds if self.period_seconds is None else self.period_seconds,
            evaluation_periods=alarm.evaluation_periods if self.evaluation_periods is None else self.evaluation_periods,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything but the artifacts. Mappings are by subscription."""

    kms_key_arn: str | None = None
    """A key that encrypts topics and queues, instead of SSE-SQS."""
    kms_key_policy_confirmed: bool = False
    """That this key's policy allows what the manifest's ``aws.encryption.key_policy`` does; nothing can look it up."""
    create_kms_key: bool = False
    """Make such a key."""
    alarm_actions: tuple[str, ...] = ()
    """ARNs that every alarm tells."""
    ok_actions: tuple[str, ...] = ()
    """ARNs that are told when it is over."""
    alarm_overrides: dict[str, dict[str, AlarmOverride]] = field(default_factory=dict)
    """Subscription to what the alarm watches to what is otherwise."""
    tags: dict[str, str] = field(default_factory=dict)
    """Tags of everything; the manifest's own win."""
    permissions_boundary: str | None = None
    """ARN of the policy that bounds each function's role."""
    log_retention_days: int | None = None
    """How long the functions' logs are kept; the manifest's when None."""
    vpc: Vpc | None = None
    extra_policies: dict[str, dict[str, str]] = field(default_factory=dict)
    """What the handlers need besides: ARNs of policies that a function's role gets, under names of your choice."""
    function_environment: dict[str, dict[str, str]] = field(default_factory=dict)
    """Variables for the handlers."""
    reserved_concurrency: dict[str, int] = field(default_factory=dict)
    """How many invocations of a function Lambda keeps room for, and never exceeds."""
    removal_policy: Literal["retain", "destroy"] = "retain"
    """Whether topics, queues, tables, logs and keys outlive their place in the stacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs(Options):
    """Everything that a deployment says. ``artifacts`` are the functions' code."""

    artifacts: Mapping[str, Artifact] = field(default_factory=dict)

    def check(self, manifest: Manifest, names: Iterable[str] | None = None) -> None:
        """Raise ``InvalidInputs`` with everything in which these do not go with ``manifest``. ``names`` are the
        subscriptions to deploy; all when None.
        """
        deployed = manifest.subscriptions if names is None else names
        mistakes = [
            *self._about_key(),
            *self._about_others(manifest),
            *self._about_functions(manifest),
            *self._lacking(manifest, deployed),
        ]
        if mistakes:
            raise InvalidInputs(SUBJECT, mistakes)

    def _about_key(self) -> Iterator[Mistake]:
        if self.kms_key_arn is not None and self.create_kms_key:
            yield Mistake(path="create_kms_key", problem="must not be true where kms_key_arn names a key")
        elif self.kms_key_arn is not None and not self.kms_key_policy_confirmed:
            problem = (
                "must be true, once the policy of the key in kms_key_arn allows all that aws.encryption.key_policy of "
                "the manifest does; without that SNS drops what it cannot encrypt"
            )
            yield Mistake(path="kms_key_policy_confirmed", problem=problem)

    def _about_others(self, manifest: Manifest) -> Iterator[Mistake]:
        functions = _functions(manifest)
        for key in ("artifacts", "extra_policies", "function_environment", "reserved_concurrency"):
            given: Mapping[str, Any] = getattr(self, key)
            for name in given:
                if name not in functions:
                    problem = f"names no subscription that Lambda hosts{did_you_mean(name, functions)}"
                    yield Mistake(path=key_path((key, name)), problem=problem)
        for name, overrides in self.alarm_overrides.items():
            aws = manifest.subscriptions[name].aws if name in manifest.subscriptions else None
            known = {} if aws is None else aws.alarms
            for watches in overrides:
                if watches not in known:
                    hint = did_you_mean(watches, known) if known else did_you_mean(name, manifest.subscriptions)
                    problem = f"names no alarm of the manifest{hint}"
                    yield Mistake(path=key_path(("alarm_overrides", name, watches)), problem=problem)

    def _about_functions(self, manifest: Manifest) -> Iterator[Mistake]:
        for name, aws in _functions(manifest).items():
            reserved = self.reserved_concurrency.get(name)
            least = max(1, (aws.event_source_mapping and aws.event_source_mapping.maximum_concurrency) or 1)
            if reserved is not None and reserved < least:
                problem = (
                    f"must be at least {least}, its maximum_concurrency, or Lambda throttles messages towards the "
                    "dead-letter queue; to stop a function, pause its subscription in the topology"
                )
                yield Mistake(path=key_path(("reserved_concurrency", name)), problem=problem)
            ours = {**aws.function.environment, **aws.function.queue_url_environment} if aws.function else {}
            for variable in self.function_environment.get(name, {}):
                if variable in ours:
                    path = key_path(("function_environment", name, variable))
                    yield Mistake(path=path, problem="is set by the manifest; leave it out")

    def _lacking(self, manifest: Manifest, deployed: Iterable[str]) -> Iterator[Mistake]:
        for name in deployed:
            if name in _functions(manifest) and name not in self.artifacts:
                problem = f"is missing: Lambda hosts it, and needs its code; build it with 'towpath bundle {name}'"
                yield Mistake(path=key_path(("artifacts", name)), problem=problem)


def _functions(manifest: Manifest) -> dict[str, AwsSubscription]:
    aws = {name: one.aws for name, one in manifest.subscriptions.items()}
    return {name: one for name, one in aws.items() if one is not None and one.function is not None}
