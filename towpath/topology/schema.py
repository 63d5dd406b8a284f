"""The JSON Schema of topology files, for editors: the models, and what else of the rules a schema can say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from towpath import limits
from towpath.envelope import TOPIC_NAME
from towpath.handler import HANDLER_PATH
from towpath.topology.models import PREFIX_NAME, Topology

Schema = dict[str, Any]

# \w in the dialect of JSON Schema (ECMA-262) has ASCII letters only; Python's names may have others.
_ANY_WORD: Final = r"[^\x00-\x2f:-@\[-^`{-\x7f]"

_NAMES: Final[Mapping[str, Any]] = {
    "propertyNames": {"pattern": f"^{TOPIC_NAME.pattern}$", "maxLength": limits.TOPIC_NAME_LENGTH}
}
_FILTER: Final[Mapping[str, Any]] = {
    "minProperties": 1,
    "maxProperties": limits.SNS_FILTER_KEYS,
    "additionalProperties": {"type": "array", "minItems": 1},
}


def topology_schema() -> Schema:
    """The JSON Schema of a topology. Every topology that ``parse_topology`` accepts is valid under it; what tables mean
    together it cannot say.
    """
    schema = Topology.model_json_schema(schema_generator=_Untitled)
    tables = schema["$defs"]
    schema["properties"]["name"]["pattern"] = f"^{PREFIX_NAME}$"
    schema["properties"]["topics"] |= _NAMES
    schema["properties"]["subscriptions"] |= _NAMES
    tables["Topic"]["allOf"] = [_topic_by_transport(), _fifo_is_not_fair()]
    tables["Subscription"]["allOf"] = [_subscription_by_host()]
    keys = tables["Subscription"]["properties"]
    keys["handler"]["anyOf"][0]["pattern"] = f"^{HANDLER_PATH.pattern}$".replace(r"\w", _ANY_WORD)
    keys["filter"]["anyOf"][0] |= _FILTER
    return {"$schema": GenerateJsonSchema.schema_dialect, **_with_plain_marks(schema)}


class _Untitled(GenerateJsonSchema):
    """Without a title for each key, which would only say the key again."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic asks for it
        return False


def _topic_by_transport() -> Schema:
    return {
        "if": _where("transport", "database"),
        "then": {
            "properties": {
                "fifo": {"const": None},
                "fair": {"const": False},
                "deduplication": {"not": {"const": False}},
            }
        },
        "else": {"properties": {"retention_days": {"maximum": limits.SQS_MAX_RETENTION_DAYS}}},
    }


def _fifo_is_not_fair() -> Schema:
    return {"if": _where("fifo", True), "then": {"properties": {"fair": {"const": False}}}}


def _subscription_by_host() -> Schema:
    return {
        "if": _where("host", "external"),
        "then": {"properties": {"handler": {"const": None}, "status": {"not": {"const": "paused"}}}},
        "else": {"required": ["handler"], "properties": {"handler": {"type": "string"}}},
    }


def _where(key: str, value: object) -> Schema:
    return {"properties": {key: {"const": value}}, "required": [key]}


def _with_plain_marks(value: Any) -> Any:
    """Descriptions in Markdown, as editors show them: code between single marks, and no line breaks of the source."""
    if isinstance(value, dict):
        return {
            key: " ".join(item.replace("``", "`").split()) if key == "description" else _with_plain_marks(item)
            for key, item in value.items()
        }
    return [_with_plain_marks(item) for item in value] if isinstance(value, list) else value
