"""Writes the golden manifests anew: ``python -m tests.unit.golden``. Read the difference before you commit it.

A manifest beside its topology is there in full, a very large one as a digest of each of its records.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from towpath.resolve import resolve
from towpath.topology import load_topology

FOLDER = Path(__file__).parent
TOPOLOGIES = sorted(FOLDER.glob("*.toml"))
ENVIRONMENT = "prod"
IN_FULL = 150_000  # letters


def rendered(topology_file: Path) -> str:
    """The manifest of a golden topology, in the environment that all of them are for."""
    return resolve(load_topology(topology_file), ENVIRONMENT).to_json()


def golden(topology_file: Path) -> tuple[Path, str]:
    """The file that keeps the manifest of ``topology_file``, and what is in it."""
    text = rendered(topology_file)
    if len(text) <= IN_FULL:
        return topology_file.with_suffix(".json"), text
    return topology_file.with_suffix(".digests.json"), json.dumps(digests(json.loads(text)), indent=1) + "\n"


def digests(manifest: dict[str, Any]) -> dict[str, Any]:
    """Every record of the manifest as 16 digits of its SHA-256."""
    return {
        key: {name: digest(record) for name, record in part.items()} if isinstance(part, dict) else part
        for key, part in manifest.items()
    }


def digest(record: object) -> str:
    """16 digits of the SHA-256 of the record's canonical JSON."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


if __name__ == "__main__":
    for topology in TOPOLOGIES:
        file, written = golden(topology)
        file.write_text(written, encoding="utf-8")
