"""The zip file: the same bytes for the same tree, within Lambda's limits."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bundling.errors import NotABundle, TooLarge
from bundling.tree import Entry, weigh
from towpath.limits import LAMBDA_DIRECT_UPLOAD_BYTES, LAMBDA_UNZIPPED_BYTES

_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can state
_UNIX: Final = 3
_LEVEL: Final = 6  # level 9 is half a per cent smaller and takes twice as long


def write_zip(files: Sequence[Entry], path: Path, limit: int = LAMBDA_DIRECT_UPLOAD_BYTES) -> None:
    """Write ``files`` in their order to ``path``, replacing it at once. ``limit`` is that of the zip's own bytes.
    Raises ``TooLarge``: the former zip stays.

    Several may write one path at a time: each makes its zip in a folder of its own beside it, and the last one stays.
    """
    if problem := too_large_unzipped(files):
        raise problem
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        with zipfile.ZipFile(unfinished, "w") as archive:
            for entry in files:
                archive.writestr(_header(entry), entry.path.read_bytes(), zipfile.ZIP_DEFLATED, _LEVEL)
        if (size := unfinished.stat().st_size) > limit:
            repair = "deploy it from S3 (--upload s3://bucket/prefix), which takes larger ones"
            raise TooLarge("zip", size, limit, _heaviest(files, zipped_sizes(unfinished)), repair)
        unfinished.replace(path)


def too_large_unzipped(files: Sequence[Entry]) -> TooLarge | None:
    """The problem with files that Lambda would not unpack."""
    size = sum(entry.size for entry in files)
    if size <= LAMBDA_UNZIPPED_BYTES:
        return None
    repair = "leave out what the handler does not need, or deploy a container image"
    return TooLarge("unzipped bundle", size, LAMBDA_UNZIPPED_BYTES, _heaviest(files, {}), repair)


def zipped_sizes(path: Path) -> dict[str, int]:
    """How many bytes each file takes in the zip, by its name."""
    with zipfile.ZipFile(path) as archive:
        return {header.filename: header.compress_size for header in archive.infolist()}


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


def _heaviest(files: Sequence[Entry], zipped: Mapping[str, int]) -> list[str]:
    weights = weigh(files, zipped)
    by_size = sorted(weights, key=lambda weight: weight.zipped if zipped else weight.size, reverse=True)
    return [f"{weight.name} ({weight.zipped if zipped else weight.size:,})" for weight in by_size[:3]]
