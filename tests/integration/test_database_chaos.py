"""A short chaos run on each database, whose history must break no promise. ``make soak`` makes long ones."""

import pytest
from sqlalchemy.engine import make_url

from tests.history.chaos import Length, run
from tests.history.checking import check
from tests.history.events import read
from tests.history.plan import Plan

SEED = 4
STORM = Length(strikes=6, pause=1.5, deliveries=120)  # one of each kind, and two more


@pytest.mark.timeout(900)
def test_processes_that_are_killed_stalled_and_cut_off_break_no_promise(database_url, tmp_path):
    folder = tmp_path / "history"
    folder.mkdir()
    url = f"{database_url}?synchronous=NORMAL" if is_sqlite(database_url) else database_url  # a kill is no power cut
    plan = Plan(url=url, seed=SEED, messages=500, keys=60, publishers=2)
    told = run(plan, folder, STORM)
    history = read(folder)
    assert check(history) == []
    modes = {rule.mode for rule in history.rules.values()}
    assert modes == {"none", "exclusive", "ordered"}
    assert told.strikes.keys() >= {"kill", "stall", "drain", "lock" if plan.is_sqlite else "disconnect"}
    assert len(history.ordinals) > plan.messages / 2
    assert len(history.endings) > plan.messages


def is_sqlite(url):
    return make_url(url).get_backend_name() == "sqlite"
