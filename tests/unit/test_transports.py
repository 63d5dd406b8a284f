"""Finding the transport of a URL through the entry points of installed packages."""

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from towpath.errors import InvalidManifest, UnknownTransport
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import parse_topology
from towpath.transports import Options, connect

NUMBERS = itertools.count()
MANIFEST = resolve(parse_topology({"name": "shop", "topics": {"orders.new": {}}}), "test")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Installs a package that serves ``scheme`` with a module of this source, and answers the module's name."""
    made = []

    def install(scheme: str, source: str = "def open_transport(url, options): return url, options") -> str:
        name = f"written_transport_{next(NUMBERS)}"
        made.append(name)
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[towpath.transports]\n{scheme} = {name}:open_transport\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        return name

    yield install
    for name in made:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("url", ["odd://host/name?a=b", "odd:name", "odd+own://host", "odd"])
def test_the_scheme_before_a_plus_chooses_the_package_and_it_gets_the_whole_url(installed, url):
    installed("odd")
    assert connect(url) == (url, Options(manifest=None, bindings=None))


def test_a_manifest_is_given_as_it_is_or_read_from_its_file(installed, tmp_path):
    installed("odd")
    file = tmp_path / "manifest.json"
    file.write_text(MANIFEST.to_json(), encoding="utf-8")
    for given in (MANIFEST, file, str(file)):
        assert connect("odd://x", given)[1].manifest == MANIFEST


def test_a_manifest_that_cannot_be_read_opens_nothing(installed, tmp_path):
    installed("odd", "def open_transport(url, options): raise AssertionError('opened')")
    with pytest.raises(InvalidManifest):
        connect("odd://x", tmp_path / "none.json")


def test_bindings_are_handed_on_as_a_path(installed):
    installed("odd")
    assert connect("odd://x", bindings="bindings.json")[1].bindings == Path("bindings.json")


def test_a_scheme_that_nobody_serves_is_told_with_those_that_are():
    with pytest.raises(UnknownTransport, match=r"^no transport serves ftp://; installed are: aws, postgresql, sqlite$"):
        connect("ftp://host")


@pytest.mark.parametrize("url", ["", "dev.db", "./dev.db", "C:\\dev.db", "://x"])
def test_what_is_no_url_is_told_what_one_looks_like(url):
    with pytest.raises(UnknownTransport, match="sqlite:///dev.db" if url != "://x" else "no transport serves"):
        connect(url)


def test_a_package_that_lacks_another_is_told_with_the_extra_to_install(installed):
    installed("odd", "import surely_not_installed")
    with pytest.raises(
        UnknownTransport, match=r"the transport odd:// needs 'surely_not_installed'; install towpath\[all\]"
    ):
        connect("odd://x")


def test_what_a_transport_raises_passes_through(installed):
    installed("odd", "def open_transport(url, options): raise ConnectionError('no route')")
    with pytest.raises(ConnectionError, match="no route"):
        connect("odd://x")


def test_a_manifest_is_a_value():
    assert Manifest.from_json(MANIFEST.to_json()) == MANIFEST
