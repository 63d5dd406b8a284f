"""The CloudWatch dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aws_cdk import Aws, Stack, Token
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.region_info import RegionInfo
from constructs import Construct

from cdk_app.placeholders import located
from towpath.manifest import Dashboard, Widget

_CONSOLES: Final[Mapping[str, str]] = {
    "aws": "console.aws.amazon.com",
    "aws-cn": "console.amazonaws.cn",
    "aws-us-gov": "console.amazonaws-us-gov.com",
}


def make_dashboard(scope: Construct, dashboard: Dashboard) -> str:
    """The dashboard within ``scope``; answers the URL at which a browser shows it."""
    body = {"widgets": [_widget(widget) for widget in dashboard.widgets]}
    cloudwatch.CfnDashboard(
        scope,
        "Dashboard",
        dashboard_name=dashboard.name,
        dashboard_body=Stack.of(scope).to_json_string(body),
    )
    page = "https://${region}.${console}/cloudwatch/home?region=${region}#dashboards/dashboard/"
    return located(page + dashboard.name, console=_console(Stack.of(scope).region))


def _console(region: str) -> str:
    """Where the console of the region's partition is; that of most regions where the stack may go to any."""
    partition = None if Token.is_unresolved(region) else RegionInfo.get(region).partition
    return _CONSOLES.get(partition or "aws", _CONSOLES["aws"])


def _widget(widget: Widget) -> dict[str, Any]:
    metrics = [
        [widget.namespace, widget.metric_name, widget.dimension, value, {"label": subscription}]
        for subscription, value in sorted(widget.series.items())
    ]
    return {
        "type": "metric",
        "x": widget.x,
        "y": widget.y,
        "width": widget.width,
        "height": widget.height,
        "properties": {
            "title": widget.title,
            "region": Aws.REGION,
            "view": "timeSeries",
            "stacked": False,
            "stat": widget.statistic,
            "period": widget.period_seconds,
            "metrics": metrics,
        },
    }
