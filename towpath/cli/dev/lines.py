"""What the workers' process writes, line by line: its log as JSON, and whatever handlers print."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from towpath.cli.dev.happenings import Ended, Logged, Moved, Printed
from towpath.cli.logs import handlers_frames, news_of

_TRACEBACK: Final = "Traceback (most recent call last):"
_ERROR: Final = "error: "
_CAUSED: Final = "\nThe above exception was the direct cause of the following exception:"
_IMPORTING: Final = re.compile(
    r'^  File "(?:<frozen importlib[^"]*|[^"]*[/\\]importlib[/\\]__init__\.py)".*\n(?:    .*\n)*', re.MULTILINE
)
_CLASS: Final = re.compile(r"^[\w.]+: ")


def read_log_line(line: str) -> Moved | Logged | Printed:
    """What a line of standard error says. Anything that is no line of Towpath's log was printed by a handler."""
    try:
        facts = json.loads(line)
    except (ValueError, RecursionError):
        return Printed(text=line)
    if not isinstance(facts, dict) or not isinstance(facts.get("logger"), str):
        return Printed(text=line)
    if facts["logger"].startswith("towpath.") and "state" in facts and "delivery_id" in facts:
        return _moved(facts)
    return Logged(
        time=str(facts.get("time", "")),
        level=str(facts.get("level", "")),
        logger=facts["logger"],
        text=str(facts.get("message", "")),
        traceback=str(facts.get("traceback", "")),
    )


def _moved(facts: Mapping[str, Any]) -> Moved:
    again_in = facts.get("retry_after_seconds")
    state = str(facts["state"])
    if state == "pending":
        state = "released" if again_in is None else "retried"
    reason, error = str(facts.get("reason", "")), str(facts.get("error", ""))
    return Moved(
        time=str(facts.get("time", "")),
        subscription=str(facts.get("subscription", "")),
        delivery_id=str(facts["delivery_id"]),
        message_id=str(facts.get("message_id", "")),
        attempt=facts.get("attempt"),
        state=state,
        milliseconds=facts.get("duration_ms"),
        partition_key=facts.get("partition_key"),
        reason=_why(reason, error),
        again_in=again_in,
        traceback="" if facts.get("intended") else handlers_frames(str(facts.get("traceback", ""))),
    )


def _why(reason: str, error: str) -> str:
    """Reason and last error in one line, each told once."""
    news = news_of(error, reason)
    if news is None:
        return reason
    return news if not reason or news.startswith(f"{reason}: ") else f"{reason} ({news})"


def read_end(code: int, lines: Sequence[str]) -> Ended:
    """The end of a process that wrote ``lines`` last, beside its log: why it ended, in a sentence, and where.

    Of errors that caused each other the traceback is the first one's: where the project's own code broke.
    """
    raised = _last_raised("\n".join(lines))
    if raised:
        sentence = _CLASS.sub("", raised.rstrip().rpartition("\n")[2])
        first = raised.partition(_CAUSED)[0].rstrip()
        return Ended(code=code, sentence=sentence, traceback=handlers_frames(_IMPORTING.sub("", f"{first}\n")))
    told = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    return Ended(code=code, sentence=told[-1] if told else _wordless(code))


def _last_raised(text: str) -> str:
    """The last traceback in ``text`` with those of its causes before it; empty when there is none."""
    *before, raised = text.split(_TRACEBACK)
    if not before:
        return ""
    raised = _TRACEBACK + raised
    while before and before[-1].endswith(f"{_CAUSED}\n\n"):
        raised = _TRACEBACK + before.pop() + raised
    return raised


def _wordless(code: int) -> str:
    if code >= 0:
        return f"the workers ended with exit code {code}" if code else ""
    return f"the workers were ended by signal {-code}"
