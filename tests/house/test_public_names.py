"""The public names exist, are documented, and are the same object wherever imported."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import wrapperir
from tests.house.parsed_sources import imports_of

SHARED = (
    "wrapperir.ir",
    "wrapperir.diagnostics",
    "wrapperir.text",
    "wrapperir.verify",
    "wrapperir.analysis",
    "wrapperir.planning",
    "wrapperir.caching",
    "wrapperir.passes",
    "wrapperir.reduce",
    "wrapperir.report",
    "wrapperir.operators",
    "wrapperir.symbolic",
    "wrapperir.fx",
    "wrapperir.kernels",
    "wrapperir.interp",
    "wrapperir.emit",
    "wrapperir.plugin",
)
"""Packages whose exported names are imported from the package, not from its modules."""
PACKAGES = (
    *SHARED,
    "wrapperir",
    "wrapperir.testing",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_lists_exists_and_is_documented(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__doc__
    listed = getattr(module, "__all__", [])
    assert list(listed) == sorted(listed, key=sort_key)
    for name in public_names(package):
        assert not name.startswith("_")
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{package}.{name} has no docstring"


def public_names(package: str) -> set[str]:
    """Return the names that a package lists, or else imports."""
    module = importlib.import_module(package)
    if hasattr(module, "__all__"):
        return set(module.__all__)
    names = (name for name, value in vars(module).items() if not inspect.ismodule(value))
    return {name for name in names if not name.startswith("_")}


def sort_key(name: str) -> tuple[int, str]:
    """Order as ruff does: constants, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_the_short_names_are_those_of_their_packages() -> None:
    for name in wrapperir.__all__:
        value = getattr(wrapperir, name)
        home = getattr(value, "__module__", "wrapperir.passes")  # a constant has none
        assert getattr(importlib.import_module(home), name) is value


def test_a_type_checker_sees_the_names_that_are_loaded_late() -> None:
    tree = ast.parse(inspect.getsource(wrapperir))
    seen = {
        alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    assert seen.keys() == set(wrapperir.__all__)
    for name, home in seen.items():
        assert getattr(importlib.import_module(home), name) is getattr(wrapperir, name)


def test_a_program_is_built_with_short_names_alone() -> None:
    guide = Path(__file__).parents[2] / "docs/guides/building-programs.md"
    imported = re.search(
        r"^from wrapperir import \((.*?)\)$", guide.read_text(), re.M | re.S
    )
    assert imported is not None
    names = set(imported[1].replace(",", " ").split())
    assert {"KernelDefinitionLine", "ProgramBuilder", "SizeOf", "ZeroMode"} < names
    assert names < set(wrapperir.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(wrapperir, "no_such_name")  # noqa: B009


def imports_past(package: str, root: Path) -> list[str]:
    """Return the imports of exported names of a package from its modules, outside of it."""
    exported = public_names(package)
    own = root.joinpath(*package.split("."))
    found: list[str] = []
    for part in ("wrapperir", "emitters", "plugins"):
        for path in (root / part).rglob("*.py"):
            if own in path.parents:
                continue
            for module, imported in imports_of(path):
                if (module or "").startswith(f"{package}."):
                    names = exported.intersection(imported)
                    found += [f"{path}: {module}.{name}" for name in sorted(names)]
    return found


@pytest.mark.parametrize("package", SHARED)
def test_exported_names_are_imported_from_their_package(package: str) -> None:
    found = imports_past(package, Path(__file__).parents[2])
    # Hooks are declared without what the package of emitters imports.
    assert [line for line in found if "hookspecs.py" not in line] == []


def test_an_import_past_a_package_is_found(tmp_path: Path) -> None:
    (tmp_path / "emitters").mkdir()
    module = tmp_path / "emitters" / "some.py"
    module.write_text("from wrapperir.ir.line import FreeLine\n")
    assert imports_past("wrapperir.ir", tmp_path) == [
        f"{module}: wrapperir.ir.line.FreeLine"
    ]
