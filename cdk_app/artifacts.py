"""The functions' code: a zip in S3, a container image, or a zip on this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cdk_app.errors import InvalidInputs
from towpath.errors import Mistake
from towpath.manifest import Manifest
from towpath.records import key_path, read_json

_SHA256: Final = re.compile("[0-9a-f]{64}")
_FORMS: Final = (
    '{"s3_bucket": …, "s3_key": …, "sha256": …}, {"image_uri": …}, {"filename": …}, or what '
    "'towpath bundle --json' printed"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Artifact:
    """A zip in a bucket of the function's region. ``sha256`` is in hexadecimal, and Lambda checks it."""

    s3_bucket: str
    s3_key: str
    sha256: str

    @property
    def content(self) -> str:
        """What changes exactly when the code does."""
        return self.sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageArtifact:
    """A container image in ECR. A URI with a digest says what is in it; one with a tag does not."""

    image_uri: str

    @property
    def content(self) -> str:
        """What changes exactly when the code does, for a URI with a digest."""
        return self.image_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipArtifact:
    """A zip on this machine, which the CDK uploads into the bucket of a bootstrapped environment."""

    filename: Path
    sha256: str

    @property
    def content(self) -> str:
        """What changes exactly when the code does."""
        return self.sha256

    @staticmethod
    def of(filename: Path) -> ZipArtifact:
        """The file, with its SHA-256. Raises ``OSError``."""
        return ZipArtifact(filename=filename, sha256=hashlib.sha256(filename.read_bytes()).hexdigest())


Artifact = S3Artifact | ImageArtifact | ZipArtifact


def code_sha256(artifact: Artifact) -> str | None:
    """The zip's hash as Lambda writes it, in base64; None for an image."""
    if isinstance(artifact, ImageArtifact):
        return None
    return base64.b64encode(bytes.fromhex(artifact.sha256)).decode()


def load_artifacts(path: Path, manifest: Manifest) -> dict[str, Artifact]:
    """The artifacts in the JSON file ``path``, by subscription. Raises ``InvalidInputs`` with every mistake.

    The file has an object of artifacts by subscription; or what ``towpath bundle --json`` printed, once: then the one
    zip is for the subscription that it is named for, or for all of them where it is named for the topology. Paths in
    it are relative to the file's folder.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
        raise InvalidInputs(str(path), [Mistake(path="", problem=problem)]) from error
    return read_artifacts(read_json(text, InvalidInputs, str(path)), path.parent, manifest, str(path))


def read_artifacts(document: object, folder: Path, manifest: Manifest, subject: str) -> dict[str, Artifact]:
    """The artifacts of a parsed document, as ``load_artifacts`` says."""
    if not isinstance(document, dict):
        raise InvalidInputs(subject, [Mistake(path="", problem="must hold an object: subscription to artifact")])
    if _is_bundle(document):
        document = _for_everything_in(document, manifest)
    artifacts: dict[str, Artifact] = {}
    mistakes: list[Mistake] = []
    for name, written in document.items():
        read = _read(written, folder)
        if isinstance(read, str):
            mistakes.append(Mistake(path=key_path((name,)), problem=read))
        else:
            artifacts[name] = read
    if mistakes:
        raise InvalidInputs(subject, mistakes)
    return artifacts


def _is_bundle(document: Mapping[str, Any]) -> bool:
    return isinstance(document.get("tree_hash"), str) and isinstance(document.get("name"), str)


def _for_everything_in(bundle: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    if bundle["name"] != manifest.name or manifest.name in manifest.subscriptions:
        return {bundle["name"]: bundle}
    on_lambda = (name for name, one in manifest.subscriptions.items() if one.host == "lambda")
    return dict.fromkeys(on_lambda, bundle)


def _read(written: object, folder: Path) -> Artifact | str:
    """The artifact, or what is wrong."""
    if not isinstance(written, dict):
        return f"must be one of {_FORMS}"
    if _is_bundle(written):
        keys = ("s3_bucket", "s3_key", "sha256") if "s3_bucket" in written else ("path", "sha256")
        written = {key: written.get(key) for key in keys}
    texts = {key: value for key, value in written.items() if isinstance(value, str) and value}
    if len(texts) < len(written):
        return "must hold texts, none of them empty"
    return _of_texts(texts, folder)


def _of_texts(written: Mapping[str, str], folder: Path) -> Artifact | str:
    if "sha256" in written and not _SHA256.fullmatch(written["sha256"]):
        return f"has the sha256 {json.dumps(written['sha256'])}, and needs 64 hexadecimal digits"
    match sorted(written):
        case ["s3_bucket", "s3_key", "sha256"]:
            return S3Artifact(**written)
        case ["image_uri"]:
            return ImageArtifact(**written)
        case ["filename" | "path" as place] | ["filename" | "path" as place, "sha256"]:
            return _zip(folder / written[place], written.get("sha256"))
        case _:
            return f"must be one of {_FORMS}"


def _zip(filename: Path, sha256: str | None) -> Artifact | str:
    try:
        artifact = ZipArtifact.of(filename)
    except OSError as error:
        return f"names the file {filename}, which cannot be read: {error.strerror}"
    if sha256 is not None and sha256 != artifact.sha256:
        return f"names the file {filename}, which has another sha256 now: it was built anew"
    return artifact
