"""No module of an emitter or of the toolkit is in an import cycle."""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "wrapperir_python": ROOT / "emitters",
    "wrapperir_cpp": ROOT / "emitters",
    "wrapperir_fx": ROOT / "emitters",
    "wrapperir.emit": ROOT,
}


def modules_of(package: str, root: Path) -> dict[str, Path]:
    """Return the files of a package's modules, by their dotted names."""
    folder = root.joinpath(*package.split("."))
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for path in sorted(folder.rglob("*.py"))
    }


def imported_modules(text: str, modules: set[str]) -> Iterator[str]:
    """Yield the modules that a text imports: late, and for type checkers alone, too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                name = submodule if submodule in modules else node.module
                if name in modules:
                    yield name


def find_cycle(texts: dict[str, str]) -> list[str]:
    """Return the modules of an import cycle, empty if there is none."""
    graph = {
        name: set(imported_modules(text, set(texts))) - {name}
        for name, text in texts.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_is_in_an_import_cycle(package: str) -> None:
    modules = modules_of(package, PACKAGES[package])
    assert len(modules) > 10
    assert find_cycle({name: path.read_text() for name, path in modules.items()}) == []


def test_a_cycle_through_type_checking_is_found() -> None:
    late = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import A\n"
    texts = {"p.a": "from p import b\n", "p.b": late, "p": ""}
    assert set(find_cycle(texts)) == {"p.a", "p.b"}
    assert find_cycle({**texts, "p.b": ""}) == []


def test_emitters_import_no_other_emitter() -> None:
    emitters = {name for name in PACKAGES if name.startswith("wrapperir_")}
    for package in emitters:
        for path in modules_of(package, PACKAGES[package]).values():
            for node in ast.walk(ast.parse(path.read_text())):
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                others = {name.split(".")[0] for name in names} & (emitters - {package})
                assert not others, f"{path} imports {others}"
