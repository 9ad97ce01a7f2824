"""Launches of Triton kernels, as a driver that is made up sees them."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.cpp_emitter.gpu_requests import CURRENT, FakeGpu
from tests.cpp_emitter.moved import on_gpu
from tests.draws import draws
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
    SizeOf,
    Symbol,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing import CASES, Case, programs
from wrapperir.testing.conformance_cases import DESCRIPTOR_CASES
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter

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


@pytest.mark.parametrize(
    "case",
    # Its processes have no process groups.
    [case for case in CASES if not has_cpp(case) and not case.program.groups],
    ids=lambda case: case.name,
)
def test_conformance_with_a_driver_that_is_made_up(case: Case, fake_gpu: FakeGpu) -> None:
    # A recording belongs to a stream, and operators do not wait for their replay here.
    calls = [(seed, CURRENT + 16 * index) for index, seed in enumerate(case.seeds)]
    answer = fake_gpu.ask(case.program, calls=calls)
    assert ("error" in answer) == case.faults, answer


@settings(
    max_examples=draws(8, fuzz=20),
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
            assert "the address of a tensor descriptor is not a multiple" in answer["error"]
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
    assert "tall has 196605 programs along y, and at most 65535" in answer["error"]
