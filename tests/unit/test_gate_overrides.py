"""What a person allows past the gate, and what is said of entries that allow nothing."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from towpath.errors import InvalidOverrides
from towpath.gate import Blocked, Verdict, load_overrides, verdict

TODAY = date(2026, 11, 30)
GONE = Blocked(address="a", kind="queue", impact="destructive", sentence="is deleted")
WORSE = Blocked(address="b", kind="queue", impact="lossy", sentence="keeps less")
ENTRY = {"addresses": ["a"], "environment": "prod", "expires": "2026-11-30", "reason": "drained"}


def loaded(tmp_path: Path, *entries: dict[str, Any]) -> Any:
    (tmp_path / "overrides.json").write_text(json.dumps({"overrides": list(entries)}))
    return load_overrides(tmp_path / "overrides.json")


def judged(tmp_path: Path, *entries: dict[str, Any]) -> Verdict:
    return verdict([GONE, WORSE], {"a", "b", "c"}, loaded(tmp_path, *entries), "prod", TODAY)


def test_without_overrides_everything_stays_blocked(tmp_path: Path) -> None:
    assert judged(tmp_path) == Verdict(blocked=(GONE, WORSE))


def test_an_override_allows_its_addresses_to_the_end_of_its_last_day(tmp_path: Path) -> None:
    assert judged(tmp_path, ENTRY) == Verdict(blocked=(WORSE,), allowed=(GONE,))


def test_an_override_of_several_addresses_allows_each(tmp_path: Path) -> None:
    assert judged(tmp_path, ENTRY | {"addresses": ["a", "b"]}) == Verdict(blocked=(), allowed=(GONE, WORSE))


def test_an_override_that_is_over_allows_nothing_and_is_told(tmp_path: Path) -> None:
    found = judged(tmp_path, ENTRY | {"expires": "2026-11-29"})
    assert found.blocked == (GONE, WORSE)
    assert found.notes == ("the override of a expired after 2026-11-29: take it out, or have it reviewed anew",)


def test_an_override_of_another_environment_allows_nothing_and_is_not_told(tmp_path: Path) -> None:
    assert judged(tmp_path, ENTRY | {"environment": "test"}) == Verdict(blocked=(GONE, WORSE))


@pytest.mark.parametrize(
    ("address", "told"),
    [("c", "is not needed, since nothing of it is blocked"), ("elsewhere", "is for nothing that is about to change")],
)
def test_an_override_that_is_not_used_is_told(tmp_path: Path, address: str, told: str) -> None:
    (note,) = judged(tmp_path, ENTRY | {"addresses": [address]}).notes
    assert f"the override of {address} {told}" in note


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"addresses": ["module.towpath.*"]}, "must be the whole address of one resource"),
        ({"addresses": ["a", "?"]}, "overrides[0].addresses[1]"),
        ({"addresses": [" "]}, "must be the whole address of one resource"),
        ({"addresses": []}, "are none; name each address that may change"),
        ({"environment": "*"}, "must be the name of one environment"),
        ({"environment": ""}, "must be the name of one environment"),
        ({"expires": "never"}, "must be a day such as 2027-03-31"),
        ({"expires": "2026-13-01"}, "must be a day such as 2027-03-31"),
        ({"expires": "20261130"}, "must be a day such as 2027-03-31"),
        ({"reason": " "}, "must say why"),
        ({"everything": True}, "is not a known key"),
    ],
)
def test_an_override_that_says_too_little_or_too_much_is_refused(
    tmp_path: Path, wrong: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidOverrides) as caught:
        loaded(tmp_path, ENTRY | wrong)
    assert told in str(caught.value)


@pytest.mark.parametrize("missing", ["addresses", "environment", "expires", "reason"])
def test_each_part_of_an_override_must_be_there(tmp_path: Path, missing: str) -> None:
    with pytest.raises(InvalidOverrides, match=rf"overrides\[0\].{missing}: is missing"):
        loaded(tmp_path, {key: value for key, value in ENTRY.items() if key != missing})


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidOverrides, match="cannot be read"):
        load_overrides(tmp_path / "nothing.json")
