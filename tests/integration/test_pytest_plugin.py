"""The plugin for pytest, in a process of its own with a project of its own, as users have it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/how-to/test-a-handler.md"
FILES = dict(re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))

TESTS = """
from datetime import timedelta

import pytest

from towpath import NewMessage
from towpath.errors import SubscriptionNotFound

ORDER = {"attributes": {"kind": "order"}}


def test_one_delivery(towpath_deliver):
    delivered = towpath_deliver("orders.ship", {"pieces": 3})
    assert (delivered.state, delivered.published[0].topic) == ("completed", "mails")
    delivered = towpath_deliver("orders.ship", {"pieces": 10})
    assert (delivered.state, delivered.delay) == ("retried", timedelta(seconds=600))
    assert towpath_deliver("orders.ship", {"pieces": 10}, attempt=2).reason == "MaxAttemptsExceeded"
    assert towpath_deliver("mails.send").reason == "nobody knows what to write"
    with pytest.raises(SubscriptionNotFound, match=r"with handlers there are orders\\.ship, mails\\.send"):
        towpath_deliver("orders")


def test_the_whole_way(towpath_transport, towpath_work):
    (few, many, note) = towpath_transport.publish(
        "orders.placed",
        [NewMessage(payload={"pieces": 3}, **ORDER), NewMessage(payload={"pieces": 10}, **ORDER), NewMessage()],
    )
    assert (few.subscriptions, many.subscriptions, note.subscriptions) == (1, 1, 0)
    worked = towpath_work()
    assert (worked.received, worked.states, worked.dead_letters) == (3, {"completed": 2, "retried": 1}, ())
    assert towpath_work().received == 0
    towpath_transport.advance(600)
    (letter,) = towpath_work("orders.ship").dead_letters
    assert (letter.message_id, letter.attempts) == (many.id, 2)
    assert letter.error.startswith("ConnectionError: the warehouse does not answer")


def test_each_test_has_a_database_of_its_own(towpath_transport):
    assert [stats.dead for stats in towpath_transport.operator().stats()] == [0, 0]


def test_a_function(towpath_lambda, towpath_work, towpath_transport):
    function = towpath_lambda("orders.ship")
    function.send(NewMessage(payload={"pieces": 10}))
    function.send(NewMessage(payload={"pieces": 3}))
    (invocation,) = function.run()
    assert len(invocation.failed) == 1
    assert towpath_work("mails.send").states == {"completed": 1}
    towpath_work.advance(600)
    function.run()
    assert [letter.reason for letter in function.dead_letters] == ["MaxAttemptsExceeded"]
    with pytest.raises(SubscriptionNotFound, match=r"has functions for orders\\.ship"):
        towpath_lambda("mails.send")


def test_all_share_one_clock(towpath_clock, towpath_work, towpath_lambda, towpath_transport):
    began = towpath_clock.now()
    for one in (towpath_clock, towpath_work, towpath_lambda, towpath_transport):
        one.advance(100)
    assert towpath_clock.now() - began >= timedelta(seconds=400)
"""


def run_pytest(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *arguments]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture
def project(tmp_path):
    for name, text in {
        **FILES,
        "tests/test_more.py": TESTS,
        "shop/__init__.py": "",
        "pytest.ini": "[pytest]\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_fixture_does_what_its_page_says(project):
    assert set(FILES) == {"topology.toml", "shop/orders.py", "tests/test_orders.py"}
    code, output = run_pytest(project)
    assert code == 0, output
    assert "8 passed" in output


def test_a_topology_that_is_not_there_or_has_mistakes_is_told_in_a_sentence(project):
    (project / "tests/test_more.py").unlink()
    (project / "tests/test_orders.py").write_text("def test_it(towpath_topology):\n    assert towpath_topology.name\n")
    (project / "topology.toml").rename(project / "broken.toml").write_text(
        FILES["topology.toml"].replace("handler", "handle")
    )
    code, missing = run_pytest(project)
    assert code == 1
    assert f"there is no topology.toml or topology.json in {project}/tests and above up to {project}; put it" in missing
    (project / "pytest.ini").write_text("[pytest]\ntowpath_topology = broken.toml\n")
    code, broken = run_pytest(project)
    assert code == 1
    assert f"{project}/broken.toml" in broken
    assert "did you mean 'handler'?" in broken
    assert "in towpath_topology" not in broken  # no traceback
