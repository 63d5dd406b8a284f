"""The generated pages of the reference are what the code says."""

import runpy
from pathlib import Path

import pytest

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGES = runpy.run_path(str(REFERENCE / "generate.py"))["PAGES"]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name, monkeypatch):
    monkeypatch.delenv("TOWPATH_TRANSPORT", raising=False)
    assert (REFERENCE / name).read_text() == PAGES[name](), "run: python docs/reference/generate.py"
