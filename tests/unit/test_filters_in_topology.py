"""A filter on its way: from the topology's file into the manifest, and out of it again."""

import json
from datetime import date

import pytest

from towpath.errors import InvalidTopology
from towpath.filters import FilterPolicy
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import load_topology, parse_topology

HEAD = """\
name = "shop"
[topics.orders]
[subscriptions.ship]
topic = "orders"
handler = "app:ship"
"""


def told(folder, text):
    """The mistakes of this topology file, each as its line, the rest of its path, and its problem."""
    file = folder / "topology.toml"
    file.write_text(HEAD + text)
    with pytest.raises(InvalidTopology) as caught:
        load_topology(file)
    return [(m.line, m.path.removeprefix("subscriptions.ship.filter"), m.problem) for m in caught.value.mistakes]


def test_text_in_place_of_a_list_is_told_at_its_key(tmp_path):
    told_here = told(tmp_path, 'filter = { kind = "pdf" }\n')
    assert told_here == [
        (6, ".kind", "must be a non-empty list of conditions; put brackets around it, also when it is only one")
    ]


def test_each_mistake_has_the_line_of_its_key(tmp_path):
    text = """\
[subscriptions.ship.filter]
kind = [
  "pdf",
  { prefix = "" },
]
size = [{ numeric = ["<", "10"] }]
"my.key" = [{ sufix = "x" }]
"""
    assert told(tmp_path, text) == [
        (9, ".kind[1].prefix", "must be non-empty text"),
        (11, ".size[0].numeric[1]", "must be a number"),
        (12, '."my.key"[0]', "has the operator 'sufix', which SNS does not know; did you mean 'suffix'?"),
    ]


def test_a_mistake_within_an_or_has_the_line_of_its_alternative(tmp_path):
    text = """\
[[subscriptions.ship.filter."$or"]]
kind = ["pdf"]
[[subscriptions.ship.filter."$or"]]
size = ["big"]
kind = [{ exists = "yes" }]
[[subscriptions.ship.filter."$or"]]
"$or" = [{ a = [] }, { b = ["x"] }]
"""
    assert told(tmp_path, text) == [
        (10, '."$or"[1].kind[0].exists', "must be true or false"),
        (12, '."$or"[2]."$or"[0].a', "must be a non-empty list of conditions"),
    ]


def test_what_is_wrong_with_the_whole_filter_has_its_line(tmp_path):
    (mistake,) = told(tmp_path, 'filter = { a = ["x"], "$or" = [{ b = ["x"] }, { c = [' + '"x",' * 150 + "] }] }\n")
    assert mistake == (6, "", "makes 151 combinations of values, SNS allows 150")


def test_a_date_of_toml_is_no_condition():
    written = {"topic": "orders", "handler": "app:ship", "filter": {"day": [date(2026, 1, 31)]}}
    with pytest.raises(InvalidTopology, match=r"filter\.day\[0\]: must be text, a number, true, false, null, or"):
        parse_topology({"name": "shop", "topics": {"orders": {}}, "subscriptions": {"ship": written}})


POLICY = {
    "source": ["web", {"prefix": "app-"}, {"anything-but": ["x", "y"]}],
    "$or": [
        {"kind": ["pdf", None, True], "pages": [{"numeric": [">", 0, "<=", 10.0]}, 7.0]},
        {"ip": [{"cidr": "10.0.0.0/8"}, {"exists": False}], "name": [{"wildcard": "*.pdf"}]},
    ],
}


@pytest.mark.parametrize("transport", ["aws", "database"])
def test_a_filter_is_the_same_after_the_manifest(transport):
    topics = {"orders": {"transport": transport}}
    subscription = {"topic": "orders", "handler": "app:ship", "filter": POLICY}
    topology = parse_topology({"name": "shop", "topics": topics, "subscriptions": {"ship": subscription}})
    manifest = resolve(topology, "dev")
    read = Manifest.from_json(manifest.to_json())
    assert read == manifest
    assert FilterPolicy.parse(read.subscriptions["ship"].filter_policy) == FilterPolicy.parse(POLICY)
    if transport == "aws":
        rendered = read.subscriptions["ship"].aws.sns_subscription.filter_policy
        assert FilterPolicy.parse(json.loads(rendered)) == FilterPolicy.parse(POLICY)
