"""What is wrong with what a deployment gives besides its manifest."""

from towpath.errors import MistakesFound


class InvalidInputs(MistakesFound):
    """The deployment's own inputs (artifacts, key, alarm actions and so on) do not go with its manifest.

    What to do: correct them where they are given: in ``cdk.json``, after ``-c``, or in the program that uses
    ``WorkQueue``.
    """
