"""Triton kernels in C++: what is compiled, without a GPU, and for which arguments."""

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from tests.cpp_emitter.moved import GPU
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.argument_facts import divisor_of, survey_arguments
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.triton_signature import ArgumentFacts
from wrapperir.ir import (
    Access,
    BufferParameter,
    ConstexprParameter,
    DType,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    Program,
    ScalarParameter,
    Symbol,
    tensor,
)
from wrapperir.ir.builder import BlockBuilder, NamedValue, ProgramBuilder
from wrapperir.kernels import Target, present_targets, targets_to_keep
from wrapperir.kernels.gpu_targets import DEFAULT_TARGETS
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.triton_kernels import RECORD, TABLE, compile_triton_kernels

VECTOR = tensor("f32", (64,), device=GPU)


def kernel_of(source: str, *parameters: Any, **values: Any) -> KernelDefinitionLine:
    return KernelDefinitionLine(
        name="k",
        language=Language.TRITON,
        parameters=parameters,
        grid=(1,),
        configs=(KernelConfig(tuple(values.items())),),
        entry="k",
        source=f"import triton\nimport triton.language as tl\n\n\n{source}",
    )


def called(kernel: KernelDefinitionLine, *numbers: Any) -> Program:
    """Call a kernel with inputs and numbers."""
    b = ProgramBuilder()
    b.kernel(kernel)
    values = [
        b.input(tensor(p.dtype, (64,), device=GPU), mutated=True)
        for p in kernel.parameters
        if isinstance(p, BufferParameter)
    ]
    b.call(kernel, *values, *numbers, device=GPU)
    program = b.build()
    assert verify(program) == ()
    return program


def facts_of(program: Program, symbol: str) -> Mapping[str, Any]:
    files = CppEmitter().emit(program).files
    return cast(Mapping[str, Any], json.loads(files[f"kernels/{symbol}.triton.json"]))


# Compilation


@pytest.mark.parametrize(
    "kind",
    [
        kind
        if kind in (KernelKind.ROW_SUM, KernelKind.SCRATCH_ADD)
        else pytest.param(kind, marks=pytest.mark.sweep)
        for kind in KernelKind
    ],
)
def test_a_kernel_compiles_for_each_target(kind: KernelKind) -> None:
    kernel = library_kernel(kind, Language.TRITON)
    numbers = [8 for p in kernel.parameters if isinstance(p, ScalarParameter)]
    artifact = CppEmitter().emit(called(kernel, *numbers))
    built = compile_triton_kernels(artifact.files, DEFAULT_TARGETS)
    names = {f"kernels/{kernel.name}{variant}" for variant in ("", ".any")}
    wanted = {f"{n}.{t.name}.{t.suffix}" for n in names for t in DEFAULT_TARGETS}
    assert set(built) == wanted | {RECORD, TABLE}
    for name in wanted:
        assert cast(bytes, built[name])[:4] == b"\x7fELF"


def test_the_table_has_what_a_launch_needs() -> None:
    kernel = library_kernel(KernelKind.ADD, Language.TRITON)
    artifact = CppEmitter().emit(called(kernel, 64))
    built = compile_triton_kernels(artifact.files, tuple(map(Target, ["sm_80", "gfx942"])))
    rows = [line.strip() for line in str(built[TABLE]).splitlines() if ".cubin" in line]
    assert rows == [
        '{"kernels/triton_add.sm_80.cubin", "add", 80, false, true, '
        "32, 0, 1, 0, false, false, nullptr, 0},",
        '{"kernels/triton_add.any.sm_80.cubin", "add", 80, false, false, '
        "32, 0, 1, 0, false, false, nullptr, 0},",
    ]
    threads = [entry["threads"] for entry in json.loads(built[RECORD])]
    assert threads == [32, 32, 64, 64]


