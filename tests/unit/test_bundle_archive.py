"""The zip file: its bytes, its limits."""

import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bundling.archive import sha256, unpack, write_zip
from bundling.errors import NotABundle, TooLarge
from bundling.tree import Entry, entries
from towpath.limits import LAMBDA_DIRECT_UPLOAD_BYTES, LAMBDA_UNZIPPED_BYTES


def make(folder: Path) -> tuple[Entry, ...]:
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n" * 100)
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o700)
    return entries(folder)


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    first = make(tmp_path / "one")
    second = make(tmp_path / "two")
    for entry in second:
        os.utime(entry.path, (1_000_000_000, 1_000_000_000))
    write_zip(first, tmp_path / "dist" / "1.zip")
    write_zip(second, tmp_path / "2.zip")
    assert sha256(tmp_path / "dist" / "1.zip") == sha256(tmp_path / "2.zip")


def test_entries_have_a_fixed_time_unix_modes_and_are_compressed(tmp_path: Path) -> None:
    write_zip(make(tmp_path / "tree"), tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        headers = archive.infolist()
    assert [(h.filename, oct(h.external_attr >> 16)) for h in headers] == [("a.py", "0o100644"), ("run", "0o100755")]
    assert {h.date_time for h in headers} == {(1980, 1, 1, 0, 0, 0)}
    assert {h.create_system for h in headers} == {3}
    assert headers[0].compress_size < headers[0].file_size


def test_unpacking_gives_back_contents_and_permissions(tmp_path: Path) -> None:
    write_zip(make(tmp_path / "tree"), tmp_path / "x.zip")
    unpack(tmp_path / "x.zip", tmp_path / "out")
    assert (tmp_path / "out" / "a.py").read_text() == "x = 1\n" * 100
    assert os.access(tmp_path / "out" / "run", os.X_OK)


def test_a_tree_over_the_limit_is_refused_and_the_former_zip_stays(tmp_path: Path) -> None:
    files = make(tmp_path / "tree")
    path = tmp_path / "x.zip"
    path.write_text("former")
    heavy = replace(files[0], size=LAMBDA_UNZIPPED_BYTES)
    with pytest.raises(TooLarge, match=r"unzipped bundle is 262,144,010 bytes, 10 over .* heaviest parts are a\.py"):
        write_zip((heavy, files[1]), path)
    assert path.read_text() == "former"


def test_a_zip_over_the_limit_of_a_direct_upload_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "noise").write_bytes(os.urandom(LAMBDA_DIRECT_UPLOAD_BYTES))
    with pytest.raises(TooLarge, match=r"the zip is .* over Lambda's limit of 52,428,800"):
        write_zip(entries(tree), tmp_path / "dist" / "x.zip")
    assert list((tmp_path / "dist").iterdir()) == []


class FileReadMeanwhile:
    """A file during whose reading something else happens, once."""

    def __init__(self, path: Path, meanwhile: Callable[[], None]) -> None:
        self._path = path
        self._meanwhile = [meanwhile]

    def read_bytes(self) -> bytes:
        while self._meanwhile:
            self._meanwhile.pop()()
        return self._path.read_bytes()


def test_two_zips_that_are_written_to_one_path_at_a_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    first, *others = make(tmp_path / "tree")
    path = tmp_path / "dist" / "x.zip"
    read = FileReadMeanwhile(first.path, lambda: write_zip(others, path))
    write_zip((replace(first, path=read), *others), path)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["a.py", "run"]
    assert list(path.parent.iterdir()) == [path]


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_text("text")
    with pytest.raises(NotABundle, match="cannot be unpacked"):
        unpack(tmp_path / "x.zip", tmp_path / "out")
