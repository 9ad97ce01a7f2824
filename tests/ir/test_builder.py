"""The builder: what it appends, and the names it gives."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from wrapperir.ir import (
    Access,
    BufferParameter,
    BufferRef,
    ConditionalLine,
    DType,
    ExternKernelLine,
    KernelDefinitionLine,
    Language,
    Provenance,
    ScalarParameter,
    SizeOf,
    Symbol,
    WhileLoopLine,
    ZeroMode,
    contiguous_stride,
    storage_extent,
    tensor,
)
from wrapperir.ir.builder import BlockBuilder, NamedValue, ProgramBuilder
from wrapperir.text import format_program
from wrapperir.verify import verify

ROW = tensor("f32", (8, 64))


def test_names_are_fresh_beside_given_ones() -> None:
    b = ProgramBuilder()
    b.input(ROW, name="buf0")
    assert [b.allocate(ROW).name for _ in range(3)] == ["buf1", "buf2", "buf3"]


def test_a_built_program_verifies() -> None:
    b = ProgramBuilder("scaled")
    x = b.input(tensor("f32", (Symbol("s0"), 64)), name="x")
    rows = b.symbol("s0", SizeOf("x", 0), lower=2)
    weight = b.constant(tensor("f32", (64, 64)), "fc.weight")
    y = b.allocate(tensor("f32", (rows, 64)))
    b.extern_out("aten.mm.out", x, weight, out=y)
    view = b.reinterpret(y, tensor("f32", (rows * 64,)))
    b.assert_size_stride(view, (rows * 64,), (1,)).assert_not_nan(view)
    b.free(view, x)
    program = b.build(y, rows)
    assert verify(program) == ()
    assert program.outputs == (BufferRef(y.name), rows)


def test_an_out_argument_is_a_write() -> None:
    b = ProgramBuilder()
    x = b.input(ROW)
    y = b.allocate(ROW)
    b.extern_out("aten.relu.out", x, out=y)
    line = b.build(y).lines[-1]
    assert isinstance(line, ExternKernelLine)
    assert line.writes == (y.name,)
    assert line.keywords == (("out", BufferRef(y.name)),)


def test_provenance_holds_until_changed() -> None:
    b = ProgramBuilder()
    relu = Provenance(origins=("relu",))
    b.at(relu).comment("first").comment("second").at(None).comment("third")
    assert [line.provenance for line in b.build().lines] == [relu, relu, None]


def test_blocks_get_a_parameter_for_each_operand() -> None:
    flag = tensor("bool", ())
    b = ProgramBuilder()
    x, p = b.input(ROW, name="x"), b.input(flag, name="p")

    def relu(block: BlockBuilder, v: NamedValue) -> NamedValue:
        return block.extern("aten.relu.default", v, type=ROW)

    def neg(block: BlockBuilder, v: NamedValue) -> list[NamedValue]:
        return [block.extern("aten.neg.default", v, type=ROW)]

    (y,) = b.conditional(p, [x], relu, neg, results=[ROW])

    def is_small(block: BlockBuilder, v: NamedValue) -> NamedValue:
        mean = block.extern("aten.sum.default", v, type=tensor("f32", ()))
        small = block.extern("aten.lt.Scalar", mean, 100.0, type=flag)
        block.free(mean)
        return small

    (z,) = b.while_loop([y], is_small, relu)
    b.free(y)
    program = b.build(z)
    conditional, loop = program.lines[0], program.lines[1]
    assert isinstance(conditional, ConditionalLine)
    assert isinstance(loop, WhileLoopLine)
    for block in (conditional.on_true, conditional.on_false, loop.condition, loop.body):
        assert [parameter.type for parameter in block.parameters] == [ROW]
    assert verify(program) == ()


def test_a_multi_kernel_takes_the_runtime_parameters_of_its_kernels() -> None:
    parameters = (
        BufferParameter("x", DType.F32, Access.READ),
        BufferParameter("y", DType.F32, Access.WRITE),
        ScalarParameter("n", DType.I64),
    )
    kernels = [
        KernelDefinitionLine(
            name=name,
            language=Language.CPP,
            parameters=parameters,
            entry="kernel",
            source="",
        )
        for name in ("looped", "persistent")
    ]
    b = ProgramBuilder()
    for kernel in kernels:
        b.kernel(kernel)
    multi = b.multi_kernel(kernels)
    x = b.input(ROW)
    y = b.allocate(ROW)
    b.call(multi, x, y, 512)
    assert multi.parameters == parameters
    assert [choice.arguments for choice in multi.choices] == [(0, 1, 2), (0, 1, 2)]
    assert verify(b.build(y)) == ()


def test_workspaces_keep_their_zero_mode() -> None:
    b = ProgramBuilder()
    b.allocate(tensor("u8", (64,)), workspace=ZeroMode.ZERO_PER_PROGRAM)
    assert verify(b.build()) == ()


def test_row_major_strides_and_extents() -> None:
    assert contiguous_stride((2, 3, 4)) == (12, 4, 1)
    assert contiguous_stride(()) == ()
    s0 = Symbol("s0")
    assert contiguous_stride((4, s0, 2)) == (s0 * 2, 2, 1)
    assert storage_extent(tensor("f32", (2, 3))) == 6
    assert storage_extent(tensor("f32", (2, 3), (1, 10))) == 22
    assert storage_extent(tensor("f32", (0, 3))) == 0
    assert storage_extent(tensor("f32", ())) == 1


class AddTensor:
    """An overload of an operator, as PyTorch has them."""

    def __init__(self, qualified: str) -> None:
        self._qualified = qualified

    @property
    def namespace(self) -> str:
        return self._qualified.partition("::")[0]

    def name(self) -> str:
        return self._qualified


def test_operators_are_named_or_given() -> None:
    b = ProgramBuilder()
    x = b.input(ROW)
    relu: Any = torch.ops.aten.relu.default
    y = b.extern(relu, x, type=ROW)
    b.extern_out(torch.ops.aten.add_.Tensor, y, x, writes=[y])
    z = b.extern(AddTensor("acme::fused.out"), y, type=ROW)
    operators = [
        line.operator for line in b.build(z).lines if isinstance(line, ExternKernelLine)
    ]
    assert operators == ["aten.relu.default", "aten.add_.Tensor", "acme.fused.out"]


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        (torch.ops.aten.relu, "aten.relu has several overloads; give one: default, out"),
        (torch.relu, "such as torch.ops.aten.relu.default, not <built-in method relu"),
        (3, "an operator is a name, such as 'aten.relu.default'"),
    ],
)
def test_what_is_no_operator_is_refused(operator: Any, said: str) -> None:
    b = ProgramBuilder()
    with pytest.raises(TypeError, match=re.escape(said)):
        b.extern(operator, b.input(ROW), type=ROW)


def test_an_operator_with_one_overload_needs_no_name_of_it() -> None:
    class Packet:
        def overloads(self) -> list[str]:
            return ["default"]

        def __str__(self) -> str:
            return "acme.only"

    b = ProgramBuilder()
    operator: Any = Packet()
    (line,) = b.build(b.extern(operator, b.input(ROW), type=ROW)).lines
    assert isinstance(line, ExternKernelLine)
    assert line.operator == "acme.only.default"


def test_a_name_in_place_of_a_value_is_refused() -> None:
    b = ProgramBuilder()
    x: Any = b.input(ROW, name="x").name
    calls: list[Callable[[], object]] = [
        lambda: b.free(x),
        lambda: b.reuse(x, ROW),
        lambda: b.reinterpret(x, ROW),
        lambda: b.assert_not_nan(x),
        lambda: b.multi_output(x, 0, type=ROW),
        lambda: b.wait_event(x),
        lambda: b.extern("aten.relu_.default", type=ROW, writes=[x]),
        lambda: b.subgraph_call("f", [x], lambda block, arg: arg, results=[ROW]),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="that the builder returned is wanted, not 'x'"):
            call()
    assert b.build().lines == ()


def test_symbols_are_compared() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (Symbol("n"),)))
    n = b.symbol("n", SizeOf(x.name, 0), lower=1, upper=64)
    for condition in (n < 8, n >= 1, n * 2 > 1, n <= 65):
        b.assert_scalar(condition)
    program = b.build(x)
    assert verify(program) == ()
    lines = format_program(program).splitlines()
    assert [line.strip() for line in lines if "assert" in line] == [
        "assert_scalar n < 8",
        "assert_scalar n >= 1",
        "assert_scalar n * 2 > 1",
        "assert_scalar n <= 65",
    ]
    with pytest.raises(TypeError, match="which Python cannot test; give it to assert_sc"):
        b.assert_scalar(0 < n < 8)
