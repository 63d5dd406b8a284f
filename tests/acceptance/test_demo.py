"""``towpath demo`` as a newcomer runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.json_shapes import shaped

PROJECT = Path(__file__).resolve().parents[2]
DOCUMENTS = PROJECT / "examples" / "quickstart" / "documents"


def run_demo(*arguments, folder):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    environment |= {"TMPDIR": str(folder), "COLUMNS": "160"}
    command = [sys.executable, "-m", "towpath", "demo", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    ran = run_demo("--json", folder=tmp_path_factory.mktemp("demo"))
    assert ran.returncode == 0, ran.stderr
    return shaped("demo", ran.stdout)


def test_both_runs_of_the_demo_give_the_same_results_and_failures(demo):
    assert demo["same"] is True
    folder = Path(demo["folder"])
    on_sqlite = {p.name: p.read_text() for p in (folder / "results-sqlite").glob("*.json")}
    in_the_zip = {p.name: p.read_text() for p in (folder / "results-lambda").glob("*.json")}
    assert on_sqlite == in_the_zip
    assert len(on_sqlite) == len(list(DOCUMENTS.iterdir()))


@pytest.mark.parametrize("run", ["sqlite", "lambda"])
def test_the_demos_counts_are_those_of_the_documents(demo, run):
    documents = {path.name: path.read_text() for path in DOCUMENTS.iterdir()}
    counts = demo[run]
    assert counts["messages"] == len(documents) + 1
    assert counts["completed"] == len(documents)
    assert counts["retried"] == 2
    assert counts["headings"] == sum(line.startswith("#") for text in documents.values() for line in text.splitlines())
    assert counts["links"] == sum(text.count("](") for text in documents.values())
    assert counts["words"] > 50_000


@pytest.mark.parametrize("run", ["sqlite", "lambda"])
def test_the_damaged_document_ends_as_a_dead_letter_with_its_reason(demo, run):
    (letter,) = demo[run]["dead_letters"]
    assert letter["document"] == "damaged-contents.md"
    assert letter["attempts"] == 1
    assert "is not UTF-8 text" in letter["reason"]


def test_the_demo_takes_a_folder_of_ones_own_and_shows_a_summary(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "one.md").write_text("# Title\n\nthree plain words\n")
    (own / "two words.txt").write_text("see <https://example.org/>\n")
    ran = run_demo(str(own), folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "the same results and the same failures" in ran.stdout
    assert "one.md failed twice on purpose and then succeeded; damaged-one.md is broken on purpose." in ran.stdout
    assert ran.stdout.endswith("\nNext: README, 'The quickstart by hand'.\n")


def test_the_demo_says_when_there_is_nothing_to_read(tmp_path):
    ran = run_demo(str(tmp_path / "nowhere"), folder=tmp_path)
    assert ran.returncode == 2
    assert "no files" in ran.stderr
