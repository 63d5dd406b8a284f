"""What asking a filter costs: ``python benchmarks/filters.py`` prints a table, and with ``--json`` the same as JSON."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable

from towpath.filters import FilterPolicy

MESSAGE = {"kind": "pdf", "tenant": "tenant-acme", "pages": 12, "tags": ("draft", "legal"), "ip": "10.1.2.3"}
POLICIES = {
    "one exact text": {"kind": ["pdf", "docx"]},
    "150 exact texts": {"kind": [*(f"kind-{n}" for n in range(149)), "pdf"]},
    "exact, prefix": {"kind": ["pdf", "docx"], "tenant": [{"prefix": "tenant-"}]},
    "exact, prefix, range": {
        "kind": ["pdf", "docx"],
        "tenant": [{"prefix": "tenant-"}],
        "pages": [{"numeric": [">", 0, "<=", 100]}],
    },
    "exact or prefix, range, exists": {
        "kind": ["docx", {"prefix": "pd"}],
        "pages": [{"numeric": [">=", 10]}],
        "tenant": [{"exists": True}],
    },
    "no match at the first key": {"kind": ["png"], "tenant": [{"prefix": "x"}], "pages": [{"numeric": ["<", 0]}]},
    "exact in a list": {"tags": ["legal"]},
    "two anything-but": {"kind": [{"anything-but": ["a", "b"]}], "tenant": [{"anything-but": {"prefix": "x"}}]},
    "exact, or of two": {"kind": ["pdf"], "$or": [{"tenant": ["x"]}, {"pages": [{"numeric": ["<", 20]}]}]},
    "wildcard": {"tenant": [{"wildcard": "t*-*e"}]},
    "cidr": {"ip": [{"cidr": "10.0.0.0/8"}]},
}
ROUNDS = 60
SECONDS = 0.01  # of one round


def quickest(call: Callable[[], object]) -> float:
    """Microseconds for a call in the quickest of many short rounds: the one in which least else ran."""
    return min(per_call(call) for _ in range(ROUNDS))


def per_call(call: Callable[[], object]) -> float:
    calls, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < SECONDS:
        for _ in range(100):
            call()
        calls += 100
    return elapsed / calls * 1e6


def nothing() -> None:
    return None


def measured(policy: dict[str, object], calling: float) -> dict[str, float]:
    """``calling`` is what a call costs that does nothing."""
    parsed = FilterPolicy.parse(policy)
    return {
        "matches_us": round(quickest(lambda: parsed.matches(MESSAGE)) - calling, 2),
        "parse_us": round(quickest(lambda: FilterPolicy.parse(policy)) - calling, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    as_json = parser.parse_args().json
    calling = quickest(nothing)
    results = {name: measured(policy, calling) for name, policy in POLICIES.items()}
    if as_json:
        json.dump({"python": sys.version.split()[0], "machine": platform.machine(), "policies": results}, sys.stdout)
        print()
        return
    print("| policy | matches, µs | parse, µs |\n|---|---|---|")
    for name, result in results.items():
        print(f"| {name} | {result['matches_us']:.2f} | {result['parse_us']:.0f} |")


if __name__ == "__main__":
    main()
