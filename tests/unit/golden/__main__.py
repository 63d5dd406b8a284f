"""Writes the golden manifests anew: ``python -m tests.unit.golden``. Read the difference before you commit it."""

from pathlib import Path

from towpath.resolve import resolve
from towpath.topology import load_topology


def rendered(topology_file: Path) -> str:
    """The manifest of a golden topology, in the environment that all of them are for."""
    return resolve(load_topology(topology_file), "prod").to_json()


if __name__ == "__main__":
    for file in sorted(Path(__file__).parent.glob("*.toml")):
        file.with_suffix(".json").write_text(rendered(file), encoding="utf-8")
