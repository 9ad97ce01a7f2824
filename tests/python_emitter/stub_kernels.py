"""Programs whose C++ kernels are Python functions, so that nothing is built for them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from attrs import evolve

from wrapperir.emit import Loaded
from wrapperir.ir import Program
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter

Stub = Callable[..., object]

PARAMETERS = "x: read f32*, p: read_write f32*, n: i64"
INPUTS = "%x: f32[4, 8], %p: mutated f32[4, 8]"
CALL = "  kernel_call @m(%x, %p, 32)\n  return"


_FILE = "from tests.python_emitter.stub_kernels import build, found as kernel\n"
"""Stands in for the file that compiles C++ kernels; a kernel's source is a stub's name."""
_stubs: Mapping[str, Stub] = {}


def found(
    name: str, types: Sequence[str], entry: str, source: str, vectors: str = ""
) -> Stub:
    """Return the stub that a source names."""
    return _stubs[source]


def build() -> None:
    """Do nothing: there is nothing to compile."""


def load_with(
    patch: pytest.MonkeyPatch,
    program: Program,
    stubs: Mapping[str, Stub],
    emitter: PythonEmitter | None = None,
) -> Loaded:
    """Load the Python of a program with stubs for its kernels."""
    emitter = emitter or PythonEmitter(trusts_inputs=True)
    artifact = emitter.emit(program)
    artifact = evolve(artifact, files={**artifact.files, "cpp_kernels.py": _FILE})
    with patch.context() as patched:
        patched.setattr(f"{__name__}._stubs", stubs)
        return emitter.load(artifact, {})


def kernel(name: str, parameters: str = PARAMETERS) -> str:
    """Return the definition of a kernel that is the stub of its name."""
    return f"""\
kernel_definition @{name} cpp({parameters}) {{
  entry = kernel
  source {{
    | {name}
  }}
}}

"""


def program_of(definitions: str, lines: str, inputs: str) -> Program:
    """Return a program, verified."""
    text = f"wrapperir 1\n\n{definitions}\nprogram @main({inputs}) {{\n{lines}\n}}\n"
    program = parse_program(text)
    assert verify(program) == ()
    return program


def global_of(call: Loaded, name: str) -> Any:
    """Return a global of the module that a call is a function of."""
    return vars_of(call)[name]


def vars_of(call: Loaded) -> dict[str, Any]:
    """Return the globals of the module that a call is a function of."""
    function: Any = getattr(call, "__wrapped__", call)
    found: dict[str, Any] = function.__globals__
    return found


KERNELS = kernel("first") + kernel("second")


def multi_kernel(select: str, choices: str = "", name: str = "m") -> str:
    choices = choices or "  choice @first(0, 1, 2)\n  choice @second(0, 1, 2)\n"
    return f"multi_kernel @{name}({PARAMETERS}) {{\n{choices}  select {select}\n}}\n"


def benchmarked(lines: str = CALL) -> Program:
    return program_of(KERNELS + multi_kernel("benchmark"), lines, INPUTS)


class Ran:
    """Stubs that add x to p and note their names and arguments."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.arguments: list[tuple[Any, ...]] = []

    def stub(self, name: str) -> Stub:
        def run(x: torch.Tensor, p: torch.Tensor, n: int) -> None:
            self.names.append(name)
            self.arguments.append((x, p, n))
            p += x

        return run

    @property
    def stubs(self) -> dict[str, Stub]:
        return {name: self.stub(name) for name in ("first", "second", "third")}


def tensors() -> list[Any]:
    return [torch.ones(4, 8), torch.full((4, 8), 2.0)]


def force(call: Loaded, times: Sequence[float | None]) -> list[tuple[Any, ...]]:
    """Have the choices take these times; return the arguments of what is not measured."""
    asked: list[tuple[Any, ...]] = []

    def time_choices(*arguments: Any) -> Sequence[float | None]:
        asked.append(arguments)
        return times

    global_of(call, "kernel_choices").time_choices = time_choices
    return asked


def refuse_to_time(call: Loaded) -> None:
    def time_choices(*_: Any) -> Sequence[float | None]:
        raise AssertionError("it was timed again")

    global_of(call, "kernel_choices").time_choices = time_choices


def chosen(call: Any) -> list[tuple[str, str]]:
    return [(item.multi_kernel, item.kernel) for item in call.choices()]
