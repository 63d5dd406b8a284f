"""What can go wrong while a zip is built or verified, each with the fact and the repair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from towpath.errors import MistakesFound, TowpathError


class BundleProblems(TowpathError):
    """There are several problems; each is one of the other errors, and all are in ``problems``."""

    def __init__(self, problems: Sequence[TowpathError]) -> None:
        self.problems = tuple(problems)
        listed = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"the bundle has {len(self.problems)} problems:{listed}")


@contextmanager
def noting(problems: list[TowpathError]) -> Iterator[None]:
    """Add what is raised inside to ``problems``, instead of raising it."""
    try:
        yield
    except BundleProblems as several:
        problems.extend(several.problems)
    except TowpathError as problem:
        problems.append(problem)


def raise_all(problems: Sequence[TowpathError]) -> None:
    """Raise the problem, ``BundleProblems`` when there are several, and nothing when there is none."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise BundleProblems(problems)


class UnusableProject(TowpathError):
    """The project cannot be bundled as it stands; the message says what is missing and where."""


class UvFailed(TowpathError):
    """uv is not installed or could not do its part; ``detail`` is what uv said."""

    def __init__(self, what: str, detail: str) -> None:
        self.detail = detail
        super().__init__(f"{what}: {detail}")


class WheelMissing(TowpathError):
    """A package of the registry has no wheel for the target; ``alternatives`` are places for which it has one."""

    def __init__(self, requirement: str, target: str, alternatives: Sequence[str]) -> None:
        self.requirement = requirement
        self.alternatives = tuple(alternatives)
        advice = (
            f"the nearest choice is {' or '.join(alternatives)}"
            if alternatives
            else "none was found for another version, Python or architecture either; build one and depend on its path"
        )
        super().__init__(f"{requirement} has no wheel for {target}; {advice}")


class InterpreterMissing(TowpathError):
    """No interpreter of the target's Python is at hand to compile for it or to run it."""

    def __init__(self, python: str, repair: str) -> None:
        self.python = python
        super().__init__(f"no usable Python {python} was found on this machine; {repair}")


class TooLarge(TowpathError):
    """The bundle is over one of Lambda's limits, in bytes; ``repair`` says what to do."""

    def __init__(self, what: str, size: int, limit: int, heaviest: Sequence[str], repair: str) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            f"the {what} is {size:,} bytes, {size - limit:,} over Lambda's limit of {limit:,}; "
            f"the heaviest parts are {', '.join(heaviest)}; {repair}"
        )


class ForeignBinaries(TowpathError):
    """Compiled files in the bundle are for another system than the target; ``findings`` has one for each."""

    def __init__(self, target: str, findings: Sequence[str]) -> None:
        self.findings = tuple(findings)
        super().__init__(
            f"the bundle is for {target}, but {'; '.join(findings)}; "
            "depend on wheels for that target, or bundle for another"
        )


class ImportUnwanted(TowpathError):
    """What Lambda imports first reaches a package that has no place in a function; ``chain`` are the modules from the
    first to that one.
    """

    def __init__(self, module: str, chain: Sequence[str]) -> None:
        self.module = module
        self.chain = tuple(chain)
        super().__init__(
            f"the function would load {module}, which has no place on Lambda: {' imports '.join(chain)}; "
            "take the import out, or move it into the function that needs it"
        )


class ImportMissing(TowpathError):
    """A module of the bundle imports another that is not in it, so that the function would not start."""

    def __init__(self, module: str, importer: str, line: int) -> None:
        self.module = module
        super().__init__(
            f"{importer}, line {line}, imports {module}, which the bundle would not have; add its distribution to the "
            "project's dependencies, or, for a folder of the project, give the project a [build-system] that packs it"
        )


class UploadFailed(TowpathError):
    """The zip could not be put into S3; the message says what S3 answered and what to do."""


class NotABundle(TowpathError):
    """The file is not a zip that ``towpath bundle`` made."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(f"{path} {problem}; 'towpath bundle' makes such a zip")


class InvalidStamp(MistakesFound):
    """The ``towpath-bundle.json`` in a zip is not one that this version can read; bundle again."""


class UnusableEvent(TowpathError):
    """The event for the function cannot be read or is not JSON."""


class RehearsalFailed(TowpathError):
    """The function did not start or failed as a whole while messages were fed to it; the message says what it said."""
