"""The documentation is run: every session, every Python block, every topology in it; and all else is looked at."""

import json
import re
import shutil
import subprocess
import textwrap

import pytest
import yaml

from tests.pages.blocks import BLOCKS, PAGES, PROJECT, of_kind, sessions
from tests.pages.calls import calls_in_code, calls_in_prose, faults
from tests.pages.not_run import NOT_RUN, excuse_of
from tests.pages.shells import run
from tests.pages.situations import SITUATIONS, Servers
from tests.pages.warm import warm_towpath
from towpath.function_settings import FunctionSettings
from towpath.settlement import SubscriptionPolicy
from towpath.topology import load_topology

RUN = ("console", "python", "sql", "toml")
LOOKED_AT = ("hcl", "json", "sh", "yaml")
OF_A_FUNCTION = {
    "AWS_DEFAULT_REGION": "eu-west-1",
    "TOWPATH_SUBSCRIPTION": FunctionSettings(
        policy=SubscriptionPolicy(subscription="documents.convert", topic="documents.process", handler=None),
        fifo=False,
        concurrency=1,
        timeout_seconds=60,
    ).to_json(),
    "TOWPATH_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/convert",
    "TOWPATH_DEAD_LETTER_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/convert-dlq",
}
LINK = re.compile(r"\]\((?!https?://)([^)\s]*)\)")
ALL_PAGES = [*PAGES, PROJECT / "CHANGELOG.md"]


def named(page):
    return str(page.relative_to(PROJECT))


def to_run(*kinds):
    """The blocks of these kinds but those that are excused."""
    return [block for block in of_kind(*kinds) if excuse_of(block) is None]


def by_page(*kinds):
    """The blocks of these kinds, those of a page together."""
    found = to_run(*kinds)
    pages = dict.fromkeys(block.page for block in found)
    return [pytest.param([block for block in found if block.page == page], id=named(page)) for page in pages]


# --- Pages -------------------------------------------------------------------------------------------------------


def test_every_page_is_in_the_table_of_contents():
    index = PROJECT / "docs/README.md"
    linked = {(index.parent / target).resolve() for target in LINK.findall(index.read_text())}
    assert [page for page in PAGES if index.parent in page.parents and not linked & {page, page.parent}] == [index]


def anchors(page):
    """What GitHub makes of a page's headings, with which links may end."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL_PAGES, ids=named)
def test_every_link_leads_to_something(page):
    broken = []
    for target in LINK.findall(page.read_text()):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_that_a_sentence_names_exists(page):
    assert {call: wrong for call in calls_in_prose(page) if (wrong := faults(call))} == {}


def test_every_target_of_make_that_a_page_names_exists():
    made_by_init = PROJECT / "towpath/cli/project"
    files = [PROJECT / "Makefile", *made_by_init.rglob("Makefile"), *made_by_init.rglob("*.mk")]
    targets = {name for file in files for name in re.findall(r"^([a-z-]+):", file.read_text(), re.MULTILINE)}
    called = {name for page in PAGES for name in re.findall(r"[`$] ?make ([a-z-]+)", page.read_text())}
    assert called - targets == set()


# --- Blocks ------------------------------------------------------------------------------------------------------


def test_every_block_is_run_or_looked_at_or_says_why_not():
    excuses = {block.place: excuse_of(block) for block in BLOCKS}
    kinds = {block.place: block.kind or "no kind" for block in BLOCKS if block.kind not in RUN + LOOKED_AT}
    assert {place: kind for place, kind in kinds.items() if excuses[place] is None} == {}
    assert NOT_RUN.keys() - set(excuses.values()) == set()


def test_every_situation_is_one_that_is_made_and_every_one_is_used():
    assert {block.situation for block in BLOCKS} == set(SITUATIONS)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    with warm_towpath(tmp_path_factory.mktemp("warm")) as folder:
        yield folder


def session_id(session):
    first = session[0]
    return f"{named(first.page)}-{first.situation}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("session", sessions(to_run("console", "sql")), ids=session_id)
def test_every_session_runs_and_prints_what_the_page_says(session, tmp_path, programs, request):
    servers = Servers(fixture=request.getfixturevalue, towpath=programs / "towpath")
    with SITUATIONS[session[0].situation](tmp_path, servers) as prepared:
        run(session, prepared.folder, prepared.variables, programs)


@pytest.mark.parametrize("blocks", by_page("python"))
def test_every_python_block_runs(blocks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in OF_A_FUNCTION.items():
        monkeypatch.setenv(name, value)
    for block in blocks:
        namespace = {"__name__": "documentation"}
        exec(compile(textwrap.dedent(block.code), block.place, "exec"), namespace)


@pytest.mark.parametrize("blocks", by_page("toml"))
def test_every_topology_is_accepted(blocks, tmp_path):
    for block in blocks:
        (tmp_path / "topology.toml").write_text(block.code)
        assert load_topology(tmp_path / "topology.toml").subscriptions, block.place


@pytest.mark.parametrize("blocks", by_page("json"))
def test_every_json_block_is_json(blocks):
    for block in blocks:
        json.loads(block.code)


@pytest.mark.parametrize("blocks", by_page("yaml"))
def test_every_yaml_block_is_yaml(blocks):
    for block in blocks:
        assert yaml.safe_load(block.code), block.place


@pytest.mark.parametrize("blocks", by_page("hcl"))
def test_every_terraform_block_is_written_as_terraform_writes_it(blocks, terraform, tmp_path):
    for number, block in enumerate(blocks):
        (tmp_path / f"block{number}.tf").write_text(block.code)
    checked = [terraform, "fmt", "-check", "-diff"]
    ran = subprocess.run(checked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("blocks", by_page("sh", "yaml"))
def test_every_command_that_is_not_run_exists_with_its_options(blocks):
    for block in blocks:
        assert {call: wrong for call in calls_in_code(block.code) if (wrong := faults(call))} == {}, block.place


@pytest.mark.parametrize("blocks", by_page("sh"))
def test_every_script_is_one_that_a_shell_can_read(blocks):
    for block in blocks:
        read = subprocess.run(
            [shutil.which("bash"), "-n"], input=block.code, capture_output=True, text=True, check=False
        )
        assert read.returncode == 0, f"{block.place}: {read.stderr}"
