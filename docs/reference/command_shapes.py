"""What each command prints with ``--json``: for the page of the command line, and for the tests that compare.

In place of a value stands its kind. A dict is an object with exactly these keys, "…?" one that may be missing; a list
an array of any length of what it holds; {"*": kind} an object with any keys.
"""

from __future__ import annotations

from typing import Any, Final

TEXT: Final = "text"
COUNT: Final = "whole number"
NUMBER: Final = "number"
FLAG: Final = "true or false"
TIME: Final = "time"
ANY: Final = "any"


def or_null(kind: str) -> str:
    """The kind, or ``null``."""
    return f"{kind} or null"


KINDS: Final = (TEXT, COUNT, NUMBER, FLAG, TIME, ANY)

DELIVERY: Final[dict[str, Any]] = {
    "delivery_id": TEXT,
    "subscription": TEXT,
    "topic": TEXT,
    "message_id": TEXT,
    "partition_key": or_null(TEXT),
    "state": TEXT,
    "attempt": COUNT,
    "is_replay": FLAG,
    "cancel_requested": FLAG,
    "published_at": TIME,
    "due_at": or_null(TIME),
    "lease_expires_at": or_null(TIME),
    "dead_since": or_null(TIME),
    "finished_at": or_null(TIME),
    "expires_at": or_null(TIME),
    "waits_for": or_null(TEXT),
    "reason": TEXT,
    "error": TEXT,
    "percent": or_null(NUMBER),
    "note": TEXT,
    "body": TEXT,
}
AUDIT_ENTRY: Final = {
    "id": TEXT,
    "at": TIME,
    "actor": TEXT,
    "action": TEXT,
    "subject": TEXT,
    "reason": TEXT,
    "details": {"*": ANY},
}
SHOWN: Final = [
    {name: kind for name, kind in DELIVERY.items() if name != "body"}
    | {
        "message": "object or null",
        "unreadable": or_null(TEXT),
        "body_bytes": COUNT,
        "audit": "array or null",
        "payload?": ANY,
    }
]
DISCARDED: Final = {"discarded": COUNT, "requested": COUNT, "dry_run": FLAG}
REPLAYED: Final = {"replayed": COUNT, "requested?": COUNT, "dry_run?": FLAG, "message_id?": TEXT}
SWITCHED: Final = {"subscription": TEXT, "changed": FLAG}
JUDGED: Final = {"address": TEXT, "kind": TEXT, "impact": TEXT, "sentence": TEXT}
GATE: Final = {"blocked": [JUDGED], "allowed": [JUDGED], "notes": [TEXT], "changes": COUNT}
MISTAKE: Final = {"path": TEXT, "problem": TEXT, "line": or_null(COUNT)}
RUN: Final = {
    "messages": COUNT,
    "completed": COUNT,
    "retried": COUNT,
    "dead_letters": [{"document": TEXT, "reason": TEXT, "attempts": COUNT}],
    "words": COUNT,
    "headings": COUNT,
    "links": COUNT,
    "seconds": NUMBER,
}

