"""Templates of CloudFormation in YAML."""

from __future__ import annotations

from towpath.errors import InvalidPlan, Mistake


def read_yaml(text: str, subject: str) -> object:
    """The document in ``text``, with JSON's types only: a date stays the text that it is.

    Raises ``InvalidPlan`` about ``subject`` for what is no YAML, for the short form of functions (``!Ref``), which the
    CDK does not write, and where PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as cause:
        raise _wrong(subject, "is YAML, which needs PyYAML: pip install 'towpath[cdk]'") from cause

    class Loader(yaml.SafeLoader):
        """Without YAML 1.1's dates: a policy's Version is one to it, and a text to CloudFormation."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own name, which it only reads
            first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        document: object = yaml.load(text, Loader)  # noqa: S506 - a SafeLoader, which makes plain values only
    except (yaml.YAMLError, ValueError, RecursionError) as cause:
        told = " ".join(str(cause).split())
        raise _wrong(subject, f"is neither JSON nor YAML without tags: {told}") from cause
    return document


def _wrong(subject: str, problem: str) -> InvalidPlan:
    return InvalidPlan(subject, [Mistake(path="", problem=problem)])
