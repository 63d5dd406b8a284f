"""The zip file: the same bytes for the same tree, within Lambda's limits."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bundling.errors import NotABundle, TooLarge
from bundling.tree import Entry, weigh
from towpath.limits import LAMBDA_DIRECT_UPLOAD_BYTES, LAMBDA_UNZIPPED_BYTES

_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can state
_UNIX: Final = 3
_LEVEL: Final = 6  # level 9 is half a per cent smaller and takes twice as long


def write_zip(files: Sequence[Entry], path: Path) -> None:
    """Write ``files`` in their order to ``path``, replacing it at once. Raises ``TooLarge``: the former zip stays.

    Several may write one path at a time: each makes its zip in a folder of its own beside it, and the last one stays.
    """
    _check("unzipped bundle", sum(entry.size for entry in files), LAMBDA_UNZIPPED_BYTES, files)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        with zipfile.ZipFile(unfinished, "w") as archive:
            for entry in files:
                archive.writestr(_header(entry), entry.path.read_bytes(), zipfile.ZIP_DEFLATED, _LEVEL)
        _check("zip", unfinished.stat().st_size, LAMBDA_DIRECT_UPLOAD_BYTES, files)
        unfinished.replace(path)


def unpack(path: Path, folder: Path) -> None:
    """Unpack into a folder, permissions included. Raises ``NotABundle`` when it cannot be done."""
    try:
        with zipfile.ZipFile(path) as archive:
            for header in archive.infolist():
                unpacked = Path(archive.extract(header, folder))  # which keeps every name below the folder
                if header.external_attr >> 16:
                    unpacked.chmod(header.external_attr >> 16 & 0o777)
    except (OSError, zipfile.BadZipFile) as error:
        raise NotABundle(path, f"cannot be unpacked: {error}") from error


def sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _header(entry: Entry) -> zipfile.ZipInfo:
    header = zipfile.ZipInfo(entry.name, _LONG_AGO)
    header.create_system = _UNIX
    header.external_attr = (0o100000 | entry.mode) << 16
    return header


def _check(what: str, size: int, limit: int, files: Sequence[Entry]) -> None:
    if size > limit:
        heaviest = [f"{part.name} ({part.size:,})" for part in weigh(files)[:3]]
        raise TooLarge(what, size, limit, heaviest)
