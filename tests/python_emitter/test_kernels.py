"""Triton kernels: how they are defined, built and launched."""

import pytest
import torch

from tests.python_emitter.kernel_programs import BUFFER, cpp, program_of
from tests.python_emitter.running import assert_runs_as_interpreted, assert_same
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import compile_program
from wrapperir.ir import (
    Access,
    BufferParameter,
    ConstexprParameter,
    DescriptorParameter,
    Device,
    DType,
    Expr,
    ForcedChoice,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    Parameter,
    ScalarParameter,
    Symbol,
    ZeroMode,
    ceildiv,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir_python.emitter import PythonEmitter


def triton(source: str, *parameters: Parameter, **more: object) -> KernelDefinitionLine:
    options: dict[str, object] = {"entry": "triton_", "grid": (1,), **more}
    return KernelDefinitionLine(
        name="k",
        language=Language.TRITON,
        parameters=(BUFFER, *parameters),
        source=source,
        **options,  # type: ignore[arg-type]
    )


DOUBLE = """
@triton.jit
def triton_(p, n, XBLOCK: tl.constexpr, BY: tl.constexpr):
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(p + i, tl.load(p + i, mask=i < n) * BY, mask=i < n)
"""
N, XBLOCK, BY = ScalarParameter("n", DType.I32), *map(ConstexprParameter, ("XBLOCK", "BY"))


def test_a_triton_kernel_has_a_file_and_a_launcher() -> None:
    kernel = triton(
        DOUBLE,
        *(N, XBLOCK, BY),
        grid=(ceildiv(Symbol("n"), Symbol("XBLOCK")), Symbol("BY") - 1),
        constants=(("BY", 2),),
        configs=(
            KernelConfig((("XBLOCK", 4), ("num_warps", 2))),
            KernelConfig((("XBLOCK", 8),)),
        ),
    )
    program = program_of(kernel, 13)
    artifact = PythonEmitter(trusts_inputs=True).emit(program)
    assert list(artifact.files) == ["program.py", "kernels/k.py"]
    text, source = artifact.files["program.py"], artifact.files["kernels/k.py"]
    assert isinstance(text, str)
    assert isinstance(source, str)
    assert source.endswith("import triton.language as tl\n\n" + DOUBLE)
    assert (
        "def k(p, n):\n    k_jit[(ceildiv(n, 4), 1)](p, n, BY=2, XBLOCK=4, num_warps=2)\n"
    ) in text
    assert_runs_as_interpreted(program)


def test_constants_among_the_parameters_are_passed_by_name() -> None:
    kernel = triton(
        "@triton.jit\ndef triton_(p, XBLOCK: tl.constexpr, n):\n"
        "    i = tl.arange(0, XBLOCK)\n    tl.store(p + i, 2, mask=i < n)\n",
        *(XBLOCK, N),
        configs=(KernelConfig((("XBLOCK", 16),)),),
    )
    text = PythonEmitter().emit(program_of(kernel, 5)).files["program.py"]
    assert "k_jit[(1,)](p, n=n, XBLOCK=16)" in str(text)
    assert_runs_as_interpreted(program_of(kernel, 5))


def test_parameters_in_another_order_than_the_sources_are_passed_by_name() -> None:
    kernel = triton(
        "@triton.jit\ndef triton_(p, m, q, n):\n    tl.store(p, tl.load(q) * n + m)\n",
        *(BufferParameter("q", DType.F32, Access.READ), N, ScalarParameter("m", DType.I32)),
    )
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (16,)), name="x", mutated=True)
    y = builder.input(tensor("f32", (16,)), name="y")
    builder.call(builder.kernel(kernel), x, y, 10, 3)
    program = builder.build()
    assert "k_jit[(1,)](p, q=q, n=n, m=m)" in str(PythonEmitter().emit(program).files)
    assert_runs_as_interpreted(program)
    given = torch.zeros(16), torch.ones(16)
    compile_program(program)(list(given))
    assert given[0][0] == 13
    assert torch.equal(given[1], torch.ones(16))


