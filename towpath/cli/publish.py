"""``towpath publish``: messages from the command line, a file, or JSON Lines on standard input."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO, TypeAlias

import typer

from towpath.cli.options import BindingsOption, ManifestOption, TransportOption, opened
from towpath.cli.output import JsonFlag, print_failure, print_json, print_sentence, stderr, telling
from towpath.message import ABSENT, JsonValue, NewMessage, PayloadRef, PublishError, PublishResult
from towpath.ports import Transport

_CALL_SIZE = 100
_MOST = 1_000_000  # of one payload; a file of JSON Lines has no limit
_BARE_NAME = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")

Payload: TypeAlias = Annotated[
    str | None,
    typer.Argument(help="The payload as JSON; '-' reads JSON Lines, one payload a line, from standard input."),
]
Key: TypeAlias = Annotated[str | None, typer.Option("--key", help="The partition key.")]
Attribute: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--attribute", "-a", help="NAME=TEXT, or NAME:=JSON for a number or a list. Repeat for more."),
]
DedupKey: TypeAlias = Annotated[str | None, typer.Option("--dedup-key", help="The deduplication key.")]
Count: TypeAlias = Annotated[int, typer.Option("--count", min=1, max=_MOST, help="Publish the payload so many times.")]
File: TypeAlias = Annotated[
    Path | None, typer.Option("--file", help="Read the payload from this JSON file, or each line of a .jsonl file.")
]
Ref: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--ref", help="Publish a claim check to this file instead of a payload. Repeat for more messages."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbered:
    """One message to publish and where it came from in words, or the fault for which it is none."""

    source: str
    message: NewMessage
    fault: PublishError | None = None


@dataclass(slots=True, kw_only=True)
class _Tally:
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    unwanted: int = 0  # of those accepted
    results: list[JsonValue] = field(default_factory=list)  # kept for --json alone

    def add(self, result: PublishResult) -> None:
        setattr(self, result.status, getattr(self, result.status) + 1)
        self.unwanted += result.subscriptions == 0

    def __str__(self) -> str:
        unwanted = ""
        if self.unwanted:
            count = "" if self.unwanted == self.accepted else f"{self.unwanted} "
            unwanted = f" ({count}for no subscription: there is none whose filter matches)"
        return f"{self.accepted} accepted{unwanted}, {self.duplicate} duplicate, {self.rejected} rejected"

    def done(self) -> str:
        """What was done, for when nothing more can be printed."""
        return "1 message was published" if self.accepted == 1 else f"{self.accepted} messages were published"


def publish(
    topic: Annotated[str, typer.Argument(help="The topic's name.")],
    payload: Payload = None,
    *,
    transport: TransportOption,
    file: File = None,
    ref: Ref = None,
    key: Key = None,
    attribute: Attribute = None,
    dedup_key: DedupKey = None,
    count: Count = 1,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Publish messages to TOPIC.

    Example: towpath publish documents.process '{"name": "a.pdf"}' --attribute kind=pdf
    """
    template = NewMessage(partition_key=key, attributes=_attributes(attribute or []), deduplication_key=dedup_key)
    if sum(given is not None for given in (payload, file, ref)) > 1:
        raise typer.BadParameter("give one of PAYLOAD, --file and --ref")
    if count > 1 and (ref or _is_json_lines(payload, file)):
        raise typer.BadParameter("--count repeats one payload; it goes neither with JSON Lines nor with --ref")
    messages = _claim_checks(ref, template) if ref else _messages(payload, file, template, count)
    with opened(transport, manifest, bindings) as open_transport:
        tally = _publish_all(open_transport, topic, messages, as_json=as_json)
    with telling(tally.done()):
        if as_json:
            print_json(tally.results)
        else:
            print_sentence(str(tally))
    if tally.rejected:
        raise typer.Exit(1)


def _publish_all(transport: Transport, topic: str, messages: Iterator[_Numbered], *, as_json: bool) -> _Tally:
    """Publish in calls of 100, so that any number of lines passes in bounded memory."""
    tally = _Tally()
    chunk = list(islice(messages, _CALL_SIZE))
    with _progress(enabled=not as_json and len(chunk) > 1) as live:
        while chunk:
            for numbered, answer in zip(chunk, _answers(transport, topic, chunk), strict=True):
                tally.add(answer)
                if answer.error is not None:
                    live.fail(f"{numbered.source}{answer.error.code}: {answer.error.message}")
                if as_json:
                    tally.results.append(_result_json(answer))
            live.advance(len(chunk))
            chunk = list(islice(messages, _CALL_SIZE))
    return tally


