"""The CloudWatch alarms of a subscription."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from cdk_app.inputs import AlarmOverride
from cdk_app.surroundings import Surroundings
from towpath.manifest import AwsSubscription


def make_alarms(scope: Construct, name: str, aws: AwsSubscription, around: Surroundings) -> None:
    """The alarms of the subscription ``name`` within ``scope``, as the deployment overrides them."""
    inputs = around.inputs
    overrides = inputs.alarm_overrides.get(name, {})
    for watches, resolved in aws.alarms.items():
        override = overrides.get(watches, AlarmOverride())
        alarm = override.of(resolved)
        cloudwatch.CfnAlarm(
            scope,
            f"Alarm-{watches}",
            alarm_name=alarm.name,
            alarm_description=alarm.description,
            namespace=alarm.namespace,
            metric_name=alarm.metric_name,
            dimensions=[
                cloudwatch.CfnAlarm.DimensionProperty(name=dimension, value=value)
                for dimension, value in sorted(alarm.dimensions.items())
            ],
            statistic=alarm.statistic,
            comparison_operator=alarm.comparison,
            threshold=alarm.threshold,
            period=alarm.period_seconds,
            evaluation_periods=alarm.evaluation_periods,
            treat_missing_data=alarm.treat_missing_data,
            actions_enabled=override.actions_enabled,
            alarm_actions=list(inputs.alarm_actions),
            ok_actions=list(inputs.ok_actions),
            tags=around.tags(aws.tags),
        )
