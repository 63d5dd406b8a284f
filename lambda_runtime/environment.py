"""What a function is told of its subscription, in the variables of its environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from towpath.errors import InvalidEnvironment, InvalidManifest
from towpath.frozen import Record
from towpath.function_settings import FunctionSettings

SUBSCRIPTION = "TOWPATH_SUBSCRIPTION"
QUEUE_URL = "TOWPATH_QUEUE_URL"
DEAD_LETTER_QUEUE_URL = "TOWPATH_DEAD_LETTER_QUEUE_URL"
AWS_ENDPOINT = "TOWPATH_AWS_ENDPOINT"


class Environment(metaclass=Record):
    """The function's settings. ``endpoint`` takes the place of AWS's own, for emulators."""

    settings: FunctionSettings
    queue_url: str
    dead_letter_queue_url: str
    endpoint: str | None


def read_environment(variables: Mapping[str, str]) -> Environment:
    """Read what a deployment of the manifest sets. ``InvalidEnvironment`` has every mistake, in one line."""
    mistakes = [f"{name} is missing" for name in (QUEUE_URL, DEAD_LETTER_QUEUE_URL) if not variables.get(name)]
    settings: FunctionSettings | None = None
    if not variables.get(SUBSCRIPTION):
        mistakes.insert(0, f"{SUBSCRIPTION} is missing")
    else:
        try:
            settings = FunctionSettings.from_json(variables[SUBSCRIPTION])
        except InvalidManifest as error:
            mistakes.insert(0, f"{SUBSCRIPTION}: " + ", ".join(str(mistake) for mistake in error.mistakes))
        else:
            mistakes.extend(_out_of_range(settings))
    if settings is None or mistakes:
        raise InvalidEnvironment(
            f"the function cannot start, {'; '.join(mistakes)}; deploy it from its manifest, which sets these variables"
        )
    return Environment(
        settings=settings,
        queue_url=variables[QUEUE_URL],
        dead_letter_queue_url=variables[DEAD_LETTER_QUEUE_URL],
        endpoint=variables.get(AWS_ENDPOINT) or None,
    )


def _out_of_range(settings: FunctionSettings) -> Iterator[str]:
    for name, value in (("concurrency", settings.concurrency), ("timeout_seconds", settings.timeout_seconds)):
        if value < 1:
            yield f"{SUBSCRIPTION}: {name}: must be at least 1, not {value}"
