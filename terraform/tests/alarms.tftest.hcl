# Alarms and the dashboard, and what a deployment may change about them.

mock_provider "aws" {}

variables {
  manifest_path = "tests/manifests/single.json"
  region        = "eu-west-1"
  account_id    = "123456789012"
  artifacts     = { "documents.convert" = { image_uri = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/single:1" } }
}

run "alarms_and_the_dashboard" {
  command = plan

  assert {
    condition = keys(aws_cloudwatch_metric_alarm.alarm) == concat(
      [for watches in ["age", "dead-letters", "delivery-failures", "errors", "in-flight", "throttles", "time-outs"] : "documents.convert/${watches}"],
      [for watches in ["age", "dead-letters", "delivery-failures", "in-flight"] : "documents.index/${watches}"],
    )
    error_message = "There is an alarm for each way in which work stands still or is lost."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.alarm["documents.convert/dead-letters"].alarm_name == "single-test-documents-convert-dead-letters" && aws_cloudwatch_metric_alarm.alarm["documents.convert/dead-letters"].dimensions == tomap({ QueueName = "single-test-documents-convert-dlq" }) && aws_cloudwatch_metric_alarm.alarm["documents.convert/dead-letters"].threshold == 0
    error_message = "One dead letter is enough."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.alarm["documents.convert/in-flight"].threshold == 108000 && aws_cloudwatch_metric_alarm.alarm["documents.convert/time-outs"].threshold == 50000 && aws_cloudwatch_metric_alarm.alarm["documents.convert/time-outs"].metric_name == "Duration"
    error_message = "Thresholds are the manifest's."
  }
  assert {
    condition = alltrue([
      for alarm in values(aws_cloudwatch_metric_alarm.alarm) :
      alarm.comparison_operator == "GreaterThanThreshold" && alarm.period == 300 && alarm.evaluation_periods == 1 && alarm.treat_missing_data == "notBreaching" && alarm.actions_enabled && length(alarm.alarm_actions) == 0 && length(alarm.ok_actions) == 0
    ])
    error_message = "One bad period of five minutes is enough, and nobody is told unless the deployment says whom."
  }
}

run "whom_alarms_tell" {
  command = plan
  variables {
    alarm_actions = ["arn:aws:sns:eu-west-1:123456789012:operators"]
    ok_actions    = ["arn:aws:sns:eu-west-1:123456789012:relief"]
  }

  assert {
    condition = alltrue([
      for alarm in values(aws_cloudwatch_metric_alarm.alarm) :
      alarm.alarm_actions == toset(["arn:aws:sns:eu-west-1:123456789012:operators"]) && alarm.ok_actions == toset(["arn:aws:sns:eu-west-1:123456789012:relief"])
    ])
    error_message = "Every alarm tells whom the deployment names."
  }
}

run "other_numbers" {
  command = plan
  variables {
    alarm_overrides = {
      "documents.convert" = {
        age    = { threshold = 60, period_seconds = 60, evaluation_periods = 3 }
        errors = { actions_enabled = false }
      }
    }
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.alarm["documents.convert/age"].threshold == 60 && aws_cloudwatch_metric_alarm.alarm["documents.convert/age"].period == 60 && aws_cloudwatch_metric_alarm.alarm["documents.convert/age"].evaluation_periods == 3 && aws_cloudwatch_metric_alarm.alarm["documents.convert/age"].actions_enabled
    error_message = "An alarm has the deployment's numbers."
  }
  assert {
    condition     = !aws_cloudwatch_metric_alarm.alarm["documents.convert/errors"].actions_enabled && aws_cloudwatch_metric_alarm.alarm["documents.convert/errors"].threshold == 0
    error_message = "An alarm is silent, and has the manifest's numbers where the deployment gives none."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.alarm["documents.index/age"].threshold == 3600
    error_message = "No other alarm is changed."
  }
}

run "an_alarm_that_is_not_there_cannot_be_changed" {
  command = plan
  variables {
    alarm_overrides = { "documents.index" = { errors = { threshold = 1 } } }
  }
  expect_failures = [output.bindings]

  assert {
    condition     = aws_cloudwatch_dashboard.dashboard[0].dashboard_name == "single-test"
    error_message = "The dashboard has the manifest's name."
  }
  assert {
    condition     = [for widget in jsondecode(aws_cloudwatch_dashboard.dashboard[0].dashboard_body).widgets : widget.properties.title] == ["Dead letters", "Delivery failures", "Waiting", "Age of the oldest, in seconds", "In flight", "Duration, in milliseconds", "Errors", "Throttles"]
    error_message = "It shows what the manifest says, in that order."
  }
  assert {
    condition = jsondecode(aws_cloudwatch_dashboard.dashboard[0].dashboard_body).widgets[1] == {
      type = "metric", x = 12, y = 0, width = 12, height = 6
      properties = {
        title = "Delivery failures", region = "eu-west-1", view = "timeSeries", stacked = false, stat = "Maximum", period = 300
        metrics = [
          ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "single-test-documents-convert-failed", { label = "documents.convert" }],
          ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "single-test-documents-index-failed", { label = "documents.index" }],
        ]
      }
    }
    error_message = "A widget has one line for each subscription."
  }
}
