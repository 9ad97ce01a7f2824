"""What importing loads, and who may import torch's internals."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.parsed_sources import imports_of

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "triton", "sympy", "hypothesis")
LIGHT_MODULES = (
    "wrapperir",
    "wrapperir.ir.builder",
    "wrapperir.diagnostics",
    "wrapperir.text",
    "wrapperir.verify",
    "wrapperir.passes",
    "wrapperir.emit",
    "wrapperir.plugin",
    "wrapperir.reduce",
    "wrapperir.report",
    "wrapperir.cli.main",
    "wrapperir.backend",
    "wrapperir_python.plugin",
    "wrapperir_fx.plugin",
)


def loaded_by(statement: str) -> set[str]:
    """Return the names of the modules that a fresh interpreter loads."""
    script = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", LIGHT_MODULES)
def test_importing_loads_nothing_heavy(module: str) -> None:
    assert not loaded_by(f"import {module}").intersection(HEAVY)


def test_reading_checking_and_printing_loads_nothing_heavy() -> None:
    statement = (
        "from wrapperir import ProgramBuilder, tensor, format_program, parse_program\n"
        "from wrapperir.verify import verify\n"
        "b = ProgramBuilder(); x = b.input(tensor('f32', (8,)), name='x')\n"
        "y = b.extern('aten.relu.default', x, type=tensor('f32', (8,)))\n"
        "program = parse_program(format_program(b.free(x).build(y)))\n"
        "assert verify(program) == ()"
    )
    assert not loaded_by(statement).intersection(HEAVY)


def imported_names(path: Path) -> set[str]:
    """Return the dotted names that a module's import statements name, late ones too."""
    names: set[str] = set()
    for module, imported in imports_of(path):
        if module is None:
            names.update(imported)
        elif module:
            names.add(module)
            names.update(f"{module}.{name}" for name in imported)
    return names


def test_one_package_alone_imports_inductor() -> None:
    adapter = ROOT / "wrapperir" / "frontend" / "inductor"
    modules = [*(ROOT / "wrapperir").rglob("*.py"), *(ROOT / "emitters").rglob("*.py")]
    importers = {
        path
        for path in modules
        if any(f"{name}.".startswith("torch._inductor.") for name in imported_names(path))
    }
    assert all(adapter in path.parents for path in importers), importers
