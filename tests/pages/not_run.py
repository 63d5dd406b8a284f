"""The blocks of pages that no test runs or reads, by page and beginning, each with its reason. All are ``text``."""

from tests.pages.blocks import PROJECT, Block

NOT_RUN = {
    ("README.md", "git clone <this"): "make setup takes half a minute, and make test is what runs this",
    ("docs/how-to/bundle-for-lambda.md", "[tool.uv.sources]"): "a part of a pyproject.toml",
    ("docs/how-to/check-bindings.md", "error  subscription"): "what a check prints: test_bindings_drift.py runs it",
    ("docs/how-to/use-a-database.md", "postgresql://app@pooler"): "a URL: test_database_wakeups.py connects so",
    ("docs/reference/testing.md", ""): "signatures: docs/reference/generate.py writes them from the code",
    ("examples/compiled-dependency/README.md", "error: the bundle is"): "an error: test_bundle_dependencies.py has it",
}


def excuse_of(block: Block) -> tuple[str, str] | None:
    """The entry that says why ``block`` is not run, or ``None`` when it is."""
    page = str(block.page.relative_to(PROJECT))
    found = (one for one in NOT_RUN if one[0] == page and block.kind == "text" and block.code.startswith(one[1]))
    return next(found, None)
