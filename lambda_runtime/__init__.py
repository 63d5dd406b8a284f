"""Towpath on AWS Lambda: from an SQS event to handlers, and back to a partial batch response."""

from lambda_runtime.factory import sqs_handler

__all__ = ["sqs_handler"]
