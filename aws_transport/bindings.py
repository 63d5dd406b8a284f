"""Bindings: the ARNs and URLs that a deployment of the manifest made, as a file says them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from towpath.errors import InvalidBindings, Mistake
from towpath.manifest import Manifest
from towpath.records import read_record

BINDINGS_VARIABLE = "TOWPATH_BINDINGS"
_SUBJECT = "the file of bindings"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBinding:
    """The SNS topic that a topic became."""

    arn: str
    fifo: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionBinding:
    """The queues that a subscription became; ``function_arn`` is its Lambda alias's, for host ``lambda``."""

    queue_url: str
    queue_arn: str
    dead_letter_queue_url: str
    delivery_failure_queue_url: str
    function_arn: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """Everything that a deployment made, by the manifest's names. A name without an entry is not deployed yet."""

    topics: dict[str, TopicBinding]
    subscriptions: dict[str, SubscriptionBinding]

    def check(self, manifest: Manifest, region: str) -> None:
        """Raise ``InvalidBindings`` when these are of something else than is meant: another region, or topics that are
        FIFO or standard otherwise than ``manifest`` says. AWS would refuse call by call, each in other words.
        """
        mistakes = [*_elsewhere(self, region), *_of_other_kinds(self.topics, manifest)]
        if mistakes:
            raise InvalidBindings(_SUBJECT, mistakes)

    def to_json(self) -> str:
        """Canonical text, as ``load`` reads it."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @staticmethod
    def from_json(text: str, subject: str = _SUBJECT) -> Bindings:
        """Read bindings strictly. Raises ``InvalidBindings`` about ``subject`` with every mistake."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise InvalidBindings(subject, [Mistake(path="", problem=f"is not JSON: {error}")]) from error
        return read_record(Bindings, document, InvalidBindings, subject)

    @staticmethod
    def merged(parts: Mapping[str, Bindings]) -> Bindings:
        """One of what several stacks have, by their names. Raises ``InvalidBindings`` for a name in two of them."""
        topics: dict[str, TopicBinding] = {}
        subscriptions: dict[str, SubscriptionBinding] = {}
        mistakes = []
        for stack, part in parts.items():
            for kind, own, known in (
                ("topics", part.topics, topics),
                ("subscriptions", part.subscriptions, subscriptions),
            ):
                twice = [name for name in own if name in known]
                problem = (
                    f"is in the outputs of the stack {stack} and of one before it; name the stacks of one deployment"
                )
                mistakes += [Mistake(path=f"{kind}.{name}", problem=problem) for name in twice]
            topics |= part.topics
            subscriptions |= part.subscriptions
        if mistakes:
            raise InvalidBindings(_SUBJECT, mistakes)
        return Bindings(topics=topics, subscriptions=subscriptions)

    @staticmethod
    def load(path: Path | None) -> Bindings:
        """Read the bindings in the file ``path``. Raises ``InvalidBindings``, also when there is no file."""
        if path is None:
            problem = f"is not given; set {BINDINGS_VARIABLE} to the one that the deployment wrote"
            raise InvalidBindings(_SUBJECT, [Mistake(path="", problem=problem)])
        try:
            return Bindings.from_json(path.read_text(encoding="utf-8"), str(path))
        except OSError as error:
            problem = f"cannot be read: {error.strerror}; a deployment writes it, as its output 'bindings'"
            raise InvalidBindings(str(path), [Mistake(path="", problem=problem)]) from error
        except UnicodeDecodeError as error:
            raise InvalidBindings(str(path), [Mistake(path="", problem="is not UTF-8 text")]) from error


def _elsewhere(bindings: Bindings, region: str) -> Iterator[Mistake]:
    arns = {f"topics.{name}.arn": topic.arn for name, topic in bindings.topics.items()}
    arns |= {f"subscriptions.{name}.queue_arn": one.queue_arn for name, one in bindings.subscriptions.items()}
    for path, arn in arns.items():
        named = _region(arn)
        if named != region:
            yield Mistake(path=path, problem=f"is in {named or 'no region'}, and the transport's URL names {region}")


def _region(arn: str) -> str:
    """Of ``arn:partition:service:region:account:resource``."""
    return ":".join(arn.split(":")[3:4])


def _of_other_kinds(topics: Mapping[str, TopicBinding], manifest: Manifest) -> Iterator[Mistake]:
    for name, topic in topics.items():
        meant = manifest.topics[name].aws if name in manifest.topics else None
        if meant is not None and meant.fifo != topic.fifo:
            made, wanted = ("FIFO", "standard") if topic.fifo else ("standard", "FIFO")
            problem = f"says {made}, and the manifest {wanted}; give the bindings of this manifest's deployment"
            yield Mistake(path=f"topics.{name}.fifo", problem=problem)
