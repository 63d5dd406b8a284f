"""``towpath topology`` and ``towpath manifest``, as a person runs them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.fakes.json_shapes import shaped
from towpath.cli.main import build_app
from towpath.errors import InvalidTopology
from towpath.manifest import Manifest
from towpath.topology import topology_schema

GOLDEN = Path(__file__).parent / "golden"
WRONG = 'name = "Shop"\n[topics.t]\nfare = true\n[subscriptions.s]\ntopic = "u"\nhandler = "app"\nlease_seconds = 1\n'


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def towpath(*arguments: str | Path) -> Result:
    return CliRunner().invoke(build_app(), [str(a) for a in arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_check_shows_topics_and_subscriptions() -> None:
    result = towpath("topology", "check", GOLDEN / "everything.toml")
    assert result.exit_code == 0
    for word in ("orders.changes", "FIFO", "ledger", "database", "orders.partner", "external", "ordered", "paused"):
        assert word in result.stdout
    assert f"{GOLDEN / 'everything.toml'} has no mistakes, but see the warnings above." in result.stdout


def test_check_shows_names_in_full_on_a_narrow_terminal() -> None:
    result = CliRunner().invoke(
        build_app(), ["topology", "check", str(GOLDEN / "documents.toml")], env={"COLUMNS": "40"}
    )
    assert "…" not in result.stdout


def test_check_warns_of_what_is_allowed_and_probably_not_wanted() -> None:
    result = towpath("topology", "check", GOLDEN / "everything.toml")
    assert result.exit_code == 0
    block = ["69", 'subscriptions."orders.changes.apply".lambda.batch_size', "is more than 1 on a FIFO queue: messages"]
    lines = result.stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("line") and line.endswith(block[0]))
    assert all(told in line for told, line in zip(block, lines[start:], strict=False))


def test_check_without_warnings_has_no_table_of_them() -> None:
    result = towpath("topology", "check", GOLDEN / "documents.toml")
    assert "warning" not in result.stdout
    assert result.stdout.endswith(" has no mistakes.\n")


def test_check_reads_topology_toml_of_the_folder_when_no_file_is_named() -> None:
    Path("topology.toml").write_text('name = "shop"\n', encoding="utf-8")
    result = towpath("topology", "check")
    assert "topology.toml has no mistakes, but see the warnings above." in result.stdout
    assert "subscription" not in result.stdout


def test_check_of_a_file_that_is_not_there_is_exit_2_in_json_too() -> None:
    result = towpath("topology", "check", "none.toml", "--json")
    (mistake,) = json.loads(result.stdout)["mistakes"]
    assert (result.exit_code, mistake["path"], mistake["line"]) == (2, "", None)
    assert "does not exist" in mistake["problem"]


MEETING = """name = "shop"
[topics.t]
[subscriptions."a.b"]
topic = "t"
handler = "app:run"
[subscriptions."a-b"]
topic = "t"
handler = "app:run"
"""
# With a longer environment the names of the queues are too long for SQS and end in hashes, which differ.
MEETING_IN_SOME = MEETING.replace("a.b", "b" * 60).replace("a-b", "b" * 60 + "-dlq")


def test_check_refuses_what_rendering_refuses_for_every_environment() -> None:
    Path("topology.toml").write_text(MEETING, encoding="utf-8")
    result = towpath("topology", "check", "--json")
    (mistake,) = json.loads(result.stdout)["mistakes"]
    assert result.exit_code == 2
    assert (mistake["path"], mistake["line"]) == ('subscriptions."a.b"', 3)
    assert isinstance(towpath("topology", "check").exception, InvalidTopology)
    assert isinstance(towpath("manifest", "render", "-e", "prod").exception, InvalidTopology)


def test_check_warns_of_what_rendering_refuses_for_some_environments() -> None:
    Path("topology.toml").write_text(MEETING_IN_SOME, encoding="utf-8")
    result = towpath("topology", "check", "--json")
    (warning,) = json.loads(result.stdout)["warnings"]
    assert result.exit_code == 0
    assert warning["line"] == 6
    assert "in an environment with a short name such as 'x'" in warning["problem"]


def test_check_for_named_environments_is_exact() -> None:
    Path("topology.toml").write_text(MEETING_IN_SOME, encoding="utf-8")
    fits = towpath("topology", "check", "--json", "-e", "production-europe-1")
    assert (fits.exit_code, json.loads(fits.stdout)["warnings"]) == (0, [])
    meets = towpath("topology", "check", "--json", "-e", "production-europe-1", "--environment", "x")
    assert meets.exit_code == 2
    assert "'shop-x-bbb" in json.loads(meets.stdout)["mistakes"][0]["problem"]


def test_check_for_an_environment_that_is_no_name_is_exit_2() -> None:
    Path("topology.toml").write_text(MEETING, encoding="utf-8")
    result = towpath("topology", "check", "-e", "Prod")
    assert isinstance(result.exception, InvalidTopology)
    assert "the environment's name must be 1 to 20 of a-z" in str(result.exception)


def test_check_reports_every_mistake_at_once() -> None:
    Path("topology.toml").write_text(WRONG, encoding="utf-8")
    result = towpath("topology", "check")
    assert isinstance(result.exception, InvalidTopology)  # told by the root command, exit 2
    assert len(result.exception.mistakes) == 5


def test_check_as_json_has_every_mistake_with_path_problem_and_line() -> None:
    Path("topology.toml").write_text(WRONG, encoding="utf-8")
    result = towpath("topology", "check", "--json")
    found = shaped("topology check", result.stdout)
    assert result.exit_code == 2
    assert found["file"] == "topology.toml"
    assert [(m["line"], m["path"]) for m in found["mistakes"]] == [
        (1, "name"),
        (3, "topics.t.fare"),
        (5, "subscriptions.s.topic"),
        (6, "subscriptions.s.handler"),
        (7, "subscriptions.s.lease_seconds"),
    ]
    assert all(m["problem"] for m in found["mistakes"])


def test_check_as_json_of_a_sound_file_has_its_rows_and_its_warnings() -> None:
    result = towpath("topology", "check", GOLDEN / "everything.toml", "--json")
    found = shaped("topology check", result.stdout)
    assert (result.exit_code, found["mistakes"]) == (0, [])
    assert [(w["line"], w["path"]) for w in found["warnings"]] == [
        (16, 'topics."orders.imports".status'),
        (30, 'subscriptions."orders.invoice".heartbeat'),
        (32, 'subscriptions."orders.invoice".dead_letter_retention_days'),
        (40, 'subscriptions."orders.invoice".lambda.batch_size'),
        (57, 'subscriptions."orders.paused".status'),
        (69, 'subscriptions."orders.changes.apply".lambda.batch_size'),
    ]
    assert found["topics"][2] == {"topic": "orders.imports", "transport": "aws", "type": "FIFO", "status": "disabled"}
    assert found["subscriptions"][2] == {
        "subscription": "orders.partner",
        "topic": "orders",
        "host": "external",
        "partition_mode": "none",
        "handler": None,
        "status": "active",
    }


def test_schema_is_a_json_document() -> None:
    assert json.loads(towpath("topology", "schema").stdout) == topology_schema()


def test_render_writes_manifest_json_and_says_so() -> None:
    result = towpath("manifest", "render", GOLDEN / "documents.toml", "--environment", "prod")
    assert result.exit_code == 0
    assert Path("manifest.json").read_text(encoding="utf-8") == (GOLDEN / "documents.json").read_text(encoding="utf-8")
    assert result.stdout == "Wrote manifest.json for the environment prod (topics: 1, subscriptions: 1).\n"


def test_render_to_standard_output_prints_the_manifest_and_nothing_else() -> None:
    result = towpath("manifest", "render", GOLDEN / "documents.toml", "-e", "prod", "--output", "-")
    assert result.stdout == (GOLDEN / "documents.json").read_text(encoding="utf-8")
    assert not Path("manifest.json").exists()


def test_render_all_on_database_needs_nothing_of_aws() -> None:
    towpath("manifest", "render", GOLDEN / "everything.toml", "-e", "dev", "--all-on", "database", "-o", "dev.json")
    manifest = Manifest.load("dev.json")
    assert {topic.transport for topic in manifest.topics.values()} == {"database"}


def test_render_of_a_topology_with_mistakes_writes_nothing() -> None:
    Path("topology.toml").write_text(WRONG, encoding="utf-8")
    assert isinstance(towpath("manifest", "render", "-e", "dev").exception, InvalidTopology)
    assert not Path("manifest.json").exists()


def test_render_to_a_place_that_cannot_be_written_is_one_sentence_and_exit_1() -> None:
    result = towpath("manifest", "render", GOLDEN / "documents.toml", "-e", "dev", "-o", "none/manifest.json")
    assert result.exit_code == 1
    assert result.stderr == "error: none/manifest.json cannot be written: No such file or directory\n"


@pytest.mark.parametrize("arguments", [["manifest", "render"], ["manifest", "render", "-e", "dev", "--all-on", "aws"]])
def test_wrong_use_of_render_is_exit_2(arguments: list[str]) -> None:
    assert towpath(*arguments).exit_code == 2


@pytest.mark.parametrize("command", [["topology", "check"], ["topology", "schema"], ["manifest", "render"]])
def test_every_command_shows_an_example_in_its_help(command: list[str]) -> None:
    assert f"Example: towpath {' '.join(command)}" in " ".join(towpath(*command, "--help").stdout.split())
