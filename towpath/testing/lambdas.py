"""A handler as a Lambda function behind a queue, in the test's own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from towpath import limits
from towpath.context import Publish
from towpath.errors import SubscriptionNotFound
from towpath.function_settings import FunctionSettings
from towpath.message import NewMessage
from towpath.operating import DeadLetterEntry
from towpath.ports import Consumer
from towpath.settlement import SubscriptionPolicy
from towpath.testing.clock import LocalClock
from towpath.testing.harnesses import harness

if TYPE_CHECKING:
    from towpath.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaSettings:
    """A function, its queue and its event source mapping. ``reports_item_failures`` is ``ReportBatchItemFailures``."""

    function: FunctionSettings
    batch_size: int = 10
    batch_window_seconds: int = 0
    reports_item_failures: bool = True
    visibility_seconds: int = 360
    max_receive_count: int = 10


class LocalInvocation(Protocol):
    """One call of the function: which messages were in the batch, and which of them stayed in the queue.

    ``problem`` says why an answer failed its whole batch, ``error`` is what the function raised.
    """

    @property
    def message_ids(self) -> Sequence[str]:
        """SQS's ids of the messages, in the order of the event."""

    @property
    def answer(self) -> Any:
        """What the function answered."""

    @property
    def failed(self) -> frozenset[str]:
        """The ids of those that come again."""

    @property
    def problem(self) -> str | None:
        """What is wrong with the answer."""

    @property
    def error(self) -> BaseException | None:
        """What the function raised."""


class LocalLambda(Protocol):
    """A Lambda function with its queue, its dead-letter queue and its event source mapping, in this process.

    Time is real, and ``advance`` moves it on: what hides becomes visible without waiting.
    """

    def send(self, *messages: NewMessage) -> list[str]:
        """Put messages into the queue as publishing would. Answers their ids; raises ``ValueError`` for a bad one."""

    def send_body(self, body: str, *, group_id: str | None = None) -> str:
        """Put any text into the queue, as another producer does. Answers the id that SQS gave it."""

    def run(self, *, pollers: int = 1) -> Sequence[LocalInvocation]:
        """Call the function, batch after batch, until no message is visible. ``pollers`` invocations run at a time, as
        Lambda has several environments of a function.
        """

    def advance(self, seconds: float) -> None:
        """Move time on."""

    @property
    def waiting(self) -> int:
        """How many messages the queue holds, hidden ones with them."""

    @property
    def dead_letters(self) -> Sequence[DeadLetterEntry]:
        """The messages on the dead-letter queue, in the order in which they came there."""


class OpenLambda(Protocol):
    """What the entry point ``lambda`` of the group ``towpath.harnesses`` is."""

    def __call__(
        self,
        process: Callable[..., Any] | str,
        settings: LambdaSettings,
        *,
        publish: Publish | None,
        consumer: Consumer | None,
        clock: LocalClock | None,
    ) -> LocalLambda:
        """The function of ``process``. Its queue is ``consumer`` where there is one."""


def local_lambda(
    process: Callable[..., Any] | str,
    settings: LambdaSettings | None = None,
    *,
    publish: Publish | None = None,
    consumer: Consumer | None = None,
    clock: LocalClock | None = None,
) -> LocalLambda:
    """Run ``process``, a handler or its import path, as a Lambda function, in this process.

    ``settings`` are those of a subscription of the manifest (``lambda_settings``), else defaults. ``publish`` is what
    ``context.publish`` calls. With ``consumer`` the mapping polls that in place of a queue in memory: of a database,
    for example. ``clock`` is one that something else goes by too. Raises ``HandlerNotFound``, and ``Unsupported`` when
    the Lambda runtime is not installed.
    """
    open_lambda = cast("OpenLambda", harness("lambda", "the Lambda runtime", "aws,lambda"))
    chosen = settings if settings is not None else LambdaSettings(function=_default_function())
    return open_lambda(process, chosen, publish=publish, consumer=consumer, clock=clock)


def lambda_settings(manifest: Manifest, subscription: str) -> LambdaSettings:
    """The settings of a subscription with host ``lambda``, as a deployment of ``manifest`` has them.

    Raises ``SubscriptionNotFound`` when there is none of that name, or no function for it.
    """
    known = manifest.subscriptions.get(subscription)
    aws = known.aws if known is not None else None
    if aws is None or aws.function is None or aws.event_source_mapping is None:
        functions = [name for name, one in manifest.subscriptions.items() if one.aws and one.aws.function]
        raise SubscriptionNotFound(subscription, f"the manifest has functions for {', '.join(functions) or 'none'}")
    mapping, variables = aws.event_source_mapping, aws.function.environment
    return LambdaSettings(
        function=_own_settings(variables),
        batch_size=mapping.batch_size,
        batch_window_seconds=mapping.batch_window_seconds,
        reports_item_failures=bool(mapping.function_response_types),
        visibility_seconds=aws.queue.visibility_timeout_seconds,
        max_receive_count=aws.queue.max_receive_count or limits.MAX_ATTEMPTS[1],
    )


def _own_settings(variables: Mapping[str, str]) -> FunctionSettings:
    return FunctionSettings.from_json(variables["TOWPATH_SUBSCRIPTION"])


def _default_function() -> FunctionSettings:
    policy = SubscriptionPolicy(subscription="local", topic="local", handler=None)
    return FunctionSettings(policy=policy, fifo=False, concurrency=limits.DEFAULT_LAMBDA_THREADS, timeout_seconds=60)
