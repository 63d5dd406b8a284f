locals {
  alarms = merge([
    for name, subscription in local.subscriptions : {
      for watches, alarm in subscription.alarms : "${name}/${watches}" => merge(alarm, { subscription = name, watches = watches })
    }
  ]...)
  overrides = merge([
    for name, overrides in var.alarm_overrides : { for watches, override in overrides : "${name}/${watches}" => override }
  ]...)
}

resource "aws_cloudwatch_metric_alarm" "alarm" {
  for_each = local.alarms

  alarm_name          = each.value.name
  alarm_description   = each.value.description
  namespace           = each.value.namespace
  metric_name         = each.value.metric_name
  dimensions          = each.value.dimensions
  statistic           = each.value.statistic
  comparison_operator = each.value.comparison
  threshold           = try(coalesce(local.overrides[each.key].threshold), each.value.threshold)
  period              = try(coalesce(local.overrides[each.key].period_seconds), each.value.period_seconds)
  evaluation_periods  = try(coalesce(local.overrides[each.key].evaluation_periods), each.value.evaluation_periods)
  treat_missing_data  = each.value.treat_missing_data
  actions_enabled     = try(local.overrides[each.key].actions_enabled, true)
  alarm_actions       = var.alarm_actions
  ok_actions          = var.ok_actions
  tags                = local.tags_of_subscription[each.value.subscription]
}

resource "aws_cloudwatch_dashboard" "dashboard" {
  count = local.deployment == null ? 0 : 1

  dashboard_name = local.deployment.dashboard.name
  dashboard_body = jsonencode({
    widgets = [
      for widget in local.deployment.dashboard.widgets : {
        type   = "metric"
        x      = widget.x
        y      = widget.y
        width  = widget.width
        height = widget.height
        properties = {
          title   = widget.title
          region  = var.region
          view    = "timeSeries"
          stacked = false
          stat    = widget.statistic
          period  = widget.period_seconds
          metrics = [
            for label, value in widget.series : [widget.namespace, widget.metric_name, widget.dimension, value, { label = label }]
          ]
        }
      }
    ]
  })
}
