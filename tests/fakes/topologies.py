"""Topologies for property tests: valid ones, these with things put wrong, and their text with the lines of its keys."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

Document = dict[str, Any]
Path = tuple[str | int, ...]

NAMES = st.from_regex(r"[a-z0-9]{1,4}([._-][a-z0-9]{1,4}){0,2}", fullmatch=True)
STATUSES = ["active", "disabled"]


# --- Valid ones --------------------------------------------------------------------------------------------------


@st.composite
def topologies(draw: st.DrawFn) -> Document:
    """A document that every rule accepts."""
    topics = draw(st.dictionaries(NAMES, st.sampled_from(["aws", "database"]).flatmap(_topics), min_size=1, max_size=3))
    subscriptions = {}
    for name in draw(st.lists(NAMES, max_size=4, unique=True)):
        topic = draw(st.sampled_from(sorted(topics)))
        subscriptions[name] = draw(_subscriptions(topic, topics[topic]))
    for name, topic in topics.items():
        if any(s["topic"] == name and s.get("partition_mode") == "exclusive" for s in subscriptions.values()):
            topic.pop("fair", None)
    return {
        "name": draw(st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True)),
        "topics": topics,
        "subscriptions": subscriptions,
    }


def _some(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    return st.fixed_dictionaries({}, optional=keys)


def _topics(transport: str) -> st.SearchStrategy[Document]:
    written = {} if transport == "aws" else {"transport": st.just(transport)}
    keys = {
        "max_payload_bytes": st.integers(512, 261_120),
        "deduplication_ttl_seconds": st.integers(60, 2_592_000),
        "external_publish": st.booleans(),
        "status": st.sampled_from(STATUSES),
    }
    if transport == "database":
        keys |= {"retention_days": st.integers(1, 3_650), "deduplication": st.just(True)}
    else:
        keys |= {"retention_days": st.integers(1, 14), "deduplication": st.booleans(), "fair": st.booleans()}
    return st.fixed_dictionaries(written, optional=keys)


@st.composite
def _subscriptions(draw: st.DrawFn, topic_name: str, topic: Document) -> Document:
    on_aws = "transport" not in topic
    host = draw(st.sampled_from(["lambda", "worker", "external"] if on_aws else ["worker"]))
    modes = ["none", "exclusive"] if on_aws else ["none", "exclusive", "ordered"]
    mode = draw(st.sampled_from(modes))
    keys: Document = {"topic": topic_name, "partition_mode": mode}
    if host == "external":
        keys |= {"host": host, "status": draw(st.sampled_from(STATUSES))}
    else:
        keys |= {"handler": draw(st.sampled_from(["app:run", "shop.orders:Orders.ship"]))}
        keys |= draw(_some(host=st.just(host), status=st.sampled_from([*STATUSES, "paused"])))
    if host == "worker" and on_aws:
        keys["host"] = host
    timeout = draw(st.integers(2, 900))
    if host == "lambda":
        keys["lambda"] = {"timeout_seconds": timeout} | draw(_functions(is_fifo=mode == "exclusive"))
    longest = timeout if host == "lambda" else 43_200 if on_aws else 2_592_000
    return keys | draw(
        _some(
            filter=st.dictionaries(
                NAMES, st.lists(st.text("abc", min_size=1), min_size=1, max_size=2), min_size=1, max_size=3
            ),
            max_attempts=st.integers(1, 995),
            backoff=_some(base_seconds=st.floats(0, 43_200), max_seconds=st.integers(0, 43_200)),
            lease_seconds=st.integers(5, 43_200),
            heartbeat=st.sampled_from(["auto", "manual"]),
            max_processing_seconds=st.floats(0, longest, exclude_min=True),
            accept_foreign=st.booleans(),
            dead_letter_retention_days=st.integers(1, 14 if on_aws else 3_650),
        )
    )


@st.composite
def _functions(draw: st.DrawFn, *, is_fifo: bool) -> Document:
    keys = draw(
        _some(
            memory_mb=st.integers(128, 10_240),
            architecture=st.sampled_from(["arm64", "x86_64"]),
            runtime=st.sampled_from(["python3.11", "python3.14"]),
            maximum_concurrency=st.integers(2, 1_000),
            concurrency=st.integers(1, 1_000),
            batch_size=st.integers(1, 10 if is_fifo else 10_000),
        )
    )
    if not is_fifo:
        keys["batch_window_seconds"] = draw(st.integers(1 if keys.get("batch_size", 10) > 10 else 0, 300))
    return keys


# --- With things put wrong ---------------------------------------------------------------------------------------

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 50),
    st.sampled_from([2**63, -(2**70), 10**400, 1e308, -0.0, float("nan"), float("inf")]),
    st.floats(),
    st.sampled_from(["aws", "databse", "lambda", "ordered", "a:b", "\ud800", "\x00", "", "x" * 300]),
    st.text(max_size=5),
    st.text(st.characters(categories=["Cs"]), max_size=2),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        "topics",
        "topic",
        "handler",
        "lambda",
        "backoff",
        "filter",
        "timeout_seconds",
        "$or",
        "name",
        "base-seconds",
        "\udfff",
    ]
) | st.text(max_size=6)


def _inside(value: Any, path: Path = ()) -> list[Path]:
    found = [path]
    if isinstance(value, dict):
        found += [inner for key, item in value.items() for inner in _inside(item, (*path, key))]
    elif isinstance(value, list):
        found += [inner for index, item in enumerate(value) for inner in _inside(item, (*path, index))]
    return found


def _at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


@st.composite
def spoilt(draw: st.DrawFn) -> Document:
    """A valid document in which up to three things were set, added, renamed or removed."""
    document = json.loads(json.dumps(draw(topologies())))
    for _ in range(draw(st.integers(1, 3))):
        if not document:
            break
        *before, last = draw(st.sampled_from(_inside(document)[1:]))
        table = _at(document, tuple(before))
        match draw(st.sampled_from(["set", "add", "rename", "remove", "deepen"])):
            case "set":
                table[last] = draw(VALUES)
            case "add" if isinstance(table, dict):
                table[draw(KEYS)] = draw(VALUES)
            case "rename" if isinstance(table, dict):
                table[draw(KEYS)] = table.pop(last, None)
            case "remove":
                table.pop(last)
            case _:
                table[last] = _deep(draw(st.integers(1, 40)))
    return document


def _deep(levels: int) -> Any:
    value: Any = "x"
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


# --- As text, with the line of every key and list item ------------------------------------------------------------


class Writing:
    """Text that grows, and the line of each place in it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[Path, int] = {}

    def mark(self, path: Path) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def one_of(self, *texts: str) -> None:
        self.text += self.draw(st.sampled_from(texts))