def test_a_descriptor_is_made_where_its_kernel_is_launched() -> None:
    parameters = [
        DescriptorParameter(name, DType.F32, (4, 8), access)
        for name, access in (("x", Access.READ), ("y", Access.READ_WRITE))
    ]
    kernel = triton(
        "@triton.jit\ndef triton_(p, x, N: tl.constexpr, y):\n"
        "    y.store([1, 0], x.load([1, 4]))\n",
        *(parameters[0], ConstexprParameter("N"), parameters[1]),
        constants=(("N", 1),),
    )
    builder = ProgramBuilder()
    p = builder.input(tensor("f32", (16,)), mutated=True)
    x = builder.input(tensor("f32", (4, 12)))
    y = builder.input(tensor("f32", (4, 8)), mutated=True)
    program = builder.call(builder.kernel(kernel), p, x, y).build()
    text = str(PythonEmitter().emit(program).files["program.py"])
    assert (
        "k_jit[(1,)](p, TensorDescriptor.from_tensor(x, [4, 8]), "
        "y=TensorDescriptor.from_tensor(y, [4, 8]), N=1)"
    ) in text
    assert "from triton.tools.tensor_descriptor import TensorDescriptor\n" in text
    assert_runs_as_interpreted(program)


SQUARE = """
@triton.jit
def triton_(p, a, b: tl.int32, c,  # é
            XBLOCK: tl.constexpr):
    tl.store(p, (a * a // 1000000).to(tl.float32))
    tl.store(p + 1, (c * c - 0.01) * 1e9)
"""


def test_a_number_has_the_type_that_its_parameter_declares() -> None:
    kernel = triton(
        SQUARE,
        *(ScalarParameter("a", DType.I64), ScalarParameter("b", DType.I32)),
        *(ScalarParameter("c", DType.F32), ConstexprParameter("XBLOCK")),
        constants=(("XBLOCK", 1),),
    )
    program = program_of(kernel, 100_000, 2, 0.1)
    source = PythonEmitter().emit(program).files["kernels/k.py"]
    assert 'def triton_(p, a: "int64", b: tl.int32, c: "fp32",  # é\n' in str(source)


def test_a_product_of_64_bits_does_not_overflow() -> None:
    kernel = triton(
        SQUARE,
        *(ScalarParameter("a", DType.I64), ScalarParameter("b", DType.I32)),
        *(ScalarParameter("c", DType.F32), ConstexprParameter("XBLOCK")),
        constants=(("XBLOCK", 1),),
    )
    assert_runs_as_interpreted(program_of(kernel, 100_000, 2, 0.1))
    x = torch.zeros(16)
    compile_program(program_of(kernel, 100_000, 2, 0.1))([x])
    assert x[0] == 10_000


def test_a_source_that_is_no_text_is_refused() -> None:
    kernel = triton("@triton.jit\ndef triton_(p):\n    '\udc80'\n")
    with pytest.raises(DiagnosticError) as caught:
        PythonEmitter().emit(program_of(kernel))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code is Code.UNSUPPORTED_FEATURE
    assert diagnostic.path == ("definitions", 0)


def test_a_source_that_does_not_parse_is_reported_when_loaded() -> None:
    kernel = triton("def (", ScalarParameter("n", DType.I64))
    with pytest.raises(DiagnosticError, match="SyntaxError") as caught:
        compile_program(program_of(kernel, 1))
    assert caught.value.diagnostics[0].code is Code.KERNEL_BUILD_FAILED


def test_each_kernel_has_its_own_globals() -> None:
    source = """
FACTOR: tl.constexpr = tl.constexpr({factor})

@triton.jit
def helper(x):
    return x * FACTOR

@triton.jit
def triton_(p):
    i = tl.arange(0, 16)
    tl.store(p + i, helper(tl.load(p + i)) + 1)
"""
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (16,)), mutated=True)
    for factor in (2, 3):
        definition = triton(source.format(factor=factor))
        builder.call(
            builder.kernel(
                KernelDefinitionLine(
                    name=f"times_{factor}",
                    language=definition.language,
                    parameters=definition.parameters,
                    grid=definition.grid,
                    entry=definition.entry,
                    source=definition.source,
                )
            ),
            x,
        )
    given = torch.ones(16)
    compile_program(builder.build())([given])
    assert given.tolist() == [(1 * 2 + 1) * 3 + 1] * 16


def test_a_launchers_parameters_may_have_any_name() -> None:
    parameters = tuple(
        ScalarParameter(name, DType.I32) for name in ("k", "k_jit", "ceildiv", "min", "int")
    )
    source = (
        "@triton.jit\ndef triton_(p, k, k_jit, ceildiv, min, int):\n"
        "    tl.store(p, k + k_jit + ceildiv + min + int)\n"
    )
    total: Expr = ceildiv(Symbol("min"), Symbol("int"))
    kernel = triton(source, *parameters, grid=(total,))
    assert_runs_as_interpreted(program_of(kernel, 1, 2, 3, 4, 5))


