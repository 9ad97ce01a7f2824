"""Tensor descriptors: the verifier refuses what Triton refuses, where types say it."""

from typing import TypeVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.runtime import interpreter
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.draws import draws
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.interp import interpret
from wrapperir.ir import (
    Access,
    DescriptorParameter,
    DType,
    Expr,
    KernelDefinitionLine,
    Language,
    PoolType,
    Program,
    SizeOf,
    Symbol,
    TensorType,
    ZeroMode,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.text import parse_program
from wrapperir.verify import verify

T = TypeVar("T")

DTYPES = (DType.F64, DType.F32, DType.F16, DType.I8, DType.U16)
UNKNOWN_TO_TRITON = (DType.C64, DType.F8E8M0FNU)


def reading(dtype: DType, block: tuple[int, ...]) -> KernelDefinitionLine:
    """Return a kernel that takes a descriptor and does nothing."""
    return KernelDefinitionLine(
        name="read",
        language=Language.TRITON,
        parameters=(DescriptorParameter("x", dtype, block, Access.READ),),
        grid=(1,),
        entry="read",
        source="import triton\n\n\n@triton.jit\ndef read(x):\n    pass\n",
    )


def program_of(type: TensorType, whole: TensorType, block: tuple[int, ...]) -> Program:
    """Return a program that gives a kernel the view ``type`` of what it allocates."""
    b = ProgramBuilder()
    kernel = b.kernel(reading(type.dtype, block))
    memory = b.allocate(whole, workspace=ZeroMode.ZERO_ON_CALL)
    view = b.reinterpret(memory, type)
    return b.call(kernel, view).free(view, memory).build()


def codes(program: Program) -> list[Code]:
    return [found.code for found in verify(program)]


def run_codes(program: Program, *inputs: object) -> list[Code]:
    """Return the codes of the fault that a run ends in, if it does."""
    try:
        interpret(program, list(inputs), {})  # type: ignore[arg-type]
    except DiagnosticError as error:
        return [found.code for found in error.diagnostics]
    return []


def triton_takes(type: TensorType, size: int, block: tuple[int, ...]) -> bool:
    """Say whether Triton makes a descriptor of a view of ``size`` aligned elements."""
    memory = torch.zeros(size, dtype=torch_dtype(type.dtype))
    assert memory.data_ptr() % 64 == 0
    view = memory.as_strided(type.size, type.stride, type.offset)  # type: ignore[arg-type]
    try:
        interpreter._implicit_cvt(TensorDescriptor.from_tensor(view, list(block)))
    except (AssertionError, ValueError, KeyError, IndexError):
        return False
    return True


@st.composite
def views(draw: st.DrawFn) -> tuple[TensorType, int, tuple[int, ...]]:
    """Draw a view, the elements of what it is of, and a block; most parts are sound."""

    def mostly(sound: list[T], others: list[T]) -> T:
        return draw(st.sampled_from(sound * 9 * len(others) + others * len(sound)))

    rank = mostly([2, 1, 3], [0, 6])
    dtype = mostly(list(DTYPES), list(UNKNOWN_TO_TRITON))
    size = tuple(mostly([1, 2, 3, 4], [0]) for _ in range(rank))
    stride = [mostly([16, 32], [8, 4, 0, 1, 3]) for _ in range(rank)]
    stride[-1:] = [mostly([1], [2, 16])] * bool(rank)
    of = rank + mostly([0], [-1, 1])
    block = [mostly([1, 2, 4, 16], [0, -4, 3]) for _ in range(of)]
    block[-1:] = [mostly([16], [4, 2, 1 << 20])] * bool(block)
    offset = mostly([0, 16], [8, 4, 1])
    return tensor(dtype, size, tuple(stride), offset=offset), 800, tuple(block)


@settings(max_examples=draws(200, fuzz=400))
@given(views())
def test_what_triton_refuses_is_refused_and_nothing_else(
    drawn: tuple[TensorType, int, tuple[int, ...]],
) -> None:
    type, size, block = drawn
    whole = tensor(type.dtype, (size,))
    program = program_of(type, whole, block)
    found = codes(program)
    assert set(found) <= {Code.INVALID_DESCRIPTOR, Code.DESCRIPTOR_ARGUMENT}
    # It has no rule of its own against blocks of no elements, whose loads it refuses.
    refused = min((1, *block)) < 1 or not triton_takes(type, size, block)
    assert bool(found) is refused
    if type.dtype not in UNKNOWN_TO_TRITON:
        assert run_codes(program) == ([Code.RUN_KERNEL_ARGUMENTS] if found else [])


@pytest.mark.parametrize("language", [Language.CPP, Language.OPAQUE])
def test_only_triton_kernels_take_them(language: Language) -> None:
    text = f"""
    wrapperir 1
    kernel_definition @k {language.value}(x: read descriptor f32[4, 4]) {{
      entry = k
      source {{
        | extern "C" void k(const float* x) {{}}
      }}
    }}
    program @main(%x: f32[4, 4]) {{
      kernel_call @k(%x)
      return
    }}
    """
    program = parse_program(text)
    assert codes(program) == [Code.INVALID_DESCRIPTOR]
    assert run_codes(program, torch.ones(4, 4)) == [Code.RUN_KERNEL_ARGUMENTS]


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ("descriptor f32[4, 4]", []),
        ("descriptor f32[4, 8]", [Code.CHOICE_MISMATCH]),
        ("f32*", [Code.CHOICE_MISMATCH]),
    ],
)
def test_the_choices_of_a_multi_kernel_take_it_as_that_does(
    own: str, found: list[Code]
) -> None:
    program = parse_program(f"""
    wrapperir 1
    kernel_definition @k triton(x: read descriptor f32[4, 4]) {{
      grid = (1)
      entry = k
      source {{
        | pass
      }}
    }}
    multi_kernel @any(x: read {own}) {{
      choice @k(0)
      select first
    }}
    program @main(%x: f32[4, 8]) {{
      kernel_call @any(%x)
      return
    }}
    """)
    assert codes(program) == found