SHAPES: Final[dict[str, Any]] = {
    "demo": {"same": FLAG, "sqlite": RUN, "lambda": RUN, "folder": TEXT},
    "topology check": {
        "file": TEXT,
        "mistakes": [MISTAKE],
        "warnings": [MISTAKE],
        "topics?": [{"topic": TEXT, "transport": TEXT, "type": or_null(TEXT), "status": TEXT}],
        "subscriptions?": [
            {
                "subscription": TEXT,
                "topic": TEXT,
                "host": TEXT,
                "partition_mode": TEXT,
                "handler": or_null(TEXT),
                "status": TEXT,
            }
        ],
    },
    "manifest diff": {
        "changes": [{"impact": TEXT, "kind": TEXT, "name": TEXT, "sentence": TEXT, "paths": [TEXT]}],
        "counts": {"destructive": COUNT, "lossy": COUNT, "safe": COUNT},
    },
    "apply": {"added": [TEXT], "changed": [TEXT], "removed": [TEXT]},
    "publish": [
        {
            "id": or_null(TEXT),
            "status": TEXT,
            "error": "object or null",
            "subscriptions": or_null(COUNT),
        }
    ],
    "work": {"received": COUNT, "*": COUNT},
    "stats": [
        {
            "subscription": TEXT,
            "topic": TEXT,
            "pending": COUNT,
            "leased": COUNT,
            "dead": COUNT,
            "completed": or_null(COUNT),
            "discarded": or_null(COUNT),
            "oldest_pending_seconds": or_null(NUMBER),
            "oldest_dead_seconds": or_null(NUMBER),
            "completed_per_minute": or_null(NUMBER),
            "dead_per_minute": or_null(NUMBER),
            "status": TEXT,
        }
    ],
    "backlog": [
        {
            "subscription": TEXT,
            "claimable": COUNT,
            "in_flight": COUNT,
            "claimable_capped": FLAG,
            "in_flight_capped": FLAG,
            "backlog": COUNT,
        }
    ],
    "partitions": {
        "partitions": [
            {
                "subscription": TEXT,
                "partition_key": or_null(TEXT),
                "state": TEXT,
                "reason": TEXT,
                "head": TEXT,
                "since": or_null(TIME),
                "waiting": COUNT,
            }
        ],
        "next_cursor": or_null(TEXT),
    },
    "deliveries list": {"deliveries": [DELIVERY], "next_cursor": or_null(TEXT)},
    "deliveries show": SHOWN,
    "deliveries cancel": DISCARDED,
    "deliveries discard": DISCARDED,
    "deliveries replay": REPLAYED,
    "dead-letters list": {
        "dead_letters": [
            {
                "delivery_id": TEXT,
                "subscription": TEXT,
                "message_id": TEXT,
                "reason": TEXT,
                "error": TEXT,
                "attempts": COUNT,
                "dead_since": TIME,
                "body": TEXT,
            }
        ],
        "next_cursor": or_null(TEXT),
    },
    "dead-letters show": SHOWN,
    "dead-letters discard": DISCARDED,
    "dead-letters replay": REPLAYED,
    "dead-letters purge": {"discarded": COUNT},
    "audit": {"entries": [AUDIT_ENTRY], "next_cursor": or_null(TEXT)},
    "pause": SWITCHED,
    "resume": SWITCHED,
    "terraform gate": GATE,
    "cdk gate": GATE,
    "bindings check": {
        "findings": [
            {
                "severity": TEXT,
                "subject": TEXT,
                "code": TEXT,
                "what_is": TEXT,
                "what_should_be": TEXT,
                "what_to_do": TEXT,
            }
        ],
        "counts": {"error": COUNT, "warning": COUNT},
        "looked_at": {"topics": COUNT, "subscriptions": COUNT},
    },
    "bundle build": {
        "path": TEXT,
        "name": TEXT,
        "target": {"*": ANY},
        "requirements": TEXT,
        "bytecode": TEXT,
        "sha256": TEXT,
        "s3_key": TEXT,
        "tree_hash": TEXT,
        "zip_bytes": COUNT,
        "unzipped_bytes": COUNT,
        "files": COUNT,
        "weights": [{"name": TEXT, "size": COUNT, "zipped": COUNT, "distributions": [TEXT]}],
        "left_out": [TEXT],
        "uncompiled": [TEXT],
        "warnings": [TEXT],
        "s3_bucket?": TEXT,
        "upload?": TEXT,
    },
    "bundle verify": {"stamp": {"*": ANY}, "host": {"*": ANY}, "run": "object or null", "succeeded": or_null(FLAG)},
    "db upgrade": {"before": or_null(TEXT), "after": TEXT},
    "db check": {
        "installed": or_null(TEXT),
        "needed": TEXT,
        "current": FLAG,
        "findings": [{"code": TEXT, "problem": TEXT, "repair": TEXT}],
    },
    "db purge": {
        "dead_letters": COUNT,
        "history": COUNT,
        "unwanted_messages": COUNT,
        "deduplication_keys": COUNT,
        "dry_run": FLAG,
    },
}

LINES: Final[dict[str, Any]] = {"dead-letters export": DELIVERY}
"""What each line is of a command whose output is JSON Lines by itself."""

NOTES: Final = {
    "deliveries show": "`message` has correlation_id, causation_id, traceparent, attributes, has_payload, payload_ref, "
    "deliver_after and expires_at; `audit` the entries of `towpath audit`, null where there is no trail to be read.",
    "publish": "An `error` has code, message and retryable. A result for each message, in their order; those that a "
    "stop leaves unsent have none.",
    "work": "Beside `received` a count for each state that deliveries ended in.",
}
NOTES["dead-letters show"] = NOTES["deliveries show"]