def test_a_kernel_that_is_never_called_is_not_built() -> None:
    builder = ProgramBuilder()
    builder.kernel(cpp("this is no C++;"))
    artifact = PythonEmitter().emit(builder.build())
    assert "# k is never called." in str(artifact.files["program.py"])
    assert compile_program(builder.build())([]) == ()


@pytest.mark.parametrize("choice", [0, 1])
def test_a_multi_kernel_calls_its_choice_directly(choice: int) -> None:
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (16,)), name="x", mutated=True)
    kernels = [
        builder.kernel(
            KernelDefinitionLine(
                name=f"set_{value}",
                language=Language.CPP,
                parameters=(BUFFER,),
                entry="kernel",
                source=f'extern "C" void kernel(float* p) {{ p[0] = {value}; }}',
            )
        )
        for value in (5, 6)
    ]
    either = builder.multi_kernel(kernels, name="either", selection=ForcedChoice(choice))
    builder.call(either, x)
    text = str(PythonEmitter().emit(builder.build()).files["program.py"])
    assert f"    set_{5 + choice}(x)\n" in text
    given = torch.zeros(16)
    compile_program(builder.build())([given])
    assert given[0] == 5 + choice


KEEPS_ZERO = """
#include <cstdint>
extern "C" void kernel(float* p, int32_t* ws, int64_t n) {
  for (int64_t i = 0; i < n; ++i) { ws[i] += 1; p[i] = ws[i]; }
  for (int64_t i = 0; i < n && LEAVE; ++i) ws[i] = 0;
}
"""


ACCESS = {
    ZeroMode.UNINITIALIZED: Access.WRITE,
    ZeroMode.ZERO_ON_CALL: Access.READ_WRITE,
    ZeroMode.ZERO_PER_PROGRAM: Access.READ_WRITE,
}


@pytest.mark.parametrize("mode", list(ZeroMode))
def test_workspaces_begin_as_their_mode_says(mode: ZeroMode) -> None:
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (16,)), mutated=True)
    source = KEEPS_ZERO.replace("LEAVE", "1" if mode is ZeroMode.ZERO_PER_PROGRAM else "0")
    if mode is ZeroMode.UNINITIALIZED:
        source = source.replace("+= 1", "= 1")
    ws_type = tensor("i32", (16,))
    kernel = builder.kernel(
        KernelDefinitionLine(
            name="count",
            language=Language.CPP,
            parameters=(
                BUFFER,
                BufferParameter("ws", DType.I32, ACCESS[mode]),
                ScalarParameter("n", DType.I64),
            ),
            entry="kernel",
            source=source,
        )
    )
    ws = builder.allocate(ws_type, workspace=mode)
    builder.call(kernel, x, ws, 16)
    if mode is not ZeroMode.ZERO_PER_PROGRAM:
        builder.free(ws)
    call = compile_program(builder.build())
    for _ in range(3):
        given = torch.zeros(16)
        call([given])
        assert_same([given], [torch.ones(16)])


def test_a_symbolic_workspace_is_kept_by_its_size() -> None:
    builder = ProgramBuilder()
    n = builder.input(tensor("i64", (1,)), name="unused")
    from wrapperir.ir import SizeOf

    size = builder.symbol("s0", SizeOf("unused", 0))
    ws = builder.allocate(tensor("i32", (size,)), workspace=ZeroMode.ZERO_PER_PROGRAM)
    out = builder.extern("aten.clone.default", ws, type=tensor("i32", (size,)))
    builder.extern_out("aten.add_.Scalar", ws, 1, writes=[ws])
    del n
    emitter = PythonEmitter(trusts_inputs=True)
    call = emitter.load(emitter.emit(builder.build(out)), {})
    seen = [call([torch.zeros(k)])[0].tolist() for k in (2, 3, 2)]  # type: ignore[union-attr]
    assert seen == [[0, 0], [0, 0, 0], [1, 1]]


def test_triton_on_the_cpu_beside_a_gpu_is_refused() -> None:
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (16,)), mutated=True)
    y = builder.input(tensor("f32", (16,), device=Device("cuda", 0)), mutated=True)
    kernel = builder.kernel(triton("@triton.jit\ndef triton_(p):\n    pass\n"))
    builder.call(kernel, x)
    builder.call(kernel, y, device=Device("cuda", 0))
    with pytest.raises(DiagnosticError) as caught:
        PythonEmitter().emit(builder.build())
    assert [d.code for d in caught.value.diagnostics] == [Code.UNSUPPORTED_FEATURE]
