"""The mutation tool makes the small faults that it promises, one at a time."""

import ast
from pathlib import Path

import pytest

from tests.mutation.mutants import mutants

ROOT = Path(__file__).parents[2]


def changed(source: str) -> set[str]:
    """What stands in the place of the one line of ``source``."""
    return {mutant.source for mutant in mutants(source)}


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("LIMIT: Final = 500", {"LIMIT: Final = 501", "LIMIT: Final = 499"}),
        ("on = True", {"on = False"}),
        ("name = 'x'", {"name = ''"}),
        ("a < b", {"pass", "(a <= b)", "(a >= b)"}),
        ("a < b <= c", {"pass", "(a <= b <= c)", "(a >= b <= c)", "(a < b < c)", "(a < b > c)"}),
        ("ok = a and b", {"ok = (a or b)", "ok = a", "ok = b"}),
        ("ok = not a", {"ok = a"}),
        ("n = a + b", {"n = (a - b)"}),
        ("n = a // b", {"n = (a / b)", "n = (a * b)"}),
        ("n += a", {"n -= a"}),
        ("both = a | b", {"both = a", "both = b"}),
        ("n = a if b else c", {"n = a if (not b) else c"}),
        ("n = min(a, b)", {"n = max(a, b)"}),
        ("n = text.startswith(a)", {"n = text.endswith(a)"}),
        ("n = f(a, b=c, d=e)", {"n = f(a, d=e)", "n = f(a, b=c)"}),
        ("n = [a for a in b if c]", {"n = [a for a in b if True]"}),
        ("n = {a: b, c: d}", {"n = {c: d}", "n = {a: b}"}),
        ("raise Wrong", {"pass"}),
        ("tell(a)", {"pass"}),
        ("def f(): return a", {"def f(): return None"}),
        ("def f(): return None", set()),
        ("while a: break", {"while (not a): break", "while a: continue"}),
        ("match a:\n case B() | C(): pass", {"match a:\n case B(): pass", "match a:\n case C(): pass"}),
        ("match a:\n case b if c: pass", {"match a:\n case b if (not c): pass"}),
        ("ä = 'é', 1", {"ä = '', 1", "ä = 'é', 2", "ä = 'é', 0", "ä = (1,)", "ä = ('é',)"}),
    ],
)
def test_each_fault_is_made_alone(source, faults):
    assert changed(source) == faults


@pytest.mark.parametrize(
    "source",
    [
        '"""Text."""',
        "def f(a: Literal[1] = b) -> Literal[2]: pass",
        "Kind = A | B",
        "Call = Callable[[int], 'str']",
        "@dataclass(frozen=True)\nclass A: pass",
        "__all__ = ['a']",
        "if TYPE_CHECKING: f(1)",
        "a = f'{1}'",
    ],
)
def test_what_only_readers_and_type_checkers_see_is_left_alone(source):
    assert changed(source) == set()


def test_a_mutant_tells_its_line_and_what_is_changed():
    first, second = mutants("a = b\nc = 1\n")
    assert first.line == second.line == 2
    assert first.diff("a = b\nc = 1\n").splitlines() == ["@@ -2 +2 @@", "-c = 1", "+c = 2"]


def test_every_mutant_of_a_real_module_can_be_parsed():
    source = (ROOT / "towpath" / "settlement.py").read_text()
    made = mutants(source)
    assert len({mutant.source for mutant in made} - {source}) == len(made) > 100
    for mutant in made:
        ast.parse(mutant.source)
