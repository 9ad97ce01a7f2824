"""Names of programs that mean something else in Python, in FX or in a module."""

import builtins
import keyword
from collections.abc import Callable, Sequence

import pytest
import torch
from torch.fx import Graph, GraphModule
from torch.fx.graph import _illegal_names

from tests.fx_emitter.running import load, parsed
from tests.python_emitter.running import assert_same
from wrapperir.emit import Value
from wrapperir.interp import interpret
from wrapperir.ir import RESERVED_SYMBOLS
from wrapperir_fx.graph_module import build_graph_module

NAMES = sorted(
    {
        *keyword.kwlist,
        *keyword.softkwlist,
        *dir(builtins),
        *_illegal_names,
        *dir(GraphModule({}, Graph())),
        *("self", "inputs", "inputs_", "__inputs", "torch", "operator", "math", "aten"),
        *("wrapperir_fx_functions_free", "as_strided", "_", "__", "_0", "forward"),
        *("output", "args", "kwargs", "attribute_w", "_wrapperir_kernels", "a" * 255),
    }
)

SYMBOLS = [name for name in NAMES if name not in RESERVED_SYMBOLS]


def text(inputs: Sequence[str], lines: Sequence[str], outputs: Sequence[str]) -> str:
    body = "".join(f"  {line}\n" for line in (*lines, f"return {', '.join(outputs)}"))
    return f"program @main({', '.join(inputs)}) {{\n{body}}}\n"


def added(names: Sequence[str]) -> list[str]:
    """Return lines that add all of some tensors, and name the sum ``y``."""
    lines = ["%y = allocate f32[4]", "extern_kernel aten.neg.out(%x, out = %y)"]
    lines += [f"extern_kernel aten.add_.Tensor(%y, %{name})" for name in names]
    return [line + " writes(%y)" if "extern" in line else line for line in lines]


def name_inputs() -> str:
    return text(["%x: f32[4]", *(f"%{n}: f32[4]" for n in NAMES)], added(NAMES), ["%y"])


def name_buffers() -> str:
    lines: list[str] = []
    for name in NAMES:
        lines += [
            f"%{name} = allocate f32[4]",
            f"extern_kernel aten.neg.out(%x, out = %{name}) writes(%{name})",
        ]
    frees = [f"free %{name}" for name in NAMES]
    return text(["%x: f32[4]"], [*lines, *added(NAMES), *frees], ["%y"])


def name_constants() -> str:
    lines = [f'constant %{name}: f32[4] = "{name}"' for name in NAMES]
    return text(["%x: f32[4]"], [*lines, *added(NAMES)], ["%y"])


def name_workspaces() -> str:
    lines: list[str] = []
    for name in NAMES:
        lines += [
            f"%{name} = allocate f32[4] workspace(zero_per_program)",
            f"extern_kernel aten.add_.Tensor(%{name}, %x) writes(%{name})",
        ]
    zeroed = [f"extern_kernel aten.zero_.default(%{n}) writes(%{n})" for n in NAMES]
    return text(["%x: f32[4]"], [*lines, *added(NAMES), *zeroed], ["%y"])


def name_symbols() -> str:
    inputs = [f"%p{index}: f32[{name}]" for index, name in enumerate(SYMBOLS)]
    lines = [f"symbol {n}: int = size(%p{i}, 0)" for i, n in enumerate(SYMBOLS)]
    return text(inputs, lines, [f"{name} * 2" for name in SYMBOLS])


@pytest.mark.parametrize(
    "program_text",
    [name_inputs, name_buffers, name_constants, name_workspaces, name_symbols],
)
def test_whatever_a_thing_is_named_it_is_that(program_text: Callable[[], str]) -> None:
    assert len(SYMBOLS) > 300
    program = parsed(program_text())
    constants = {c.key: torch.rand(4) for c in program.constants}
    inputs: list[Value] = [torch.rand(4) for _ in program.inputs]
    wanted = interpret(program, list(inputs), constants)
    assert_same(build_graph_module(program, constants)(*inputs), wanted)
    assert_same(load(program, constants)(inputs), wanted)
