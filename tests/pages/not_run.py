"""The blocks of pages that no test runs or reads, by page, kind and beginning, each with its reason."""

from tests.pages.blocks import PROJECT, Block

NOT_RUN = {
    ("README.md", "text", "git clone <this"): "make setup takes half a minute, and make test is what runs this",
    ("docs/how-to/bundle-for-lambda.md", "text", "[tool.uv.sources]"): "a part of a pyproject.toml",
    (
        "docs/how-to/check-bindings.md",
        "text",
        "error  subscription",
    ): "what test_bindings_drift.py has printed",
    ("docs/how-to/use-a-database.md", "text", "postgresql://app@pooler"): "a URL: test_database_wakeups.py connects so",
    ("docs/reference/testing.md", "text", ""): "signatures: docs/reference/generate.py writes them from the code",
    (
        "docs/how-to/scale-workers.md",
        "text",
        "SELECT claimable",
    ): "needs a role: test_scaler_role.py runs it",
    ("docs/how-to/scale-workers.md", "text", "max by"): "a rule for Prometheus, which is not here",
    (
        "examples/compiled-dependency/README.md",
        "text",
        "error: the bundle is",
    ): "of test_bundle_dependencies.py",
}


def excuse_of(block: Block) -> tuple[str, str, str] | None:
    """The entry that says why ``block`` is not run, or ``None`` when it is."""
    here = (str(block.page.relative_to(PROJECT)), block.kind)
    return next((one for one in NOT_RUN if one[:2] == here and block.code.startswith(one[2])), None)
