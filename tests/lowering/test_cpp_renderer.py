"""C++ kernels of hand-made nests compute what the nests say."""

import ctypes

import pytest
import torch
from attrs import evolve

from tests.lowering.cpp_kernels import build_kernels, kernel_of, type_of
from wrapperir.ir import DType, Expr, Symbol, TensorType, add, floordiv, mod, mul
from wrapperir.kernels import build_libraries
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    Check,
    IndexValue,
    InnerLoop,
    Literal,
    Load,
    Nest,
    Reduce,
    Scan,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp

_I, _J, _R = Symbol("i0"), Symbol("i1"), Symbol("r0")


def _run(nest: Nest, *tensors: torch.Tensor, **symbols: int) -> None:
    """Run a nest with buffers ``b0``, ``b1`` … of these tensors."""
    types = {f"b{n}": type_of(tensor) for n, tensor in enumerate(tensors)}
    kernel = kernel_of(nest, types, tuple(symbols))
    fault = [torch.zeros(1, dtype=torch.int32)] if kernel.fault is not None else []
    (built,) = build_kernels([kernel])
    built.launch([*tensors, *symbols.values(), *fault])
    if fault and fault[0].item():
        raise IndexError(int(fault[0].item()))


def _load(result: str, buffer: str, *index: Expr, dtype: DType = DType.F32) -> Load:
    return Load(result=result, dtype=dtype, buffer=buffer, index=index)


def _apply(result: str, op: ScalarOp, *operands: str, dtype: DType = DType.F32) -> Apply:
    return Apply(result=result, dtype=dtype, op=op, operands=operands)


def test_strides_and_broadcasts_are_those_of_the_types() -> None:
    x, y, out = torch.randn(5, 7).t(), torch.randn(5), torch.zeros(7, 5)
    body = (
        _load("v0", "b0", _I, _J),
        _load("v1", "b1", _J),
        _apply("v2", ScalarOp.MUL, "v0", "v1"),
        Store(buffer="b2", index=(_I, _J), value="v2"),
    )
    _run(Nest(name="scale", axes=(Axis("i0", 7), Axis("i1", 5)), body=body), x, y, out)
    assert torch.equal(out, x * y)


def test_extents_indices_and_strides_may_be_symbolic() -> None:
    n = Symbol("s0")
    source = TensorType(dtype=DType.F32, size=(n, n), stride=(n, 1))
    target = TensorType(dtype=DType.F32, size=(mul(n, n),), stride=(1,))
    body = (
        _load("v0", "b0", mod(_I, n), floordiv(_I, n)),
        Store(buffer="b1", index=(_I,), value="v0"),
    )
    nest = Nest(name="flat", axes=(Axis("i0", mul(n, n)),), body=body)
    (kernel,) = build_kernels([kernel_of(nest, {"b0": source, "b1": target}, ("s0",))])
    for size in (0, 1, 6):
        x, out = torch.randn(size, size), torch.zeros(size * size)
        kernel.launch([x, out, size])
        assert torch.equal(out, x.t().reshape(-1))


def test_a_nest_without_axes_is_one_point() -> None:
    x, out = torch.randn(()), torch.zeros(())
    body = (_load("v0", "b0"), Store(buffer="b1", index=(), value="v0"))
    _run(Nest(name="copy", axes=(), body=body), x, out)
    assert torch.equal(out, x)


def test_nothing_is_read_where_a_mask_is_false() -> None:
    x, out = torch.randn(4), torch.zeros(9)
    body = (
        IndexValue(result="v0", dtype=DType.I64, expr=_I),
        Literal(result="v1", dtype=DType.I64, value=4),
        _apply("v2", ScalarOp.LT, "v0", "v1", dtype=DType.BOOL),
        Load(
            result="v3",
            dtype=DType.F32,
            buffer="b0",
            index=(mul(_I, 1),),
            mask="v2",
            other=-1.5,
        ),
        Store(buffer="b1", index=(_I,), value="v3"),
    )
    _run(Nest(name="pad", axes=(Axis("i0", 9),), body=body), x, out)
    assert torch.equal(out, torch.nn.functional.pad(x, (0, 5), value=-1.5))


