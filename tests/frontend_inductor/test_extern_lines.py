"""Operator calls: names, structured arguments, results, effects."""

from typing import Any

import pytest
import torch

from tests.frontend_inductor.captured import capture_one, lines_of
from wrapperir.frontend.inductor import versions
from wrapperir.interp import interpret
from wrapperir.ir import (
    AllocateLine,
    AssertAlignmentLine,
    AssertSizeStrideLine,
    BufferRef,
    DType,
    ExternKernelLine,
    MultiOutputLine,
    OriginTable,
    TensorType,
    TorchEnum,
    TupleType,
)


def test_constants_of_a_call_are_typed() -> None:
    def convolve(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(x, w, padding=1, groups=1)

    program = capture_one(convolve, torch.randn(1, 2, 4, 4), torch.randn(3, 2, 3, 3))
    (call,) = lines_of(program, ExternKernelLine)
    assert call.operator == "aten.convolution.default"
    assert isinstance(call.type, TensorType)
    keywords = dict(call.keywords)
    assert keywords["padding"] == (1, 1)
    assert keywords["transposed"] is False
    assert keywords["bias"] is None


def test_several_results_are_a_tuple_and_named_one_by_one() -> None:
    program = capture_one(torch.linalg.svd, torch.randn(3, 3))
    (call,) = lines_of(program, ExternKernelLine)
    outputs = lines_of(program, MultiOutputLine)
    assert isinstance(call.type, TupleType)
    assert [(line.source, line.indices) for line in outputs] == [
        (call.result, (i,)) for i in range(3)
    ]
    assert [line.type for line in outputs] == list(call.type.elements)


def test_a_single_result_is_named_by_the_call_itself() -> None:
    program = capture_one(lambda x: torch.cumprod(x, 0).sort()[0], torch.randn(7))
    for call in lines_of(program, ExternKernelLine):
        if not isinstance(call.type, TupleType):
            assert call.result not in {m.source for m in lines_of(program, MultiOutputLine)}


def test_results_are_checked() -> None:
    program = capture_one(lambda x: torch.linalg.qr(x @ x), torch.randn(4, 4))
    sizes = {line.buffer for line in lines_of(program, AssertSizeStrideLine)}
    aligned = {line.buffer for line in lines_of(program, AssertAlignmentLine)}
    produced = {line.result for line in lines_of(program, MultiOutputLine)}
    assert aligned
    assert aligned <= produced
    assert aligned <= sizes


def test_an_accumulating_index_put_writes_its_first_argument() -> None:
    def put(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> Any:
        return torch.ops.aten.index_put(x, [None, i], v, True)

    given = (torch.randn(3, 5), torch.tensor([0, 2, 0]), torch.randn(3, 3))
    torch.use_deterministic_algorithms(True)  # else it is a kernel of Inductor's
    try:
        program = capture_one(put, *given)
    finally:
        torch.use_deterministic_algorithms(False)
    (call,) = lines_of(program, ExternKernelLine)
    assert call.operator == "aten.index_put_.default"
    assert call.arguments[0] == BufferRef(call.writes[0])
    assert isinstance(call.arguments[1], tuple)
    assert call.arguments[1][0] is None
    assert isinstance(call.arguments[1][1], BufferRef)
    assert call.arguments[3] is True


def test_a_scatter_reduction_is_called_with_its_keywords() -> None:
    def scatter(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(0, i, v, "prod", include_self=False)

    program = capture_one(
        scatter, torch.randn(3, 2), torch.tensor([[0, 2]]), torch.randn(1, 2)
    )
    (call,) = lines_of(program, ExternKernelLine)
    assert call.operator == "aten.scatter_reduce_.two"
    assert dict(call.keywords) == {"reduce": "prod", "include_self": False}
    assert len(call.writes) == 1


def test_a_complex_number_and_a_dtype_are_arguments() -> None:
    def ops(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.complex(x, x) * (1 + 2j)
        return torch.view_as_real(z), torch.fft.fft(x).real

    program = capture_one(ops, torch.randn(4))
    types = [
        line.type
        for line in lines_of(program, ExternKernelLine)
        if isinstance(line.type, TensorType)
    ]
    assert DType.C64 in {type.dtype for type in types}


def test_enumerations_of_torch_are_named() -> None:
    def noise(x: torch.Tensor) -> Any:
        return torch.ops.aten.empty_like.default(x, layout=torch.strided).fill_(0) + x

    program = capture_one(noise, torch.randn(4))
    given = [v for c in lines_of(program, ExternKernelLine) for _, v in c.keywords]
    assert all(
        v == TorchEnum("layout", "strided") for v in given if isinstance(v, TorchEnum)
    )


def test_an_operator_of_the_users_that_mutates() -> None:
    with torch.library._scoped_library("wrapperir_test", "FRAGMENT") as library:
        library.define("shift_(Tensor(a!) x, Tensor y, str how) -> ()")
        library.impl("shift_", lambda x, y, how: None, "CPU")
        library.impl("shift_", lambda x, y, how: None, "Meta")

        def shift(x: torch.Tensor, y: torch.Tensor) -> Any:
            z = x * 2
            torch.ops.wrapperir_test.shift_(z, y, "by 'it'\n")
            return z.cos()

        program = capture_one(shift, torch.randn(4), torch.randn(4))
    (call,) = lines_of(program, ExternKernelLine)
    assert call.operator == "wrapperir_test.shift_.default"
    assert (call.result, call.type) == (None, None)
    target = call.arguments[0]
    assert isinstance(target, BufferRef)
    assert call.writes == (target.name,)
    assert "by 'it'\n" in call.arguments


def test_where_a_call_comes_from_is_told() -> None:
    program = capture_one(lambda x: x @ x, torch.randn(4, 4))
    (call,) = lines_of(program, ExternKernelLine)
    table = OriginTable(program)
    (origin,) = table.of(call.provenance)
    assert origin.operator == "aten.mm.default"
    (place,) = table.stack(origin)
    assert place.file == __file__
    assert place.function == "<lambda>"


def test_a_call_made_of_several_nodes_names_the_operator_that_was_written() -> None:
    linear = torch.nn.Linear(4, 4)
    program = capture_one(lambda x: linear(x).relu(), torch.randn(4, 4))
    (call,) = lines_of(program, ExternKernelLine)
    table = OriginTable(program)
    first, *others = table.of(call.provenance)
    assert others
    assert first.operator == "aten.addmm.default"
    place = table.place(first)
    assert place is not None
    assert place.file == __file__


def test_memory_that_a_call_reads_and_nothing_wrote_gets_zeros() -> None:
    program = capture_one(lambda x: x @ torch.empty(4, 4), torch.randn(2, 4))
    operators = [line.operator for line in lines_of(program, ExternKernelLine)]
    assert operators == ["aten.zero_.default", "aten.mm.out"]
    x = torch.randn(2, 4)
    (found,) = interpret(program, [x], {})
    assert torch.equal(torch.as_tensor(found), torch.zeros(2, 4))


def test_so_does_memory_that_a_call_reads_through_a_view() -> None:
    program = capture_one(lambda x: x @ torch.empty(3, 4).t(), torch.randn(2, 4))
    operators = [line.operator for line in lines_of(program, ExternKernelLine)]
    assert operators == ["aten.zero_.default", "aten.mm.out"]


def test_so_does_memory_that_a_kernel_reads() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(x, (1, 1, 1, 1), mode="circular")

    x = torch.randn(1, 1, 4, 4)
    program = capture_one(function, x)
    operators = [line.operator for line in lines_of(program, ExternKernelLine)]
    assert operators == ["aten.zero_.default"]
    (found,) = interpret(program, [x], {})
    assert torch.equal(torch.as_tensor(found), function(x))


@pytest.mark.skipif(
    versions.EXTERN_MULTI_OUT_LINE is None,
    reason="this Inductor calls such operators as those that return several results",
)
def test_an_operator_of_the_users_with_several_outs() -> None:
    with torch.library._scoped_library("wrapperir_test", "FRAGMENT") as library:
        library.define("pair(Tensor x, int n) -> (Tensor, Tensor)")
        library.define(
            "pair.out(Tensor x, int n, *, Tensor(a!) first, Tensor(b!) second)"
            " -> (Tensor(a!), Tensor(b!))",
            tags=(torch.Tag.out,) if hasattr(torch.Tag, "out") else (),
        )
        library.impl("pair", lambda x, n: (x + n, x - n), "CPU")
        library.impl("pair", lambda x, n: (x.clone(), x.clone()), "Meta")

        def pair(x: torch.Tensor) -> Any:
            first, second = torch.ops.wrapperir_test.pair(x * 2, 3)
            return first.sin(), second

        program = capture_one(pair, torch.randn(4))
    (call,) = lines_of(program, ExternKernelLine)
    assert call.operator == "wrapperir_test.pair.out"
    assert call.arguments[1] == 3
    assert [key for key, _ in call.keywords] == ["first", "second"]
    assert [BufferRef(name) for name in call.writes] == [v for _, v in call.keywords]
    allocated = {line.result for line in lines_of(program, AllocateLine)}
    assert set(call.writes) <= allocated
