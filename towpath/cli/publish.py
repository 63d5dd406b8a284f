"""``towpath publish``: messages from the command line, a file, or JSON Lines on standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, TypeAlias

import typer

from towpath.cli.following import Followed, Unfollowed
from towpath.cli.given import Numbered, attributes, claim_checks, parsed, repeated
from towpath.cli.holding import held
from towpath.cli.interrupts import Interrupted, interruptible
from towpath.cli.known import topics_of_manifest
from towpath.cli.lines import Kind, Lines, messages
from towpath.cli.options import BindingsOption, ManifestOption, TransportOption, opened, place
from towpath.cli.output import JsonFlag, print_failure, print_sentence, telling
from towpath.cli.position import CannotKeep, Position
from towpath.cli.progress import progress
from towpath.cli.sending import Results, Sending, Stopped
from towpath.message import ABSENT, NewMessage, utc_now

_MOST = 1_000_000  # of one payload; a file of JSON Lines has no limit

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
LinesAre: TypeAlias = Annotated[
    Kind,
    typer.Option(
        "--lines",
        help="What the lines are: payloads, or messages, objects with payload, partition_key, attributes, "
        "deduplication_key and what else a message has, before which the options are defaults.",
    ),
]
Resume: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        help="Keep in this file how far the lines have come, and go on there if it is there already.",
        show_default=False,
    ),
]
FromLine: TypeAlias = Annotated[int, typer.Option("--from-line", min=1, help="Begin with this line.")]


def publish(
    topic: Annotated[str, typer.Argument(help="The topic's name.", autocompletion=topics_of_manifest)],
    payload: Payload = None,
    *,
    transport: TransportOption,
    file: File = None,
    ref: Ref = None,
    lines: LinesAre = "payloads",
    key: Key = None,
    attribute: Attribute = None,
    dedup_key: DedupKey = None,
    count: Count = 1,
    resume: Resume = None,
    from_line: FromLine = 1,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Publish messages to TOPIC: a payload, a file, claim checks, or JSON Lines of any length.

    A bad line is told with its number and holds up no other. Ctrl-C ends after the call under way and says how to go
    on.

    Example: towpath publish documents.process '{"name": "a.pdf"}' --attribute kind=pdf
    """
    asked = _Asked(
        topic=topic,
        transport=transport,
        manifest=manifest,
        payload=payload,
        file=file,
        refs=ref or [],
        template=NewMessage(partition_key=key, attributes=attributes(attribute or []), deduplication_key=dedup_key),
        count=count,
        kind=lines,
        resume=resume,
        from_line=from_line,
    )
    asked.check()
    with ExitStack() as ended:
        source = asked.lines(ended) if asked.of_lines else asked.source()
        publisher = ended.enter_context(opened(transport, manifest, bindings))
        sending = Sending(
            publisher=publisher,
            topic=topic,
            results=Results() if as_json else None,
            follower=source.follower,
            interrupts=ended.enter_context(interruptible()),
        )
        _run(sending, source)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Messages, who follows them, and of how many bytes they are where these are lines of a file."""

    messages: Iterator[Numbered]
    follower: Followed | Unfollowed
    bytes: int | None = None
    is_one: bool = False

    @property
    def of_lines(self) -> bool:
        """Whether these are JSON Lines."""
        return isinstance(self.follower, Followed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What to publish."""

    topic: str
    transport: str
    manifest: Path | None
    payload: str | None
    file: Path | None
    refs: list[Path]
    template: NewMessage
    count: int
    kind: Kind
    resume: Path | None
    from_line: int

    @property
    def of_lines(self) -> bool:
        """Whether the messages are JSON Lines."""
        return self.payload == "-" or (self.file is not None and self.file.suffix == ".jsonl")

    def check(self) -> None:
        """Raise ``typer.BadParameter`` for what does not go together."""
        if (self.payload is not None) + (self.file is not None) + bool(self.refs) > 1:
            raise typer.BadParameter("give one of PAYLOAD, --file and --ref")
        if self.count > 1 and (self.refs or self.of_lines):
            raise typer.BadParameter("--count repeats one payload; it goes neither with JSON Lines nor with --ref")
        if (self.resume or self.from_line > 1 or self.kind != "payloads") and not self.of_lines:
            raise typer.BadParameter("--resume, --from-line and --lines are for JSON Lines: '-' or --file NAME.jsonl")
        if self.resume and self.from_line > 1:
            raise typer.BadParameter("give one of --resume, which knows the line, and --from-line")

    def source(self) -> _Source:
        """What is no JSON Lines: one payload, once or often, or claim checks."""
        if self.refs:
            found = claim_checks(self.refs, self.template)
        elif self.file is None:
            value = ABSENT if self.payload is None else parsed(self.payload, "PAYLOAD")
            found = repeated(value, self.template, self.count)
        else:
            found = repeated(parsed(_read(self.file), str(self.file)), self.template, self.count)
        return _Source(messages=found, follower=Unfollowed(), is_one=self.count == 1 and len(self.refs) < 2)

    def lines(self, ended: ExitStack) -> _Source:
        """JSON Lines from where they are to go on; ``ended`` closes their file."""
        reading = _standard_input() if self.file is None else ended.enter_context(_opened(self.file))
        lines = Lines(reading)
        follower = Followed(lines, self.from_line)
        if self.resume is not None:
            ended.enter_context(held(self.resume, "publishing"))
            begun = Position.begin(self.topic, place(self.transport, self.manifest), utc_now, os.urandom)
            follower.keep(self.resume, begun)
        name = "standard input" if self.file is None else self.file.name
        size = self.file.stat().st_size if self.file is not None and self.file.is_file() else None
        found = follower.of(messages(lines, name, self.template, self.kind))
        return _Source(messages=found, follower=follower, bytes=size)


def _run(sending: Sending, source: _Source) -> None:
    try:
        with progress("messages published", total=source.bytes, enabled=not (source.is_one or sending.results)) as live:
            sending.run(source.messages, live, of_lines=source.of_lines)
    except Interrupted as interrupt:
        _finish(sending)
        raise interrupt.saying(source.follower.told()) from interrupt
    except Stopped as stop:
        _finish(sending)
        print_failure(f"{stop}; it ends there: {source.follower.told()}")
        raise typer.Exit(1) from stop
    except CannotKeep as fault:
        _finish(sending)
        print_failure(f"{fault}; repeat the command: the last call is not kept there, and is sent again under its ids")
        raise typer.Exit(1) from fault
    _finish(sending)
    if sending.tally.rejected:
        raise typer.Exit(1)


def _finish(sending: Sending) -> None:
    with telling(sending.tally.done()):
        if sending.results is not None:
            sending.results.end()
        else:
            print_sentence(str(sending.tally))


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise typer.BadParameter("standard input is closed; '-' reads the payloads from there")
    return sys.stdin.buffer


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise _unreadable(file, error) from error


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: OSError) -> typer.BadParameter:
    return typer.BadParameter(f"{file} cannot be read: {error.strerror}")
