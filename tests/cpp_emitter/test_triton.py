"""Triton kernels in C++: compiled without a GPU, and launched as Triton launches them."""

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings

from tests.cpp_emitter.gpu_requests import CURRENT, FakeGpu, fake_gpu
from tests.cpp_emitter.moved import GPU, on_gpu
from wrapperir.diagnostics import DiagnosticError
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.ir.expr import Symbol
from wrapperir.ir.kernel import (
    Access,
    BufferParameter,
    ConstexprParameter,
    KernelConfig,
    Language,
    ScalarParameter,
)
from wrapperir.ir.line import KernelDefinitionLine, SizeOf
from wrapperir.ir.program import Program
from wrapperir.ir.types import DType, tensor
from wrapperir.testing import CASES, Case, programs
from wrapperir.testing.conformance_kernels import DESCRIPTOR_CASES
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.kernel_arguments import ArgumentFacts, divisor_of, survey_arguments
from wrapperir_cpp.targets import (
    DEFAULT_TARGETS,
    Target,
    parse_targets,
    present_targets,
    targets_to_keep,
)
from wrapperir_cpp.triton_build import RECORD, TABLE, compile_triton_kernels

__all__ = ["fake_gpu"]

VECTOR = tensor("f32", (64,), device=GPU)
ON_GPU = [case for case in CASES if case.name.endswith("_triton")]


def has_cpp(case: Case) -> bool:
    return any(
        isinstance(line, KernelDefinitionLine) and line.language is Language.CPP
        for line in case.program.definitions
    )


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


@pytest.mark.parametrize("kind", KernelKind)
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
    built = compile_triton_kernels(artifact.files, parse_targets(["sm_80", "gfx942"]))
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
    built = compile_triton_kernels(artifact.files, parse_targets(["sm_80", "sm_90"]))
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
    with pytest.raises(DiagnosticError, match="WIR709"):
        parse_targets(["sm_90", "../x"])


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
    (facts,) = survey_arguments(b.build()).values()
    assert [fact.divisor for fact in facts] == [16, 1, 64, 32]
    assert facts[3].value is None
    b.call(add, x, x, odd, 32, device=GPU)
    (facts,) = survey_arguments(b.build()).values()
    assert facts[2].divisor == 4
    assert ArgumentFacts(8, 8).joined(ArgumentFacts(8, 8)).value == 8


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


# Launches


@pytest.mark.parametrize(
    "case", [case for case in CASES if not has_cpp(case)], ids=lambda case: case.name
)
def test_conformance_with_a_driver_that_is_made_up(case: Case, fake_gpu: FakeGpu) -> None:
    answer = fake_gpu.ask(case.program, calls=[(seed, CURRENT) for seed in case.seeds])
    assert ("error" in answer) == case.faults, answer


@settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(programs(languages=(Language.TRITON,)))
def test_generated_programs(fake_gpu: FakeGpu, program: Program) -> None:
    assert verify(on_gpu(program)) == ()
    answer = fake_gpu.ask(program, calls=((0, CURRENT), (1, 0x1230)))
    assert "error" not in answer, answer


@pytest.mark.parametrize("capability", [80, 90])
def test_tensor_descriptors(fake_gpu: FakeGpu, capability: int) -> None:
    target = f"sm_{capability}"
    for case in DESCRIPTOR_CASES:
        calls = [(seed, CURRENT) for seed in case.seeds]
        answer = fake_gpu.ask(
            case.program, calls=calls, targets=[target], capability=capability
        )
        if case.faults:
            assert "the address of a tensor descriptor is no multiple" in answer["error"]
            continue
        assert "error" not in answer, answer
        log = answer["logs"][0].splitlines()
        assert not [line for line in log if "wrong" in line]
        encoded = [line for line in log if line.startswith("encode")]
        wanted = (
            "encode type 7 rank 2 block 4 4 steps 1 1 "
            "interleave 0 swizzle 0 promotion 2 fill 0"
        )
        assert encoded == ([wanted] * 6 if capability == 90 else [])


NUMBERS: dict[DType, int | float] = {
    DType.I8: -3,
    DType.I16: -300,
    DType.I32: -70_000,
    DType.I64: 2**40 + 1,
    DType.U8: 250,
    DType.U16: 65_000,
    DType.U32: 2**32 - 2,
    DType.U64: 2**62 + 3,
    DType.F16: 1.0009765625,
    DType.BF16: 3.14159,
    DType.F32: 2.7182818,
    DType.F64: 1e-300,
    DType.BOOL: 1,
}


