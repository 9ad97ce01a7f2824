"""Allocations, frees, reuses and views, as Inductor plans them."""

import torch
from torch._inductor import config

from tests.frontend_inductor.captured import capture_all, capture_one, lines_of
from wrapperir.ir import (
    AllocateLine,
    BufferRef,
    DType,
    ExternKernelLine,
    FreeLine,
    KernelCallLine,
    ReinterpretLine,
    ReuseLine,
    TensorType,
)


def test_a_matmul_is_allocated_for_and_its_memory_reused() -> None:
    program = capture_one(
        lambda x, w: torch.relu(x @ w) + 1, torch.randn(4, 8), torch.randn(8, 16)
    )
    (allocate,) = lines_of(program, AllocateLine)
    (matmul,) = lines_of(program, ExternKernelLine)
    (reuse,) = lines_of(program, ReuseLine)
    assert (allocate.type.size, allocate.type.dtype) == ((4, 16), DType.F32)
    assert matmul.operator == "aten.mm.out"
    assert matmul.writes == (allocate.result,)
    assert reuse.source == allocate.result
    assert program.outputs == (BufferRef(reuse.result),)


def test_inputs_are_freed_after_their_last_use() -> None:
    program = capture_one(lambda x: (x @ x).relu() @ x, torch.randn(4, 4))
    (free,) = [line for line in lines_of(program, FreeLine) if line.buffer == "x"]
    last = program.lines.index(lines_of(program, ExternKernelLine)[-1])
    assert program.lines.index(free) > last


def test_a_transposed_operand_is_a_view_freed_after_the_call() -> None:
    program = capture_one(lambda x, w: x @ w.t(), torch.randn(4, 8), torch.randn(3, 8))
    (view,) = lines_of(program, ReinterpretLine)
    (matmul,) = lines_of(program, ExternKernelLine)
    assert (view.type.size, view.type.stride) == ((8, 3), (1, 8))
    assert BufferRef(view.result) in matmul.arguments
    assert FreeLine(buffer=view.result) in program.lines


def test_parts_of_a_concatenation_are_views_of_it() -> None:
    def join(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x @ x, y @ y])

    program = capture_one(join, torch.randn(4, 4), torch.randn(4, 4))
    first, second = lines_of(program, ReinterpretLine)
    (allocate,) = lines_of(program, AllocateLine)
    assert {first.source, second.source} == {allocate.result}
    assert sorted([first.type.offset, second.type.offset], key=str) == [0, 16]


def test_a_buffer_returned_twice_is_a_view_the_second_time() -> None:
    def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x @ x
        return y, y.t()

    program = capture_one(twice, torch.randn(4, 4))
    names = [output.name for output in program.outputs if isinstance(output, BufferRef)]
    assert len(set(names)) == len(names) == len(program.outputs)


def test_a_view_of_a_view_counts_its_offset_from_the_storage() -> None:
    def slices(x: torch.Tensor) -> torch.Tensor:
        return (x @ x)[1:, 1:] @ x[1:, 1:]

    program = capture_one(slices, torch.randn(4, 4))
    assert [line.type.offset for line in lines_of(program, ReinterpretLine)] == [5, 5]


def test_padded_memory_keeps_its_room() -> None:
    with config.patch(pad_dynamic_shapes=False, comprehensive_padding=True):
        program = capture_one(lambda x: x.t().contiguous() + 1, torch.randn(8, 8))
    assert all(
        isinstance(line.type, TensorType) for line in lines_of(program, AllocateLine)
    )


def test_a_mutated_input_is_declared() -> None:
    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x.sum()

    program = capture_one(change, torch.randn(4), torch.randn(4))
    assert [given.mutated for given in program.inputs] == [True, False]


def test_memory_of_a_forward_is_written_in_place_by_its_backward() -> None:
    weight = torch.randn(64, 64, requires_grad=True)

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.tanh(x @ weight) @ weight).sum()

    forward, backward = capture_all(model, (torch.randn(64, 64),), training=True)
    assert len(forward.program.outputs) > 1
    assert lines_of(backward.program, KernelCallLine)
    inputs = {given.name: given.donated for given in backward.program.inputs}
    assert any(line.source in inputs for line in lines_of(backward.program, ReuseLine))
    for line in lines_of(backward.program, ReuseLine):
        assert inputs.get(line.source, True)
