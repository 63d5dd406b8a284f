"""The file in every bundle that says what it is for, so that a zip can be checked without its project."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from bundling.errors import InvalidStamp, NotABundle
from bundling.target import Target
from towpath.errors import Mistake
from towpath.records import read_record

FILE_NAME: Final = "towpath-bundle.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a bundle was built for. ``name`` is the subscription, or the topology for a bundle of all its
    subscriptions; ``entry_point`` is what Lambda calls, ``handlers`` (``app.work:process``) what that calls.
    """

    bundle_version: Literal[1] = 1
    name: str
    entry_point: str
    handlers: tuple[str, ...] = ()
    target: Target

    @property
    def entry_module(self) -> str:
        """The module of the entry point."""
        return self.entry_point.rpartition(".")[0]


def write_stamp(stamp: Stamp, tree: Path) -> None:
    """Put the stamp into the unpacked bundle."""
    text = json.dumps(asdict(stamp), indent=2, sort_keys=True) + "\n"
    (tree / FILE_NAME).write_text(text, encoding="utf-8")


def read_stamp(archive: Path) -> Stamp:
    """The stamp in the zip ``archive``. Raises ``NotABundle`` or ``InvalidStamp``."""
    try:
        with zipfile.ZipFile(archive) as opened:
            document = json.loads(opened.read(FILE_NAME))
    except FileNotFoundError as error:
        raise NotABundle(archive, "does not exist") from error
    except (OSError, zipfile.BadZipFile) as error:
        raise NotABundle(archive, f"is no zip that can be read ({error})") from error
    except KeyError as error:
        raise NotABundle(archive, f"holds no {FILE_NAME}") from error
    except ValueError as error:
        raise InvalidStamp(FILE_NAME, [Mistake(path="", problem=f"is not JSON: {error}")]) from error
    return read_record(Stamp, document, InvalidStamp, FILE_NAME)