def _reduction(op: ReduceOp, dtype: DType, results: int = 1) -> Nest:
    names = tuple(f"a{n}" for n in range(results))
    loop = InnerLoop(
        axes=(Axis("r0", 7), Axis("r1", 3)),
        body=(
            _load("v0", "b0", _I, _R, Symbol("r1"), dtype=dtype),
            Reduce(results=names, dtype=dtype, op=op, operands=("v0",)),
        ),
    )
    stores = (Store(buffer=f"b{n + 1}", index=(_I,), value=f"a{n}") for n in range(results))
    return Nest(
        name=f"{op.value}_{dtype.value}", axes=(Axis("i0", 5),), body=(loop, *stores)
    )


def test_reductions_are_eagers() -> None:
    x = torch.randn(5, 7, 3)
    x[2, 3, 1] = float("nan")
    x[3] = x[3, 0, 0]
    rows = x.reshape(5, 21)
    for op, wanted in (
        (ReduceOp.SUM, rows.sum(1)),
        (ReduceOp.PROD, rows.prod(1)),
        (ReduceOp.MIN, rows.amin(1)),
        (ReduceOp.MAX, rows.amax(1)),
        (ReduceOp.ARGMIN, rows.argmin(1)),
        (ReduceOp.ARGMAX, rows.argmax(1)),
    ):
        out = torch.empty_like(wanted)
        _run(_reduction(op, DType.F32), x, out)
        torch.testing.assert_close(out, wanted, equal_nan=True)
    flags = torch.rand(5, 7, 3) > 0.97
    for op, wanted in (
        (ReduceOp.ANY, flags.reshape(5, 21).any(1)),
        (ReduceOp.ALL, flags.reshape(5, 21).all(1)),
    ):
        out = torch.empty_like(wanted)
        _run(_reduction(op, DType.BOOL), flags, out)
        assert torch.equal(out, wanted)
    numbers = torch.randint(-9, 9, (5, 7, 3))
    out = torch.zeros(5, dtype=torch.int64)
    _run(_reduction(ReduceOp.SUM, DType.I64), numbers, out)
    assert torch.equal(out, numbers.sum((1, 2)))


def test_welford_and_online_softmax_return_all_their_results() -> None:
    x = torch.randn(5, 7, 3)
    rows = x.reshape(5, 21)
    mean, squares, count = torch.zeros(5), torch.zeros(5), torch.zeros(5)
    _run(_reduction(ReduceOp.WELFORD, DType.F32, 3), x, mean, squares, count)
    torch.testing.assert_close(mean, rows.mean(1))
    torch.testing.assert_close(squares / 20, rows.var(1))
    assert count.eq(21).all()
    most, total = torch.zeros(5), torch.zeros(5)
    _run(_reduction(ReduceOp.ONLINE_SOFTMAX, DType.F32, 2), x, most, total)
    assert torch.equal(most, rows.amax(1))
    torch.testing.assert_close(most + total.log(), rows.logsumexp(1))


def test_a_scan_begins_again_for_each_point_of_outer_axes() -> None:
    x = torch.randint(-3, 3, (4, 3, 6)).float()
    sums, most, place = torch.zeros(4, 3, 6), torch.zeros(4, 3, 6), torch.zeros(4, 3, 6)
    place = place.long()
    index = (_I, _R, Symbol("r1"))
    loop = InnerLoop(
        axes=(Axis("r0", 3), Axis("r1", 6)),
        body=(
            _load("v0", "b0", *index),
            Scan(results=("v1",), dtype=DType.F32, op=ReduceOp.SUM, operands=("v0",)),
            Store(buffer="b1", index=index, value="v1"),
            Scan(
                results=("v2", "v3"), dtype=DType.F32, op=ReduceOp.ARGMAX, operands=("v0",)
            ),
            Store(buffer="b2", index=index, value="v2"),
            Store(buffer="b3", index=index, value="v3"),
        ),
    )
    nest = Nest(name="scan", axes=(Axis("i0", 4),), body=(loop,))
    _run(nest, x, sums, most, place)
    assert torch.equal(sums, x.cumsum(2))
    wanted = x.cummax(2)
    assert torch.equal(most, wanted.values)
    assert torch.equal(place, wanted.indices)


