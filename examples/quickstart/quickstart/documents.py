"""Counts the words of text documents and lists their headings and links.

A message carries no text, only a claim check (``payload_ref``): the document's ``file:`` address, its size and its
SHA-256. An address without a folder of its own (``file:one.md``) is looked for in the folder that the variable
``QUICKSTART_DOCUMENTS`` names. The results go as JSON into the one that ``QUICKSTART_RESULTS`` names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from towpath import Complete, Context, FatalError, Message, Outcome, PayloadRef, TransientError

_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<(https?://[^>\s]+)>")
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What one document holds."""

    document: str
    words: int
    headings: list[str]
    links: list[str]


def process(message: Message, context: Context) -> Outcome:
    """Summarise the document that the message points to."""
    reference = message.payload_ref
    if reference is None:
        raise FatalError("the message has no payload_ref that says where the document is")
    rehearse_failures(message, context)
    document = document_path(reference)
    summary = summarise(document.name, read_text(document, reference))
    context.check()
    write_result(summary)
    context.log.info("summarised %s", document.name)
    return Complete()


def rehearse_failures(message: Message, context: Context) -> None:
    """Fail the first ``rehearse_failures`` attempts on purpose, so that the demo has a retry to show."""
    wanted = message.attributes.get("rehearse_failures", 0)
    if isinstance(wanted, int) and context.attempt <= wanted:
        raise TransientError(f"rehearsed failure {context.attempt} of {wanted}")


def document_path(reference: PayloadRef) -> Path:
    """Where the document lies."""
    return Path(os.environ.get("QUICKSTART_DOCUMENTS", "documents"), unquote(urlsplit(reference.uri).path))


def read_text(document: Path, reference: PayloadRef) -> str:
    """The document's text. A changed or unreadable document can never succeed; a missing one may still arrive."""
    try:
        content = document.read_bytes()
    except FileNotFoundError as error:
        raise TransientError(f"{document.name} is not there (yet)") from error
    if reference.sha256 is not None and hashlib.sha256(content).hexdigest() != reference.sha256:
        raise FatalError(f"{document.name} is not the document that was published: its SHA-256 differs")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FatalError(f"{document.name} is not UTF-8 text: byte {error.start} cannot be read") from error


def summarise(name: str, text: str) -> Summary:
    """Count and list."""
    return Summary(
        document=name,
        words=len(_WORD.findall(text)),
        headings=_HEADING.findall(text),
        links=[inline or bare for inline, bare in _LINK.findall(text)],
    )


def write_result(summary: Summary) -> None:
    """Write the result under its own name in one step, so that a repeated delivery only writes it again."""
    folder = Path(os.environ.get("QUICKSTART_RESULTS", "results"))
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{summary.document}.json"
    draft = target.with_name(f"{target.name}.{uuid4().hex}.draft")  # another thread may be at the same document
    draft.write_text(json.dumps(asdict(summary), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(target)
