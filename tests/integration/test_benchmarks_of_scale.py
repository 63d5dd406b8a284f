"""The benchmarks that need a long time, with next to nothing to do: they must run when somebody wants their figures."""

from argparse import Namespace
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from benchmarks import churn, drain, scale
from benchmarks.crowd import Crowd, prepare

SMALL = Crowd(database="sqlite", mode="ordered", backlog=1_000, keys=1_000, blocked=True)


@pytest.mark.parametrize("mode", ["exclusive", "ordered"])
def test_claims_in_a_crowd_are_compared_with_those_of_a_small_one_and_drawn(tmp_path, mode):
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("large", "small")]
    for url in urls:
        prepare(url)
    crowd = replace(SMALL, mode=mode)
    found = {crowd.name: scale._described(crowd) | scale.measured(urls, crowd, 0.0)}
    assert found[crowd.name]["batch"] == found[crowd.name]["small"]["batch"] == 10  # of a thousand keys, one in 100
    assert scale.table(found).row_count == 1
    assert ET.fromstring(scale.drawn(found)).tag.endswith("svg")


def test_sizes_of_tables_are_told_while_deliveries_go_through_them(postgres_server):
    found = churn.bloat(postgres_server, "ordered", Namespace(deliveries=1_000, waiting=1_000, keys=100, pace=0.0))
    assert [step["bytes"]["towpath_delivery"] > 0 for step in found["steps"]] == [True] * churn.WINDOWS


def test_a_file_is_published_and_drained_and_memory_is_told(tmp_path):
    found = drain.measured(f"sqlite:///{tmp_path}/drain.db", tmp_path, 150)
    assert found["publisher_kb"] > 10_000
    assert found["worker_kb"] > 10_000
    assert drain.table({"sqlite": {"150": found}}).row_count == 1