def _scatter(mode: StoreMode) -> Nest:
    body = (
        _load("v0", "b1", _I, dtype=DType.I64),
        _load("v1", "b2", _I, _J),
        Store(buffer="b0", index=(Symbol("v0"), _J), value="v1", mode=mode),
    )
    return Nest(name="scatter", axes=(Axis("i0", 8), Axis("i1", 3)), body=body)


def test_stores_combine_with_memory() -> None:
    index, values = torch.tensor([0, 2, 2, 1, 2, 0, 3, 3]), torch.randn(8, 3)
    places = index[:, None].expand(8, 3)
    for mode, reduce in (
        (StoreMode.ADD, "sum"),
        (StoreMode.MUL, "prod"),
        (StoreMode.MIN, "amin"),
        (StoreMode.MAX, "amax"),
    ):
        out = torch.randn(4, 3)
        wanted = out.scatter_reduce(0, places, values, reduce)
        _run(_scatter(mode), out, index, values)
        torch.testing.assert_close(out, wanted)


def _checked_gather() -> Nest:
    body = (
        _load("v0", "b1", _I, dtype=DType.I64),
        Literal(result="v1", dtype=DType.I64, value=4),
        Literal(result="v2", dtype=DType.I64, value=0),
        _apply("v3", ScalarOp.GE, "v0", "v2", dtype=DType.BOOL),
        Check(condition="v3", message="too small"),
        _apply("v4", ScalarOp.LT, "v0", "v1", dtype=DType.BOOL),
        Check(condition="v4", message="too large"),
        _load("v5", "b0", add(Symbol("v0"), 0)),
        Store(buffer="b2", index=(_I,), value="v5"),
    )
    return Nest(name="gather", axes=(Axis("i0", 3),), body=body)


def test_a_failed_check_is_left_in_the_fault_buffer_and_nothing_is_accessed() -> None:
    nest = _checked_gather()
    x, out = torch.randn(4), torch.zeros(3)
    _run(nest, x, torch.tensor([3, 0, 2]), out)
    assert torch.equal(out, x[[3, 0, 2]])
    for place, failed in ((1 << 40, 2), (-(1 << 40), 1)):
        with pytest.raises(IndexError, match=str(failed)):
            _run(nest, x, torch.tensor([3, place, 2]), out)


def test_a_failed_check_without_a_fault_buffer_is_thrown() -> None:
    x, out = torch.randn(4), torch.zeros(3)
    index = torch.tensor([3, 0, 2])
    tensors = (x, index, out)
    types = {f"b{n}": type_of(tensor) for n, tensor in enumerate(tensors)}
    kernel = evolve(kernel_of(_checked_gather(), types), fault=None)
    source = CppRenderer().render_kernel(kernel).source
    caller = """
extern "C" int caught(void* x, void* index, void* out) {
  try {
    using Floats = loops::stored<float>*;
    gather((Floats)x, (loops::stored<loops::i64>*)index, (Floats)out);
  } catch (int check) {
    return check;
  }
  return 0;
}
"""
    (library,) = build_libraries([source + caller])
    assert isinstance(library, ctypes.CDLL)

    def caught() -> int:
        number: int = library.caught(*(ctypes.c_void_p(t.data_ptr()) for t in tensors))
        return number

    assert caught() == 0
    assert torch.equal(out, x[index])
    for place, failed in ((1 << 40, 2), (-(1 << 40), 1)):
        index[1] = place
        assert caught() == failed


def test_a_dtype_that_kernels_lack_is_refused() -> None:
    body = (_load("v0", "b0", _I, dtype=DType.C64),)
    nest = Nest(name="complex", axes=(Axis("i0", 3),), body=body)
    assert CppRenderer().refusal(nest) == "C++ kernels have no c64"
