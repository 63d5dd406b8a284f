"""The blocks of pages that no test runs or reads, by page and beginning, each with its reason."""

NOT_RUN = {
    ("README.md", "git clone <this"): "make setup takes half a minute, and make test is what runs this",
    ("docs/how-to/bundle-for-lambda.md", "[tool.uv.sources]"): "a part of a pyproject.toml",
    ("docs/how-to/check-bindings.md", "error  subscription"): "what a check prints: test_bindings_drift.py runs it",
    ("docs/how-to/use-a-database.md", "postgresql://app@pooler"): "a URL: test_database_wakeups.py connects so",
    ("examples/compiled-dependency/README.md", "error: the bundle is"): "an error: test_bundle_dependencies.py has it",
}
