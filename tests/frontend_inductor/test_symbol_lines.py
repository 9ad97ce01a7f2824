"""Sizes, items and checks."""

from typing import Any

import torch

from tests.frontend_inductor.captured import capture_all, capture_one, check, lines_of
from wrapperir.frontend.inductor import versions
from wrapperir.ir import (
    AssertScalarLine,
    AssertSizeStrideLine,
    BufferRef,
    DType,
    ExternKernelLine,
    ItemOf,
    KernelCallLine,
    ScalarType,
    SizeOf,
    Symbol,
    SymbolDefinitionLine,
    SymbolKind,
    TensorType,
    ValueOf,
)


def _dynamic(tensor: torch.Tensor, dim: int, **bounds: int) -> torch.Tensor:
    torch._dynamo.mark_dynamic(tensor, dim, **bounds)
    return tensor


def test_a_dynamic_size_is_a_symbol_with_its_range() -> None:
    x = _dynamic(torch.randn(6, 4), 0, min=2, max=100)
    program = capture_one(lambda x: torch.softmax(x * 2, -1) @ x.t(), x)
    (symbol,) = program.symbols
    number, tensor = program.inputs
    assert (symbol.lower, symbol.upper, symbol.kind) == (2, 100, SymbolKind.INT)
    assert number.type == ScalarType(DType.I64)
    assert symbol.source == ValueOf(number.name)
    assert isinstance(tensor.type, TensorType)
    assert tensor.type.size == (Symbol(symbol.symbol), 4)
    (call,) = lines_of(program, KernelCallLine)
    assert Symbol(symbol.symbol) in call.arguments


def test_a_size_that_is_no_input_is_read_from_the_tensor() -> None:
    weight = torch.randn(4, 4, requires_grad=True)
    x = _dynamic(torch.randn(6, 4), 0)
    programs = capture_all(lambda x: (x @ weight).tanh().sum(), (x,), training=True)
    sources = [s.source for p in programs for s in p.program.symbols]
    assert any(isinstance(source, SizeOf | ValueOf) for source in sources)


def test_inputs_are_checked_before_their_first_use() -> None:
    program = capture_one(
        lambda x, y: (x @ x).sin() * y, torch.randn(4, 4), torch.randn(4, 4)
    )
    first, second = lines_of(program, AssertSizeStrideLine)
    (matmul,) = lines_of(program, ExternKernelLine)
    assert matmul.arguments[0] == BufferRef(first.buffer)
    assert (first.size, first.stride, second.size) == ((4, 4), (4, 1), (4, 4))
    at = program.lines.index
    assert at(first) < at(matmul)
    assert (at(second) > at(matmul)) == versions.DEFERS_INPUT_CHECKS


def test_an_item_becomes_a_symbol_and_its_checks_lines() -> None:
    def head(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        size = n.item()
        check(size >= 0)
        check(size <= x.shape[0])
        return x[:size] * 2

    program = capture_one(head, torch.tensor(3), torch.randn(10))
    items = [
        line
        for line in lines_of(program, SymbolDefinitionLine)
        if isinstance(line.source, ItemOf)
    ]
    assert len(items) == 1
    assert lines_of(program, AssertScalarLine)


def test_a_boolean_item_is_nought_or_one() -> None:
    program = capture_one(
        lambda flag, x: x * flag.item(), torch.tensor(True), torch.randn(3)
    )
    (line,) = lines_of(program, SymbolDefinitionLine)
    assert (line.kind, line.lower, line.upper) == (SymbolKind.INT, 0, 1)


def test_a_float_item_is_a_float() -> None:
    with torch.library._scoped_library("wrapperir_test", "FRAGMENT") as library:
        library.define("scaled(Tensor x, Scalar factor) -> Tensor")
        library.impl("scaled", lambda x, factor: x * factor, "CPU")
        library.impl("scaled", lambda x, factor: torch.empty_like(x), "Meta")

        def scale(factor: torch.Tensor, x: torch.Tensor) -> Any:
            return torch.ops.wrapperir_test.scaled(x, factor.item())

        program = capture_one(scale, torch.tensor(2.5), torch.randn(3))
    (line,) = lines_of(program, SymbolDefinitionLine)
    (call,) = lines_of(program, ExternKernelLine)
    assert line.kind is SymbolKind.FLOAT
    assert call.arguments[1] == Symbol(line.symbol)


def test_a_size_that_only_the_operator_knows() -> None:
    program = capture_one(lambda x: x.nonzero() + 1, torch.tensor([0.0, 1.0, 2.0]))
    (call,) = lines_of(program, ExternKernelLine)
    (symbol,) = lines_of(program, SymbolDefinitionLine)
    assert symbol.source == SizeOf(call.result or "", 0)
    assert isinstance(call.type, TensorType)
    assert call.type.size == (Symbol(symbol.symbol), 1)


def test_sizes_within_several_results() -> None:
    def distinct(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, counts = torch.unique(x, return_counts=True)
        return values, counts

    program = capture_one(distinct, torch.tensor([1, 1, 2]))
    assert all(
        isinstance(line.source, SizeOf) for line in lines_of(program, SymbolDefinitionLine)
    )


def test_a_slice_with_unbacked_bounds_has_its_size_computed() -> None:
    def window(at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        start, end = at.tolist()
        return x[start:end] + 1

    program = capture_one(window, torch.tensor([2, 5]), torch.randn(10))
    assert len(lines_of(program, SymbolDefinitionLine)) >= 3
