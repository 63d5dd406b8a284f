"""The blocks of pages that no test runs or reads, by page and beginning, each with its reason."""

NOT_RUN = {
    ("README.md", "git clone <this"): "make setup takes half a minute and make test is what runs this",
    ("docs/how-to/bundle-for-lambda.md", "uv pip compile"): "asks the package index for each dependency's hashes",
    ("docs/how-to/bundle-for-lambda.md", "[tool.uv.sources]"): "a part of a pyproject.toml",
    ("docs/how-to/check-bindings.md", "error  subscription"): "what a check prints; tests/integration compare that",
}