def placed(alignment: int, offset: Expr, *, in_view: int = 0) -> Program:
    """Return a program that gives a kernel what is placed at ``offset`` of a pool."""
    b = ProgramBuilder()
    x = b.input(tensor("f32", (Symbol("s0"), 4)))
    b.symbol("s0", SizeOf(x.name, 0), lower=1, upper=8)
    kernel = b.kernel(reading(DType.F32, (4, 4)))
    pool = b.allocate_pool(PoolType(size=1024, alignment=alignment))
    zeroed = ZeroMode.ZERO_ON_CALL
    buffer = b.place(pool, offset, tensor("f32", (80,)), workspace=zeroed)
    view = b.reinterpret(buffer, tensor("f32", (4, 4), offset=in_view))
    b.call(kernel, view)
    return b.free(view, buffer, pool, x).build()


@pytest.mark.parametrize(
    ("alignment", "offset", "in_view", "is_refused"),
    [
        (64, 0, 0, False),
        (64, 48, 0, False),
        (16, 48, 8, False),
        (64, 8, 0, True),
        (64, 8, 2, True),  # its place does not give it the alignment, though bytes do
        (8, 16, 0, True),
        (64, 16, 1, True),
    ],
)
def test_a_place_in_a_pool_gives_the_alignment(
    alignment: int, offset: int, in_view: int, is_refused: bool
) -> None:
    program = placed(alignment, offset, in_view=in_view)
    assert codes(program) == [Code.DESCRIPTOR_ARGUMENT] * is_refused
    expected = [Code.RUN_KERNEL_ARGUMENTS] * is_refused
    assert run_codes(program, torch.ones(2, 4)) == expected


@pytest.mark.parametrize(("rows", "faults"), [(2, False), (3, True)])
def test_what_only_a_run_can_tell_is_a_fault_there(rows: int, faults: bool) -> None:
    program = placed(64, Symbol("s0") * 8)
    assert codes(program) == []
    expected = [Code.RUN_KERNEL_ARGUMENTS] * faults
    assert run_codes(program, torch.ones(rows, 4)) == expected


def test_sizes_and_strides_of_symbols_are_left_to_runs() -> None:
    columns = Symbol("s0")
    b = ProgramBuilder()
    x = b.input(tensor("f32", (4, columns)))
    b.symbol("s0", SizeOf(x.name, 1), lower=0)
    kernel = b.kernel(reading(DType.F32, (4, 4)))
    program = b.call(kernel, x).build()
    assert codes(program) == []
    for extent, faults in ((8, False), (7, True), (0, True)):
        found = run_codes(program, torch.ones(4, extent))
        assert found == [Code.RUN_KERNEL_ARGUMENTS] * faults


def test_an_input_may_begin_anywhere() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (4, 8)))
    kernel = b.kernel(reading(DType.F32, (4, 4)))
    program = b.call(kernel, x).build()
    assert codes(program) == []
    memory = torch.ones(40)
    assert run_codes(program, memory[:32].view(4, 8)) == []
    assert run_codes(program, memory[1:33].view(4, 8)) == [Code.RUN_KERNEL_ARGUMENTS]


def test_a_call_of_a_kernel_that_was_refused_is_not_refused_again() -> None:
    found: tuple[Diagnostic, ...] = verify(
        program_of(tensor("f32", (4, 5)), tensor("f32", (20,)), (3, 4))
    )
    assert [d.code for d in found] == [Code.INVALID_DESCRIPTOR]
    assert found[0].path == ("definitions", 0)


def test_the_guilty_call_and_its_argument_are_named() -> None:
    b = ProgramBuilder()
    kernel = b.kernel(reading(DType.F32, (4, 4)))
    x = b.input(tensor("f32", (4, 8)))
    narrow = b.reinterpret(x, tensor("f32", (4, 3), (3, 1)))
    (found,) = verify(b.call(kernel, x).call(kernel, narrow).free(narrow).build())
    assert (found.code, found.path) == (Code.DESCRIPTOR_ARGUMENT, ("lines", 2))
    assert found.subject == f"%{narrow.name}"