@pytest.mark.parametrize(
    ("options", "attributes"),
    [
        ({}, 0),
        ({"num_ctas": 2}, 2),
        ({"launch_cooperative_grid": True, "launch_pdl": True}, 2),
    ],
)
def test_arguments_are_passed_as_triton_passes_them(
    fake_gpu: FakeGpu, options: Mapping[str, int], attributes: int
) -> None:
    names = [f"n{index}" for index in range(len(NUMBERS))]
    source = f"""\
@triton.jit
def k(x, {", ".join(names)}, y, C: tl.constexpr):
    i = tl.arange(0, 64)
    tl.store(y + i, tl.load(x + i) + C)
"""
    kernel = kernel_of(
        source,
        BufferParameter("x", DType.F32, Access.READ),
        *(ScalarParameter(name, dtype) for name, dtype in zip(names, NUMBERS, strict=True)),
        BufferParameter("y", DType.F32, Access.WRITE),
        ConstexprParameter("C"),
        C=7,
        num_warps=2,
        **options,
    )
    b = ProgramBuilder()
    b.kernel(kernel)
    x, y = b.input(tensor("f32", (64,))), b.input(tensor("f32", (64,)), mutated=True)
    b.call(kernel, x, *NUMBERS.values(), y)
    answer = fake_gpu.ask(b.build(), beside_triton=True)
    assert "error" not in answer, answer
    ours, theirs = (
        [
            line
            for line in log.splitlines()
            if line.startswith(("launch", "parameters", "attribute"))
        ]
        for log in answer["logs"]
    )
    assert ours == theirs
    assert len(ours) == 2 + attributes


def test_a_kernel_is_loaded_once(fake_gpu: FakeGpu) -> None:
    program = next(case.program for case in ON_GPU if case.name == "workspaces_triton")
    first, second = fake_gpu.logs(program)
    assert first.count("module ELF") == 2
    assert not [line for line in second if line.startswith("module")]


def test_misaligned_arguments_take_the_other_variant(fake_gpu: FakeGpu) -> None:
    program = next(
        case.program for case in ON_GPU if case.name == "multi_kernel_first_triton"
    )
    text = str(CppEmitter().emit(on_gpu(program)).files["kernels/triton_add.triton.json"])
    assert '"checked": [0, 1]' in text
    calls = [(seed, CURRENT) for seed in range(4)]
    logs = fake_gpu.logs(program, calls=calls, misaligned=[1, 3])
    assert [log.count("module ELF") for log in logs] == [1, 1, 0, 0]


def test_the_code_of_the_nearest_capability_is_taken(fake_gpu: FakeGpu) -> None:
    program = next(
        case.program for case in ON_GPU if case.name == "multi_kernel_first_triton"
    )
    targets = ["sm_80", "sm_90"]
    for capability in (86, 90):
        answer = fake_gpu.ask(program, targets=targets, capability=capability)
        assert "error" not in answer, answer
    for capability in (75, 120):
        answer = fake_gpu.ask(program, targets=targets, capability=capability)
        assert "is not compiled for compute capability" in answer["error"]
        assert "it is for 8.0, 9.0" in answer["error"]


def test_sizes_of_the_run_give_the_grid(fake_gpu: FakeGpu) -> None:
    rows = Symbol("s0")
    b = ProgramBuilder()
    x = b.input(tensor("f32", (rows, 5)))
    b.symbol("s0", SizeOf(x.name, 0), lower=0, upper=40)
    add = b.kernel(library_kernel(KernelKind.ADD, Language.TRITON))
    out = b.allocate(tensor("f32", (rows, 5)))
    b.call(add, x, x, out, rows * 5)
    program = b.build(out)
    seen: set[str] = set()
    for log in fake_gpu.logs(program, calls=[(seed, CURRENT) for seed in range(8)]):
        seen.update(line for line in log if line.startswith("launch"))
    assert len(seen) > 1


def test_a_grid_of_no_programs_launches_nothing(fake_gpu: FakeGpu) -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (0, 5)))
    add = b.kernel(library_kernel(KernelKind.ADD, Language.TRITON))
    out = b.allocate(tensor("f32", (0, 5)))
    b.call(add, x, x, out, 0)
    for log in fake_gpu.logs(b.build(out)):
        assert not [line for line in log if line.startswith(("launch", "module"))]


def test_a_grid_that_is_too_large_is_refused(fake_gpu: FakeGpu) -> None:
    kernel = KernelDefinitionLine(
        name="tall",
        language=Language.TRITON,
        parameters=(ScalarParameter("n", DType.I64),),
        grid=(1, Symbol("n")),
        entry="tall",
        source="import triton\n\n\n@triton.jit\ndef tall(n):\n    pass\n",
    )
    b = ProgramBuilder()
    x = b.input(tensor("f32", (Symbol("s0"),)))
    b.symbol("s0", SizeOf(x.name, 0), lower=3, upper=3)
    b.kernel(kernel)
    b.call(kernel, Symbol("s0") * 65535)
    answer = fake_gpu.ask(b.build())
    assert "tall has 196605 programs along y, more than the 65535" in answer["error"]


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