def test_shared_memory_clusters_and_options_are_recorded() -> None:
    source = """\
@triton.jit
def k(x, y, XBLOCK: tl.constexpr):
    i = tl.arange(0, XBLOCK)[:, None] * XBLOCK + tl.arange(0, XBLOCK)[None, :]
    a = tl.load(x + i)
    tl.store(y + i, tl.dot(a, a))
"""
    kernel = kernel_of(
        source,
        BufferParameter("x", DType.F32, Access.READ),
        BufferParameter("y", DType.F32, Access.WRITE),
        ConstexprParameter("XBLOCK"),
        XBLOCK=64,
        num_warps=8,
        num_ctas=2,
    )
    artifact = CppEmitter().emit(called(kernel))
    built = compile_triton_kernels(artifact.files, tuple(map(Target, ["sm_80", "sm_90"])))
    facts = json.loads(built[RECORD])
    # Clusters are of later GPUs.
    assert [("error" in fact, fact["target"]) for fact in facts] == [
        *[(True, "sm_80")] * 2,
        *[(False, "sm_90")] * 2,
    ]
    assert facts[-1]["threads"] == 256
    assert facts[-1]["cluster"] == 2
    assert facts[-1]["shared_bytes"] > 0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("@triton.jit\ndef k(x):\n    tl.store(x, undefined)\n", "undefined"),
        ("@triton.jit\ndef other(x):\n    pass\n", "defines no kernel k"),
        ("@triton.jit\ndef k(x, y):\n    pass\n", "given no y"),
        ("def k(x):\n    pass\n", "defines no kernel k"),
        ("raise ValueError('why')\n", "ValueError: why"),
        ("this is no Python\n", "SyntaxError"),
        ("import os\nos._exit(3)\n", "the compiler of kernels ended"),
    ],
)
def test_what_does_not_compile_is_refused(source: str, message: str) -> None:
    kernel = kernel_of(source, BufferParameter("x", DType.F32, Access.WRITE))
    artifact = CppEmitter().emit(called(kernel))
    with pytest.raises(DiagnosticError, match=message) as caught:
        compile_triton_kernels(artifact.files, [Target("sm_90")])
    assert "WIR709" in str(caught.value)


def test_an_option_that_triton_lacks_is_refused() -> None:
    source = "@triton.jit\ndef k(x):\n    pass\n"
    parameter = BufferParameter("x", DType.F32, Access.WRITE)
    artifact = CppEmitter().emit(called(kernel_of(source, parameter, no_option=1)))
    with pytest.raises(DiagnosticError, match="no_option"):
        compile_triton_kernels(artifact.files, [Target("sm_90")])


def test_emitting_executes_nothing_of_a_kernel() -> None:
    source = "raise SystemExit\n"
    kernel = kernel_of(source, BufferParameter("x", DType.F32, Access.WRITE))
    assert "kernels/triton_k.py" in CppEmitter().emit(called(kernel)).files


# Targets


def test_targets_are_named_as_vendors_name_them() -> None:
    assert [t.name for t in DEFAULT_TARGETS] == ["sm_80", "sm_90", "sm_100", "gfx942"]
    assert [(t.backend, t.architecture, t.lanes) for t in DEFAULT_TARGETS] == [
        ("cuda", 80, 32),
        ("cuda", 90, 32),
        ("cuda", 100, 32),
        ("hip", "gfx942", 64),
    ]
    assert Target("gfx1100").lanes == 32
    assert set(targets_to_keep()) == {*DEFAULT_TARGETS, *present_targets()}
    with pytest.raises(ValueError, match="name"):
        Target("../x")


# What all calls share


