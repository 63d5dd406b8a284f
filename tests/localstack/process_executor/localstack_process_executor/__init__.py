"""LocalStack plugin: with ``LAMBDA_RUNTIME_EXECUTOR=process`` Python functions run as processes, without Docker."""

from typing import Any

from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor


class ProcessRuntimeExecutorPlugin(RuntimeExecutorPlugin):
    """What LocalStack finds under the name ``process``."""

    name = "process"

    def load(self, *args: Any, **kwargs: Any) -> type[RuntimeExecutor]:
        """The executor's class, imported only when it was chosen."""
        from localstack_process_executor.aliases import let_cloudformation_move_aliases
        from localstack_process_executor.executor import ProcessRuntimeExecutor

        let_cloudformation_move_aliases()

        return ProcessRuntimeExecutor
