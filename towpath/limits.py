"""The numbers of AWS and of Towpath, each with its source. Nothing else states them."""

from __future__ import annotations

from typing import Final

# Amazon SQS: developer guide, "Amazon SQS quotas", and the API reference of SetQueueAttributes, SendMessageBatch.
SQS_NAME_LENGTH: Final = 80
SQS_BATCH_ENTRIES: Final = 10
SQS_MAX_VISIBILITY_SECONDS: Final = 43_200
SQS_LONG_POLL_SECONDS: Final = 20
SQS_MAX_RETENTION_DAYS: Final = 14
SQS_MESSAGE_BYTES: Final = 262_144
SQS_ATTRIBUTES: Final = 10
SQS_IN_FLIGHT: Final = 120_000
SQS_GROUP_ID_LENGTH: Final = 128
SQS_SMALLEST_NUMBER: Final = 1e-128  # of a number attribute, and 38 digits: "Amazon SQS message metadata"

# Amazon SNS: developer guide, "Subscription filter policies" and "Amazon SNS endpoints and quotas".
SNS_NAME_LENGTH: Final = 256
SNS_BATCH_ENTRIES: Final = 10
SNS_BATCH_BYTES: Final = 262_144
SNS_FILTER_KEYS: Final = 5
SNS_FILTER_COMBINATIONS: Final = 150
SNS_FILTER_BYTES: Final = 262_144
SNS_FILTER_POLICIES_PER_TOPIC: Final = 200  # this and the next are quotas that AWS can raise for an account
SNS_FILTER_POLICIES_PER_ACCOUNT: Final = 10_000
SNS_FIFO_SUBSCRIPTIONS: Final = 100
SNS_FILTER_NUMBER: Final = 1e9
SNS_FILTER_DECIMALS: Final = 5
SNS_FILTER_WILDCARDS: Final = 3  # in one pattern
SNS_FILTER_WILDCARD_POINTS: Final = 100  # "Filter policy constraints" says how they are counted

# AWS Lambda: developer guide, "Lambda quotas" and "Using Lambda with Amazon SQS"; IAM names: IAM quotas.
LAMBDA_NAME_LENGTH: Final = 64
IAM_ROLE_NAME_LENGTH: Final = 64
LAMBDA_TIMEOUT_SECONDS: Final = (2, 900)
LAMBDA_ENVIRONMENT_BYTES: Final = 4_096
LAMBDA_MEMORY_MB: Final = (128, 10_240)
LAMBDA_UNZIPPED_BYTES: Final = 262_144_000
LAMBDA_DIRECT_UPLOAD_BYTES: Final = 52_428_800
LAMBDA_RESPONSE_BYTES: Final = 6_291_556  # of a synchronous invocation: 6 MiB and 100 bytes, as its error says
LAMBDA_REQUEST_BYTES: Final = 6_291_456  # of an event: 6 MiB
ESM_STANDARD_BATCH: Final = 10_000
ESM_FIFO_BATCH: Final = 10
ESM_BATCH_WINDOW_SECONDS: Final = 300
ESM_MAXIMUM_CONCURRENCY: Final = (2, 1_000)
DEFAULT_LAMBDA_THREADS: Final = 10  # at most; as many as the batch has messages
LAMBDA_THREADS: Final = (1, 1_000)  # of the 1,024 threads and processes that Lambda gives an environment
VISIBILITY_TIMEOUT_FACTOR: Final = 6  # queue visibility in function time-outs, as that Lambda page recommends

# Names elsewhere: CreateTable in the API reference of Amazon DynamoDB, PutMetricAlarm in that of Amazon CloudWatch.
DYNAMODB_TABLE_NAME_LENGTH: Final = 255
CLOUDWATCH_ALARM_NAME_LENGTH: Final = 255

# IAM: user guide, "IAM and AWS STS quotas". Sizes without white space; ten policies by default, more on request.
IAM_POLICY_NAME_LENGTH: Final = 128
IAM_MANAGED_POLICY_CHARACTERS: Final = 6_144
IAM_POLICIES_PER_ROLE: Final = 10

