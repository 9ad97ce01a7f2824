"""Operator calls in C++: the results of eager PyTorch, bit for bit, in each of the ways."""

import re

import pytest
import torch

from tests.cpp_emitter.operator_calls import Call, program_of
from tests.cpp_emitter.running import assert_same, load, parsed
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.layout import BRIDGE_SOURCE, PROGRAM


def draw(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    return torch.randn(size, generator=generator).to(dtype)


X, Y = draw(4, 5), draw(5, 6)
INTS = torch.arange(4)
IMAGE, FILTER = draw(1, 3, 8, 8), draw(2, 3, 3, 3)

TO_C_FUNCTIONS = [
    Call("aten.add.Tensor", (X, X), {"alpha": 2}),
    Call("aten.add.Scalar", (X, 2.5)),
    Call("aten.pow.Tensor_Scalar", (X, 2)),
    Call("aten.abs.default", (draw(3, 3).to(torch.complex64),)),
    Call("aten.sort.default", (X, 0, True)),
    Call("aten.topk.default", (X, 2)),
    Call("aten.cat.default", ([X, X.double()], 1)),
    Call("aten.index.Tensor", (X, [None, torch.tensor([0, 4])])),
    Call(
        "aten.convolution.default", (IMAGE, FILTER, None, [1, 1], [0], [1], False, [0], 1)
    ),
    Call(
        "aten.convolution_backward.default",
        (draw(1, 2, 6, 6), IMAGE, FILTER, [2], [1], [0], [1], False, [0], 1),
        {"output_mask": [True, True, False]},
    ),
    Call("aten.avg_pool2d.default", (IMAGE, 2)),
    Call("aten.max_pool2d_with_indices.default", (IMAGE, [2, 2])),
    Call("aten.full.default", ([2, 3], 1.5)),
    Call("aten.cumsum.default", (X, 0), {"dtype": torch.float64}),
    Call("aten.searchsorted.Tensor", (torch.arange(5.0), X), {"side": "right"}),
    Call("aten.slice.Tensor", (X, 0, 1, None)),
    Call("aten.pad.default", (X, [1, 1], "constant", 0.5)),
    Call("aten.rand.default", ([3, 2],), {"device": torch.device("cpu")}),
    Call("aten.randn.default", ([0, 2],), {"layout": torch.strided}),
    Call("aten.randint.low", (2, 10, [5]), {"dtype": torch.int32}),
    Call("aten.randperm.default", (10,)),
    Call("aten.bernoulli_.float", (X, 0.5)),
    Call("aten.uniform.default", (X,)),
    Call("aten.view_as_complex.default", (draw(3, 2),)),
    Call("aten.nonzero.default", (INTS,)),
    Call("aten.resize_.default", (draw(6), [2, 3])),
    Call("aten.bmm.out", (draw(2, 3, 4), draw(2, 4, 5)), {"out": draw(2, 3, 5)}),
    Call(
        "aten.scatter_reduce.two_out", (X, 0, INTS.expand(4, 4) % 2, X, "sum"), {"out": X}
    ),
    Call(
        "aten._scaled_dot_product_flash_attention_for_cpu.default", (draw(1, 2, 4, 8),) * 3
    ),
]
BY_NAME = [
    Call("aten.matmul.default", (X, Y)),
    Call("aten.relu.default", (X,)),
    Call("aten.split.Tensor", (X, 2, 0)),
    Call("aten.index_put_.default", (X, [INTS[:2]], draw(2, 5)), {"accumulate": True}),
    Call("aten.empty_like.default", (X[:0],), {"memory_format": torch.contiguous_format}),
    Call("aten._to_copy.default", (IMAGE,), {"memory_format": torch.channels_last}),
    Call("aten.sum.dim_IntList", (X, [0]), {"dtype": torch.float64}),
    Call("aten.gelu.default", (X,), {"approximate": "tanh"}),
    Call("aten.upsample_bilinear2d.vec", (IMAGE, None, False, [2.0, 2.0])),
    Call("aten.native_layer_norm.default", (X, [5], None, None, 1e-5)),
    Call("aten.equal.default", (X, X)),
    Call("aten.sym_numel.default", (X,)),
    Call("aten.embedding_bag.default", (X, INTS, torch.tensor([0, 2]))),
    Call("aten.normal_.default", (X, 1, 2.0)),
    Call("aten.dropout.default", (X, 0.5, True)),
    Call("aten.max.dim_max", (X, 0), {"max": draw(5), "max_values": torch.arange(5)}),
    Call("aten.copy_.default", (X, -X)),
    Call(
        "aten.lstm.input",
        (
            *(draw(2, 1, 3), [draw(1, 1, 4)] * 2, [draw(16, 3), draw(16, 4)]),
            *(False, 1, 0.0, False, False, False),
        ),
    ),
    Call("aten.all.default", (X > 0,)),
    Call("aten._foreach_neg_.default", ([X, -X],)),
]
THROUGH_THE_BRIDGE = [
    Call("aten.add.Tensor", (INTS, INTS), {"alpha": 2}),
    Call("aten.add.Tensor", (X, 2)),
    Call("aten.add.Scalar", (INTS, 2)),
    Call("aten.add.Scalar", (INTS, True)),
    Call("aten.mul.Tensor", (INTS, 2.5)),
    Call("aten.mul.Tensor", (X, 1 - 2j)),
    Call("aten.full.default", ([2, 3], 7)),
    Call("aten.full.default", ([2], 2j), {"dtype": torch.complex128}),
    Call("aten.clamp.default", (X, -0.5)),
    Call("aten.clamp.default", (INTS, None, 2)),
    Call("aten._foreach_add.ScalarList", ([X, X], [1.5, 2])),
    Call("aten._foreach_add_.Scalar", ([X, X], 1.5)),
    Call("aten.item.default", (torch.tensor(3.5),)),
    Call("aten.item.default", (torch.tensor(3),)),
    Call("aten.item.default", (torch.tensor(True),)),
    Call("aten.linspace.default", (0, 1, 5)),
    Call("aten.arange.start_step", (0, 10, 2)),
    Call("aten.div.Tensor_mode", (X, 3.0), {"rounding_mode": "floor"}),
]
WAYS = {
    r"check\(aoti_torch_(?:cpu|aten)_\w+\(": TO_C_FUNCTIONS,
    r"op::call\(": BY_NAME,
    r"op::call_boxed\(": THROUGH_THE_BRIDGE,
}


@pytest.mark.parametrize("way", WAYS, ids=["c functions", "by name", "bridge"])
def test_results_are_those_of_pytorch(way: str) -> None:
    calls = WAYS[way]
    torch.manual_seed(1)
    program, inputs, wanted = program_of(calls)
    assert verify(program) == ()
    files = CppEmitter().emit(program).files
    assert len(re.findall(way, str(files[PROGRAM]))) == len(calls)
    assert (BRIDGE_SOURCE in files) == ("boxed" in way)
    call = load(program, {})
    torch.manual_seed(1)
    assert_same(call(list(inputs)), wanted)


def test_products_that_are_returned_are_written_to_memory_of_the_program() -> None:
    a, b, c = draw(2, 3, 4), draw(2, 4, 5), draw(2, 3, 5)
    calls = [
        Call("aten.mm.default", (X, Y)),
        Call("aten.mm.default", (X.bfloat16(), Y.bfloat16())),
        Call("aten.addmm.default", (draw(6), X, Y)),
        Call("aten.addmm.default", (draw(4, 1), X, Y), {"beta": 0.5, "alpha": 2}),
        Call("aten.bmm.default", (a, b)),
        Call("aten.baddbmm.default", (c, a, b), {"beta": 2}),
    ]
    program, inputs, wanted = program_of(calls)
    files = CppEmitter().emit(program).files
    text = str(files[PROGRAM])
    assert BRIDGE_SOURCE not in files
    assert text.count("op::gemm(") == 3
    assert text.count("check(aoti_torch_cpu_") == 3
    assert_same(load(program, {})(list(inputs)), wanted)


def test_sparse_tensors_are_given_to_no_c_function() -> None:
    program = parsed(
        """
        program @main(%x: f32[3, 3], %y: f32[3, 3]) {
          %s = extern_kernel aten.to_sparse.default(%x) : f32[3, 3]
          %a = extern_kernel aten.abs.default(%s) : f32[3, 3]
          %p = extern_kernel aten.mm.default(%a, %y) : f32[3, 3]
          %d = extern_kernel aten.to_dense.default(%a) : f32[3, 3]
          free %s
          free %a
          return %d, %p
        }
        """
    )
    x, y = torch.eye(3) * -2, draw(3, 3)
    dense, product = load(program, {})([x, y])
    assert_same([dense, product], [x.abs(), x.abs().to_sparse() @ y])


def test_layouts_that_an_operator_changed_are_left_to_pytorch() -> None:
    program = parsed(
        """
        program @main(%x: mutated f32[2, 3], %y: f32[2, 3]) {
          extern_kernel aten.t_.default(%x) writes(%x)
          %r = extern_kernel aten.mm.default(%y, %x) : f32[2, 2]
          return %r
        }
        """
    )
    x, y = draw(2, 3), draw(2, 3) + 1
    (result,) = load(program, {})([x.clone(), y])
    assert_same([result], [y @ x.t()])


def test_sizes_that_the_lines_after_name_are_the_operators() -> None:
    program = parsed(
        """
        program @main(%x: f32[2, 3], %y: f32[n, 4]) {
          symbol n: int = size(%y, 0)
          %r = extern_kernel aten.mm.default(%x, %y) : f32[m, 4]
          symbol_definition m: int = size(%r, 0)
          return %r, m
        }
        """
    )
    x, y = draw(2, 3), draw(3, 4)
    assert_same(load(program, {})([x, y]), [x @ y, 2])
