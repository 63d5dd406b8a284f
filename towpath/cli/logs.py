"""How a worker's log lines look: text with the ids for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from towpath.cli.output import CONTROLS
from towpath.message import format_time

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_OUR_FRAME: Final = rf'  File "(?:{re.escape(str(Path(__file__).parents[1]))}|[^"]*[/\\]asyncio)[/\\]'
_OUR_FRAMES: Final = re.compile(  # at the top, each with its lines of code, where a frame of someone else follows
    rf"(?<=^Traceback \(most recent call last\):\n)(?:{_OUR_FRAME}.*\n(?:    .*\n)*)+(?!{_OUR_FRAME})(?=  File )",
    re.MULTILINE,
)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and every extra field."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON text."""
        line: dict[str, object] = {"time": _time(record), "level": record.levelname, "logger": record.name}
        line |= {"message": record.getMessage()} | _extras(record)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class Text(logging.Formatter):
    """Time, level, message, and the extra fields as ``name=value``."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of text, with a traceback below it where there is one.

        A traceback of what the handler raised on purpose is left out, and so are the frames above a handler's own, and
        a field that has nothing new to say.
        Line breaks within the message or a field are written ``\\n``: nobody's text can pass for a line of its own.
        What a terminal would obey is written as an escape.
        """
        extras = _extras(record)
        handlers = handlers_frames(str(extras.pop("traceback", "")))
        traceback = self.formatException(record.exc_info) if record.exc_info else handlers
        if extras.pop("intended", False):
            traceback = ""
        if "error" in extras and "reason" in extras:
            extras["error"] = news_of(str(extras["error"]), str(extras["reason"]))
        fields = " ".join(f"{name}={value}" for name, value in extras.items() if value is not None)
        text = "\\n".join(f"{record.getMessage()} {fields}".rstrip().splitlines())
        line = f"{_time(record)} {record.levelname:<7} {text.translate(CONTROLS)}"
        below = "\n".join(each.translate(CONTROLS) for each in traceback.rstrip().split("\n"))
        return f"{line}\n{below}" if below else line


def handlers_frames(traceback: str) -> str:
    """The traceback without the frames of ours that are above a handler's own."""
    return _OUR_FRAMES.sub("", traceback)


def news_of(error: str, reason: str) -> str | None:
    """The error's first line, or no more than its type where the rest of it is the reason, or nothing."""
    kind, colon, told = error.partition(": ")
    if colon and (told == reason or told.startswith(f"{reason}\n")):
        return kind
    return None if error == reason else error.partition("\n")[0] or None


def start_logging(*, as_json: bool) -> logging.StreamHandler[TextIO]:
    """Send Towpath's and the handlers' log lines of level INFO and above to standard error. Answers what sends them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else Text())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("towpath").setLevel(logging.INFO)
    return handler


def _time(record: logging.LogRecord) -> str:
    return format_time(datetime.fromtimestamp(record.created, UTC))


def _extras(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}