@pytest.mark.parametrize(
    ("expr", "divisor"),
    [
        (48, 48),
        (0, 0),
        (Symbol("s") * 16, 16),
        (Symbol("s") * 16 + Symbol("t") * 24, 8),
        (Symbol("s") * 16 - 8, 8),
        ((Symbol("s") * 32) % 16, 16),
        (Symbol("s") // 2 * 4, 4),
        (Symbol("s"), 1),
    ],
)
def test_divisors_of_expressions(expr: Any, divisor: int) -> None:
    assert divisor_of(expr) == divisor


def test_facts_are_of_all_calls() -> None:
    add = library_kernel(KernelKind.ADD, Language.TRITON)
    b = ProgramBuilder()
    b.kernel(add)
    x = b.input(tensor("f32", (64,), device=GPU, alignment=16))
    y = b.input(VECTOR)
    room = b.allocate(tensor("f32", (128,), device=GPU))
    first = b.reinterpret(room, VECTOR)
    second = b.reinterpret(room, tensor("f32", (64,), offset=64, device=GPU))
    odd = b.reinterpret(room, tensor("f32", (64,), offset=1, device=GPU))
    b.call(add, x, y, first, 64, device=GPU)
    b.call(add, x, x, second, 32, device=GPU)
    (facts,) = survey_arguments(ProgramFacts(b.build())).values()
    assert [fact.divisor for fact in facts] == [16, 1, 64, 32]
    assert facts[3].value is None
    b.call(add, x, x, odd, 32, device=GPU)
    (facts,) = survey_arguments(ProgramFacts(b.build())).values()
    assert facts[2].divisor == 4
    assert ArgumentFacts(8, 8).joined(ArgumentFacts(8, 8)).value == 8


def test_parameters_of_blocks_have_the_facts_of_their_operands() -> None:
    add = library_kernel(KernelKind.ADD, Language.TRITON)
    b = ProgramBuilder()
    b.kernel(add)
    x = b.input(tensor("f32", (64,), device=GPU, alignment=16))
    y = b.input(VECTOR)
    room = b.allocate(tensor("f32", (128,), device=GPU))
    out = b.reinterpret(room, VECTOR)

    def body(
        block: BlockBuilder, p: NamedValue, q: NamedValue, r: NamedValue
    ) -> list[NamedValue]:
        block.call(add, p, q, r, 64, device=GPU)
        return []

    b.graph_region("region", [x, y, out], body, results=[], device=GPU)
    program = b.build()
    (facts,) = survey_arguments(ProgramFacts(program)).values()
    assert [fact.divisor for fact in facts] == [16, 1, 64, 64]


def test_what_is_known_of_arguments_is_compiled_in() -> None:
    program = called(library_kernel(KernelKind.ADD, Language.TRITON), 64)
    facts = facts_of(program, "triton_add")
    assert facts["signature"] == [
        *(["in_ptr0", "*fp32"], ["in_ptr1", "*fp32"], ["out_ptr0", "*fp32"]),
        ["xnumel", "i32"],
    ]
    assert facts["values"] == {"XBLOCK": 16, "num_warps": 1}
    assert facts["aligned"] == [3]
    assert facts["checked"] == [0, 1, 2]


# Arguments


def test_numbers_are_of_the_declared_types() -> None:
    names = {
        DType.I8: "int8_t{3}",
        DType.I32: "int32_t{3}",
        DType.I64: "int64_t{3}",
        DType.U16: "uint16_t{3}",
        DType.F32: "float(0x1.8000000000000p+1)",
        DType.F64: "double(0x1.8000000000000p+1)",
        DType.F16: "half_bits(0x1.8000000000000p+1)",
        DType.BF16: "bfloat16_bits(0x1.8000000000000p+1)",
        DType.BOOL: "int8_t(true)",
    }
    parameters = [ScalarParameter(f"n{i}", dtype) for i, dtype in enumerate(names)]
    kernel = kernel_of("", *parameters)
    text = str(CppEmitter().emit(called(kernel, *[3] * len(names))).files["program.cpp"])
    assert f"launch(0, triton_k, *c.cuda_0, 0, {{1}}, {', '.join(names.values())});" in text


def test_a_number_that_the_kernel_takes_as_constant_is_compiled_in() -> None:
    source = "@triton.jit\ndef k(x, n: tl.constexpr):\n    tl.store(x, n)\n"
    parameters = (
        BufferParameter("x", DType.F32, Access.WRITE),
        ScalarParameter("n", DType.I32),
    )
    kernel = kernel_of(source, *parameters)
    facts = facts_of(called(kernel, 7), "triton_k")
    assert facts["values"] == {"n": 7}
    assert facts["signature"] == [["x", "*fp32"]]
    b = ProgramBuilder()
    x = b.input(VECTOR, mutated=True)
    b.kernel(kernel)
    for number in (1, 2):
        b.call(kernel, x, number, device=GPU)
    with pytest.raises(DiagnosticError, match="n is a constant of k"):
        CppEmitter().emit(b.build())