def _answers(transport: Transport, topic: str, chunk: list[_Numbered]) -> list[PublishResult]:
    """One result for each line: a line that is no JSON is rejected here and does not hold up the others."""
    readable = [numbered.message for numbered in chunk if numbered.fault is None]
    published = iter(transport.publish(topic, readable) if readable else [])
    return [
        next(published) if numbered.fault is None else PublishResult(id=None, status="rejected", error=numbered.fault)
        for numbered in chunk
    ]


def _result_json(result: PublishResult) -> JsonValue:
    error = result.error
    return {
        "id": result.id,
        "status": result.status,
        "error": None
        if error is None
        else {"code": error.code, "message": error.message, "retryable": error.retryable},
        "subscriptions": result.subscriptions,
    }


class _Silent:
    """Shows failures and no progress."""

    def advance(self, count: int) -> None:
        """Say that ``count`` more messages were published."""

    def fail(self, sentence: str) -> None:
        """Say what went wrong."""
        print_failure(sentence)


@contextmanager
def _progress(*, enabled: bool) -> Iterator[_Silent]:
    """A running count on standard error when that is a terminal; failures are shown above it."""
    if not (enabled and sys.stderr is not None and sys.stderr.isatty()):
        yield _Silent()
        return
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("published"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True) as progress:
        bar = progress.add_task("published", total=None)

        class Shown(_Silent):
            def advance(self, count: int) -> None:
                progress.advance(bar, count)

            def fail(self, sentence: str) -> None:
                print_failure(sentence, progress.console)

        yield Shown()


def _messages(payload: str | None, file: Path | None, template: NewMessage, count: int) -> Iterator[_Numbered]:
    if payload == "-":
        return _lines(_standard_input(), "standard input", template)
    if file is None:
        return _repeated(ABSENT if payload is None else _parsed(payload, "PAYLOAD"), template, count)
    if _is_json_lines(payload, file):
        return _lines(_read(file).split(b"\n"), file.name, template)
    return _repeated(_parsed(_read(file), str(file)), template, count)


def _is_json_lines(payload: str | None, file: Path | None) -> bool:
    return payload == "-" or (file is not None and file.suffix == ".jsonl")


def _claim_checks(files: list[Path], template: NewMessage) -> Iterator[_Numbered]:
    for file in files:
        try:
            reference = PayloadRef.for_file(file)
        except OSError as error:
            raise typer.BadParameter(f"--ref {file} cannot be read: {error.strerror}") from error
        yield _Numbered(source=f"{file}: ", message=replace(template, payload_ref=reference))


def _repeated(payload: JsonValue, template: NewMessage, count: int) -> Iterator[_Numbered]:
    for _ in range(count):
        yield _Numbered(source="", message=replace(template, payload=payload))


def _lines(lines: Iterable[bytes], name: str, template: NewMessage) -> Iterator[_Numbered]:
    """One message for each line. In bytes: a line that is no UTF-8 spoils no other, and only a line feed ends one."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        source = f"{name}, line {number}: "
        try:
            yield _Numbered(source=source, message=replace(template, payload=json.loads(line)))
        except (ValueError, RecursionError) as error:
            fault = PublishError(code="InvalidPayload", message=f"the line is not JSON: {error}")
            yield _Numbered(source=source, message=template, fault=fault)


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise typer.BadParameter("standard input is closed; '-' reads the payloads from there")
    return sys.stdin.buffer


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error


def _parsed(text: str | bytes, where: str) -> JsonValue:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = _json_hint(text) if isinstance(text, str) else ""
        raise typer.BadParameter(f"{where} is not JSON: {error}{hint}") from error


def _json_hint(text: str) -> str:
    """What was probably meant: a word as text, or an object whose names lost their quotes to the shell."""
    if text.isalnum():
        return f"; text needs its own quotes, as in '\"{text}\"'"
    quoted = _BARE_NAME.sub(r'\1"\2":', text.replace("'", '"'))
    with suppress(ValueError, RecursionError):
        return f"; did you mean '{json.dumps(json.loads(quoted), ensure_ascii=False)}'?"
    return ""


def _attributes(pairs: list[str]) -> dict[str, JsonValue]:
    attributes = [_attribute(pair) for pair in pairs]
    names = [name for name, _ in attributes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise typer.BadParameter(f'--attribute {twice} is given twice; a list is written {twice}:=\'["a", "b"]\'')
    return dict(attributes)


def _attribute(pair: str) -> tuple[str, JsonValue]:
    name, separator, text = pair.partition("=")
    if not separator:
        raise typer.BadParameter(f"--attribute {pair!r} must be NAME=TEXT or NAME:=JSON")
    if not name.endswith(":"):
        return name, text
    return name[:-1], _parsed(text, f"--attribute {name[:-1]}")
