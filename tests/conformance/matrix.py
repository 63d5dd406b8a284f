"""The matrix of the cases and the transports that they run on: ``python -m tests.conformance.matrix``.

It is what the tests declare, read without running them: ``docs/reference/transports.md`` has it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.conformance.needs import TRANSPORTS

FOLDER = Path(__file__).parent

Case = tuple[str, str]  # its number, and what it promises
Reasons = Mapping[str, list[str | None]]  # for each transport and test of a case why it is left out, None if it runs


class _Collected:
    """What pytest would run."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = list(session.items)


def collected() -> list[pytest.Item]:
    """The tests of this folder. Raises ``RuntimeError`` with pytest's words when they cannot be collected."""
    found, said = _Collected(), io.StringIO()
    options = ["--collect-only", "--quiet", "-p", "no:cacheprovider"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # Towpath's own plugin is imported by now
    with redirect_stdout(said):
        code = pytest.main([*options, str(FOLDER)], plugins=[found])
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"the conformance suite cannot be collected:\n{said.getvalue()}")
    return found.items


def cases(items: list[pytest.Item]) -> dict[Case, Reasons]:
    """Every case, by its number, and how it stands on each transport."""
    found: dict[Case, dict[str, list[str | None]]] = {}
    for item in items:
        marker, parameters = item.get_closest_marker("case"), getattr(item, "callspec", None)
        if marker is None or parameters is None:
            continue
        transport = next(value for value in parameters.params.values() if value in TRANSPORTS)
        skip = item.get_closest_marker("skip")
        number, promise = marker.args
        reason = None if skip is None else str(skip.kwargs["reason"]).removeprefix(f"{transport} ")
        found.setdefault((number, promise), {}).setdefault(transport, []).append(reason)
    return dict(sorted(found.items()))


def table(found: Mapping[Case, Reasons]) -> Iterator[str]:
    """The matrix in Markdown."""
    yield f"| case | promise | {' | '.join(TRANSPORTS)} | left out, since it |"
    yield f"|---|---|{'---|' * len(TRANSPORTS)}---|"
    for (number, promise), by_transport in found.items():
        cells = [_cell(by_transport.get(name, [])) for name in TRANSPORTS]
        reasons = sorted({reason for many in by_transport.values() for reason in many if reason is not None})
        yield f"| {number} | {promise.replace('|', '&#124;')} | {' | '.join(cells)} | {'; '.join(reasons)} |"


def _cell(reasons: list[str | None]) -> str:
    if not reasons or None not in reasons:
        return "–"
    return "yes" if set(reasons) == {None} else "in part"


if __name__ == "__main__":
    sys.stdout.write("\n".join(table(cases(collected()))) + "\n")
