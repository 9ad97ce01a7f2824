"""Programs with C++ kernels that need no header run by every emitter."""

from typing import Any

import pytest
import torch

from tests.lowering.cpp_kernels import kernel_of, type_of
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import compile_program
from wrapperir.ir import NO_HEADERS, DType, Program, Symbol
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.loops import Apply, Axis, IndexValue, Load, Nest, Store
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

_NUMBERS = {
    **{"i8": "signed char", "u8": "unsigned char", "i16": "short", "u16": "unsigned short"},
    **{"i32": "int", "u32": "unsigned", "i64": "long", "f32": "float", "f64": "double"},
}
_PARAMETERS = ", ".join(f"{dtype}_number: {dtype}" for dtype in _NUMBERS)
_DECLARED = ", ".join(f"{type} {dtype}" for dtype, type in _NUMBERS.items())
_STORES = " ".join(f"p[{n}] = {dtype};" for n, dtype in enumerate(_NUMBERS))


def _program(source: str, parameters: str, arguments: str) -> Program:
    program = parse_program(f"""\
wrapperir 1

kernel_definition @kernel cpp({parameters}) {{
  entry = kernel
  metadata "{NO_HEADERS[0]}" = "{NO_HEADERS[1]}"
  source {{
    | {source}
  }}
}}

program @main(%p: mutated f64[9]) {{
  kernel_call @kernel({arguments})
  return
}}
""")
    assert verify(program) == ()
    return program


def _nest(name: str, scale: int) -> Nest:
    index = (Symbol("i0"),)
    body = (
        Load(result="v0", dtype=DType.F32, buffer="x", index=index),
        IndexValue(result="v1", dtype=DType.F32, expr=scale),
        Apply(
            result="v2",
            dtype=DType.F32,
            op=ScalarOp.MUL,
            operands=("v0", "v1"),
        ),
        Store(buffer="y", index=index, value="v2"),
    )
    return Nest(name=name, axes=(Axis("i0", Symbol("s0")),), body=body)


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_rendered_kernels_run_in_one_program(emitter: str) -> None:
    x = torch.randn(100)
    types = {"x": type_of(x), "y": type_of(x)}
    rendered = [
        CppRenderer().render_kernel(kernel_of(_nest(name, scale), types, ("s0",)))
        for name, scale in (("twice", 2), ("thrice", 3))
    ]
    head = format_program(Program(definitions=tuple(rendered)))
    definitions = head[: head.index("program @")]
    program = parse_program(f"""{definitions}
program @main(%x: f32[100]) {{
  %y = allocate f32[100]
  kernel_call @twice(%x, %y, 100)
  kernel_call @thrice(%y, %y, 100)
  return %y
}}
""")
    assert verify(program) == ()
    (got,) = compile_program(program, emitter=emitter, constants={})([x])
    assert isinstance(got, torch.Tensor)
    assert torch.equal(got, x * 2 * 3)


@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_numbers_of_every_type_are_passed(emitter: str) -> None:
    source = f'extern "C" void kernel(double* p, {_DECLARED}) {{ {_STORES} }}'
    values = [-3, 200, -300, 60000, -70000, 4000000000, -(1 << 40), 0.25, 1e-300]
    arguments = ", ".join(["%p", *map(str, values)])
    program = _program(source, f"p: read_write f64*, {_PARAMETERS}", arguments)
    p = torch.zeros(9, dtype=torch.float64)
    compile_program(program, emitter=emitter, constants={})([p])
    assert p.tolist() == values


def test_without_the_extension_ctypes_calls_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = f'extern "C" void kernel(double* p, {_DECLARED}) {{ {_STORES} }}'
    values = [-3, 200, -300, 60000, -70000, 4000000000, -(1 << 40), 0.25, 1e-300]
    arguments = ", ".join(["%p", *map(str, values)])
    program = _program(source, f"p: read_write f64*, {_PARAMETERS}", arguments)
    call = compile_program(program, emitter="python", constants={})
    kernels = _globals_of(call)["cpp_kernels"]
    monkeypatch.setattr(kernels, "_native", None)
    made = kernels.kernel("kernel", ("address", *_NUMBERS), "kernel", source)
    with pytest.raises(RuntimeError, match="kernel is not compiled"):
        made()
    kernels.build()
    p = torch.zeros(9, dtype=torch.float64)
    made(p, *values)
    assert p.tolist() == values


def _globals_of(call: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(call, "__wrapped__", call).__globals__
    return found


def test_a_wrong_argument_is_refused() -> None:
    source = 'extern "C" void kernel(double* p, int n) { p[0] = n; }'
    program = _program(source, "p: read_write f64*, n: i32", "%p, 1")
    call = compile_program(program, emitter="python", constants={})
    kernel = _globals_of(call)["kernel"]
    p = torch.zeros(9, dtype=torch.float64)
    kernel(p, 5)
    assert p[0] == 5
    for given, error in (
        ((p, 1 << 31), OverflowError),
        ((p, "1"), TypeError),
        ((1, 1), TypeError),
        ((p,), TypeError),
    ):
        with pytest.raises(error, match="kernel takes"):
            kernel(*given)


@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_a_kernel_that_does_not_compile_is_reported(emitter: str) -> None:
    source = 'extern "C" void kernel(double* p) { p[0] = unknown; }'
    program = _program(source, "p: read_write f64*", "%p")
    with pytest.raises(DiagnosticError, match="unknown") as caught:
        compile_program(program, emitter=emitter, constants={})
    assert caught.value.diagnostics[0].code is Code.KERNEL_BUILD_FAILED
