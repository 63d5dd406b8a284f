"""Powertools' idempotency around a handler, keyed by the message id: for effects that must not happen twice.

SQS delivers at least once. With a persistence layer a message that was handled to the end is completed without another
run when it comes again, and one that is being handled elsewhere waits for that.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from towpath.dispatch import RunAsync
from towpath.errors import TransientError
from towpath.handler import Handler
from towpath.message import Message
from towpath.outcome import Complete

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer

_KEEP: Final = timedelta(days=14)  # as long as SQS can hold a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """Where to remember which messages are done: a Powertools persistence layer, such as ``DynamoDBPersistenceLayer``.

    ``keep`` is for how long; a message that comes again later runs again.
    """

    persistence: BasePersistenceLayer
    keep: timedelta = _KEEP


class Idempotent:
    """Wraps handlers; told of each invocation before it begins."""

    def __init__(self, settings: Idempotency, subscription: str, run_async: RunAsync) -> None:
        from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig

        self._config = IdempotencyConfig(
            event_key_jmespath="message_id",
            raise_on_no_idempotency_key=True,
            expires_after_seconds=int(settings.keep.total_seconds()),
        )
        self._persistence = settings.persistence
        self._subscription = subscription
        self._run_async = run_async

    def begin(self, lambda_context: Any) -> None:
        """Have what is in progress expire with this invocation: a function that is killed cannot take it back."""
        if lambda_context is not None:
            self._config.register_lambda_context(lambda_context)

    def once(self, handler: Handler) -> Handler:
        """``handler``, not run again for a message that it has completed.

        Only a completion is remembered. A retry or dead letter, returned or raised, leaves nothing behind, so that the
        next attempt, and a replay, does run. A message in progress elsewhere is retried.
        """
        from aws_lambda_powertools.utilities.idempotency import idempotent_function
        from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError

        function = handler.function

        def run(*, key: dict[str, str], call: Callable[[], Any]) -> None:  # noqa: ARG001 - Powertools reads the key
            outcome = self._completed(call)
            if not (outcome is None or isinstance(outcome, Complete)):
                raise _NotComplete(outcome)

        kept: Callable[..., Any] = idempotent_function(
            run,
            data_keyword_argument="key",
            persistence_store=self._persistence,
            config=self._config,
            key_prefix=self._subscription,
        )

        @functools.wraps(function)
        def once(message: Message[Any], context: Any) -> Any:
            try:
                kept(key={"message_id": message.id}, call=lambda: function(message, context))
            except _NotComplete as other:
                return other.outcome
            except _Ended as ended:
                raise ended.error from None
            except IdempotencyAlreadyInProgressError as error:
                raise TransientError("the message is being handled elsewhere") from error
            return None

        return replace(handler, function=once)

    def _completed(self, call: Callable[[], Any]) -> Any:
        """What the handler returns. What ends it without being an ``Exception`` is carried by one: Powertools takes
        back what is in progress only for those.
        """
        try:
            returned = call()
            if inspect.isawaitable(returned):
                returned = self._run_async(_coroutine(returned))
        except Exception:
            raise
        except BaseException as error:
            raise _Ended(error) from error
        return returned


class _NotComplete(Exception):
    """The handler returned another outcome than completion."""

    def __init__(self, outcome: object) -> None:
        super().__init__("not complete")
        self.outcome = outcome


class _Ended(Exception):
    """The handler was ended by something that is no ``Exception``: an abort, an exit."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("ended")
        self.error = error


async def _coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
