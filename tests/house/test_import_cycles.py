"""No module of an emitter or of the toolkit is in an import cycle."""

import graphlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.house.parsed_sources import ImportStatement, import_statements, imports_of

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


def imported_modules(
    statements: Iterable[ImportStatement], modules: Collection[str]
) -> Iterator[str]:
    """Yield the modules that a text imports: late, and for type checkers alone, too."""
    for module, names in statements:
        if module is None:
            yield from (name for name in names if name in modules)
        elif module:
            for name in names:
                submodule = f"{module}.{name}"
                found = submodule if submodule in modules else module
                if found in modules:
                    yield found


def find_cycle(imports: Mapping[str, Sequence[ImportStatement]]) -> list[str]:
    """Return the modules of an import cycle, empty if there is none."""
    graph = {
        name: set(imported_modules(statements, imports.keys())) - {name}
        for name, statements in imports.items()
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
    assert find_cycle({name: imports_of(path) for name, path in modules.items()}) == []


def test_a_cycle_through_type_checking_is_found() -> None:
    late = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import A\n"
    texts = {"p.a": "from p import b\n", "p.b": late, "p": ""}
    imports = {name: import_statements(text) for name, text in texts.items()}
    assert set(find_cycle(imports)) == {"p.a", "p.b"}
    assert find_cycle({**imports, "p.b": []}) == []


def test_emitters_import_no_other_emitter() -> None:
    emitters = {name for name in PACKAGES if name.startswith("wrapperir_")}
    for package in emitters:
        for path in modules_of(package, PACKAGES[package]).values():
            for module, imported in imports_of(path):
                names = imported if module is None else (module,)
                others = {name.split(".")[0] for name in names} & (emitters - {package})
                assert not others, f"{path} imports {others}"