@st.composite
def toml_texts(draw: st.DrawFn, documents: st.SearchStrategy[Document]) -> tuple[Document, str, dict[Path, int]]:
    """A document, TOML that says it in one of the many ways, and where each of its keys and items stands."""
    document, to = draw(documents), Writing(draw)
    _statements(to, document, ())
    if draw(st.booleans()):
        to.text = to.text.replace("\n", "\r\n")
    return document, draw(st.sampled_from(["", "\ufeff"])) + to.text, to.lines


def _statements(to: Writing, table: Document, path: Path) -> None:
    """The keys of a table that are no tables, then the tables, each with a heading or as a value."""
    tables = {key: value for key, value in table.items() if isinstance(value, dict) and to.draw(st.booleans())}
    for key, value in table.items():
        if key not in tables:
            to.one_of("", "\n", "# [a] = 'b\n", "  ")
            _entry(to, key, value, path)
            to.one_of("\n", '  # """ x\n')
    for key, value in tables.items():
        to.one_of("", "\n")
        to.text += "["
        to.mark((*path, key))
        to.text += " . ".join(_toml_key(to, part) for part in (*path, key)) + "]"
        to.one_of("\n", " #\n\n")
        _statements(to, value, (*path, key))


def _entry(to: Writing, key: str, value: Any, path: Path) -> None:
    to.mark((*path, key))
    to.text += _toml_key(to, key)
    while isinstance(value, dict) and len(value) == 1 and to.draw(st.booleans()):
        ((inner, item),) = value.items()
        path, key, value = (*path, key), inner, item
        to.mark((*path, key))
        to.one_of(".", " . ")
        to.text += _toml_key(to, key)
    to.one_of(" = ", "=")
    _toml_value(to, value, (*path, key))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(to: Writing, key: Any) -> str:
    quoted = _quoted(key)
    bare = [key] if key and all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in key) else []
    return str(to.draw(st.sampled_from([quoted, *bare])))


def _toml_value(to: Writing, value: Any, path: Path) -> None:
    if isinstance(value, dict):
        to.text += "{ "
        for index, (key, item) in enumerate(value.items()):
            to.text += ", " if index else ""
            _entry(to, key, item, path)
        to.text += " }"
    elif isinstance(value, list):
        to.text += "["
        for index, item in enumerate(value):
            to.one_of("", "\n", " # ]\n ")
            to.mark((*path, index))
            _toml_value(to, item, (*path, index))
            to.text += "," if index < len(value) - 1 else to.draw(st.sampled_from(["", ",", "\n,"]))
        to.one_of("", "\n")
        to.text += "]"
    else:
        to.text += _toml_scalar(to, value)


def _toml_scalar(to: Writing, value: Any) -> str:
    if isinstance(value, str):
        quoted = _quoted(value)
        plain = [f"'{value}'", f"'''\n{value}'''"] if value.isprintable() and "'" not in value else []
        many = [f'"""{quoted[1:-1]}"""', f'"""\\\n  {quoted[1:-1]}"""'] if value and value[0] != " " else []
        return str(to.draw(st.sampled_from([quoted, *plain, *many])))
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


@st.composite
def json_texts(draw: st.DrawFn, documents: st.SearchStrategy[Document]) -> tuple[Document, str, dict[Path, int]]:
    """A document, JSON that says it with blanks here and there, and where each of its keys and items stands."""
    document, to = draw(documents), Writing(draw)
    _json_value(to, document, ())
    return document, to.text, to.lines


def _json_value(to: Writing, value: Any, path: Path) -> None:
    opened, closed = ("{", "}") if isinstance(value, dict) else ("[", "]")
    if not isinstance(value, dict | list):
        to.text += json.dumps(value, ensure_ascii=to.draw(st.booleans()))
        return
    to.text += opened
    items: Mapping[Any, Any] = value if isinstance(value, dict) else dict(enumerate(value))
    for number, (key, item) in enumerate(items.items()):
        to.text += "," if number else ""
        to.one_of("", "\n", " ", "\t\n\n")
        to.mark((*path, key))
        if isinstance(value, dict):
            to.text += json.dumps(key)
            to.one_of(":", " : ", "\n:\n")
        _json_value(to, item, (*path, key))
    to.one_of("", "\n")
    to.text += closed


# --- Of any keys and values that TOML and JSON both have ----------------------------------------------------------

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\"'#[]{}=.,:\n\\ "), max_size=6)
ANYTHING = st.dictionaries(
    _TEXTS,
    st.recursive(
        st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=3,
)