# CloudFormation: "CloudFormation quotas". A subscription makes at most 21 resources, twenty stay well below 500.
CLOUDFORMATION_RESOURCES: Final = 500
SUBSCRIPTIONS_PER_STACK: Final = 20
STACK_GROUPS: Final = 8  # stacks that subscriptions are spread over before one overflows (docs/decisions/0006)

# Towpath's own contracts (docs/reference/contracts.md).
SCHEMA: Final = "towpath/1"
MANIFEST_VERSION: Final = 1
MIN_MESSAGE_BYTES: Final = 512  # of a topic's limit: below it, a long topic name alone can leave no room for a message
MAX_MESSAGE_BYTES: Final = 261_120  # 256 KiB less 1 KiB for the note that a dead letter carries on SQS
DEAD_LETTER_NOTE_BYTES: Final = 1_024
NAME_LENGTH: Final = 20  # of a topology's and an environment's name, which begin every resource's name
TOPIC_NAME_LENGTH: Final = 200
DATABASE_RETENTION_DAYS: Final = 3_650
PARTITION_KEY_LENGTH: Final = 200
CORRELATION_ID_LENGTH: Final = 200
ATTRIBUTES: Final = 10
ATTRIBUTE_NAME_LENGTH: Final = 64
ATTRIBUTE_VALUE_LENGTH: Final = 256
ATTRIBUTE_LIST_LENGTH: Final = 50
ATTRIBUTE_NUMBER: Final = 1e9
PAYLOAD_DEPTH: Final = 100  # arrays and objects within one another
FOREIGN_DEPTH: Final = 500  # the same of a foreign message: half of what Python's recursion bears
PAYLOAD_INTEGER_DIGITS: Final = 4_300  # what Python reads by itself: sys.int_info.default_max_str_digits
PAYLOAD_VALUES: Final = 300_000  # twice what MAX_MESSAGE_BYTES can hold: looking at more makes no sense
CLAIM_CHECK_BYTES: Final = 2**63 - 1  # a database's bigint
DEDUPLICATION_KEY_LENGTH: Final = 200
DEDUPLICATION_TTL_SECONDS: Final = (60, 30 * 86_400)
MAX_RETRY_SECONDS: Final = SQS_MAX_VISIBILITY_SECONDS  # SQS's ceiling, kept on every transport
MAX_ATTEMPTS: Final = (1, 995)
LEASE_SECONDS: Final = (5, 43_200)
# Of one attempt in a worker on a database, thirty days: what runs longer outlives its worker, and timers have an end.
MAX_PROCESSING_SECONDS: Final = 30 * 86_400
TOPOLOGY_DEPTH: Final = 20  # tables and lists in each other; no key takes so many
RECEIVE_GUARD_EXTRA: Final = 2  # receives beyond max_attempts at which a delivery is set aside unrun
REDRIVE_EXTRA: Final = 5  # receives beyond max_attempts at which SQS itself sets it aside
CHECKPOINT_BYTES: Final = 4_000
NOTE_LENGTH: Final = 500
PAYLOAD_ERRORS: Final = 20  # told of a payload that does not fit its type
ERROR_LENGTH: Final = 4_000  # what is kept and logged of a handler's error
TRACEBACK_LENGTH: Final = 20_000  # its end, where the error arose
LEASE_GRACE_SECONDS: Final = 5.0
HEARTBEAT_SECONDS: Final = 30.0

DEADLINE_GUARD_SECONDS: Final = 10.0  # of the end of a function's time, in which no record starts
DEADLINE_GUARD_SHARE: Final = 0.2  # and of a short function's time

# Towpath's own choices, which a deployment can override.
LOG_RETENTION_DAYS: Final = 30
KEY_DELETION_WINDOW_DAYS: Final = 30  # the longest that KMS has
KEY_REUSE_SECONDS: Final = 300  # SQS's default
ALARM_PERIOD_SECONDS: Final = 300
ALARM_AGE_SECONDS: Final = 3_600  # at least; more where a delivery's own retries take longer
ALARM_IN_FLIGHT: Final = 108_000  # nine tenths of SQS_IN_FLIGHT
