"""Event loops for the threads that run handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class AsyncLoop:
    """An event loop of one handler thread, made when a first coroutine comes."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def __enter__(self) -> AsyncLoop:
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner is not None:
            self._runner.close()

    def run(self, coroutine: Coroutine[Any, Any, Any], /) -> Any:
        """Run ``coroutine`` to its end."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(coroutine)
