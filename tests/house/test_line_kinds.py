"""Line kinds are listed once, and no reader of programs forgets one in silence.

Each check is held against planted examples, so that it is known to find what it is for.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from wrapperir.interp.executor import Executor
from wrapperir.ir import LINES, LineVisitor
from wrapperir.ir.line_effects import LineEffects
from wrapperir.verify.program import LineChecks
from wrapperir_cpp.lines import CppLines
from wrapperir_fx.graph_builder import LineGraph
from wrapperir_python.lines import PythonLines

ROOT = Path(__file__).parents[2]
KINDS = frozenset(kind.__name__ for kind in LINES)
LISTS = {
    "wrapperir/ir/line.py": "the one place",
    "wrapperir/frontend/fx/pools.py": "lines that it rewrites; all others count as uses",
}
"""Files where kinds are listed, and why."""


def sources() -> list[Path]:
    folders = (ROOT / "wrapperir", *(ROOT / "emitters").glob("wrapperir_*"))
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def name_of(node: ast.AST) -> str:
    """Return the last name of ``FreeLine`` or ``ir.FreeLine``; empty for anything else."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def names_in(node: ast.AST) -> set[str]:
    """Return the names in an expression, without those of modules."""
    modules = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return {name_of(n) for n in ast.walk(node) if id(n) not in modules} - {""}


def pattern_kinds(pattern: ast.pattern) -> set[str]:
    classes = (n.cls for n in ast.walk(pattern) if isinstance(n, ast.MatchClass))
    return {name_of(kind) for kind in classes} & KINDS


def is_wildcard(case: ast.match_case) -> bool:
    pattern = case.pattern
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None and not case.guard


def wildcards(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of matches over line kinds whose last case takes any kind.

    A last case that is ``assert_never`` takes none.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Match):
            continue
        kinds = {kind for case in node.cases for kind in pattern_kinds(case.pattern)}
        last = node.cases[-1]
        if kinds and is_wildcard(last) and "assert_never" not in names_in(last):
            yield node.lineno


def asked_kinds(test: ast.expr) -> tuple[str, frozenset[str]] | None:
    """Return what a test asks the kind of, and the kinds, if it asks that alone."""
    match test:
        case ast.Call(func=ast.Name("isinstance"), args=[subject, kinds]):
            found = names_in(kinds)
            if found and found <= KINDS:
                return ast.dump(subject), frozenset(found)
    return None


def chains(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of ``if`` chains that tell three kinds or more apart, each alone.

    A ``match`` without a wildcard, a visitor or effects say the same, and a type checker
    then finds a kind that is missing.
    """
    inner: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.If) or id(node) in inner:
            continue
        found: list[tuple[str, frozenset[str]]] = []
        step: ast.stmt = node
        while isinstance(step, ast.If):
            inner.add(id(step))
            asked = asked_kinds(step.test)
            found += [] if asked is None else [asked]
            if len(step.orelse) != 1:
                break
            step = step.orelse[0]
        for subject in {subject for subject, _ in found}:
            if sum(asked[0] == subject for asked in found) >= 3:
                yield node.lineno


def lists(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that list three line kinds or more: ``(A, B, C)``, ``A | B | C``.

    The operands of a ``|`` count once, and patterns of a ``match`` are no list.
    """
    inner: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in inner:
            continue
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = [name_of(element) for element in node.elts]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            inner.update(id(n) for n in ast.walk(node) if isinstance(n, ast.BinOp))
            parts = sorted(names_in(node))
        else:
            continue
        if sum(part in KINDS for part in parts) >= 3:
            yield node.lineno


CHECKS = {"wildcard": wildcards, "chain": chains, "list": lists}

PLANTED = {
    "wildcard": """
match line:
    case FreeLine():
        drop()
    case _:
        pass
""",
    "chain": """
if isinstance(line, FreeLine):
    drop()
elif isinstance(line, ReuseLine):
    move()
elif isinstance(line, AllocateLine | PlaceLine):
    begin()
""",
    "list": """
NESTING = (ConditionalLine, WhileLoopLine, SubgraphCallLine)
""",
}
SOUND = """
match line:
    case FreeLine() | ReuseLine() | PlaceLine():
        drop()
    case AllocateLine():
        begin()
match line:
    case FreeLine():
        drop()
    case _:
        assert_never(line)
match value:
    case TensorType():
        view()
    case _:
        pass
if isinstance(line, FreeLine):
    drop()
elif isinstance(line, ReuseLine):
    move()
PAIR = (RecordEventLine, WaitEventLine)
"""


@pytest.mark.parametrize("name", CHECKS)
def test_each_check_finds_a_planted_example_and_nothing_else(name: str) -> None:
    found = {
        other: list(check(ast.parse(PLANTED[name]))) for other, check in CHECKS.items()
    }
    assert {other for other, places in found.items() if places} == {name}
    assert list(CHECKS[name](ast.parse(SOUND))) == []
    for text, wanted in ((PLANTED[name], True), (SOUND, False)):
        of_a_module = re.sub(r"\b(\w+Line)\b", r"ir.\1", text)
        assert bool(list(CHECKS[name](ast.parse(of_a_module)))) == wanted


@pytest.mark.parametrize(
    "visitor", [LineEffects, LineChecks, Executor, PythonLines, CppLines, LineGraph]
)
def test_no_visitor_lacks_a_line_kind(visitor: type[LineVisitor[object]]) -> None:
    assert not visitor.__abstractmethods__


@pytest.fixture(scope="module")
def findings() -> dict[str, dict[str, list[int]]]:
    """Return the lines that each check finds, by file; each file is parsed once."""
    trees = (
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text()))
        for path in sources()
    )
    found: dict[str, dict[str, list[int]]] = {name: {} for name in CHECKS}
    for path, tree in trees:
        for name, check in CHECKS.items():
            found[name][path] = sorted(set(check(tree)))
    return found


@pytest.mark.parametrize("name", CHECKS)
def test_no_reader_forgets_a_line_kind(
    name: str, findings: dict[str, dict[str, list[int]]]
) -> None:
    found = findings[name]
    assert len(found) > 100
    bad = {path: places for path, places in found.items() if places and path not in LISTS}
    assert bad == {}
