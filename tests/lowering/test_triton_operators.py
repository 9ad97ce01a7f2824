"""Each operator and cast of Triton kernels gives eager's results."""

import pytest
import torch

from tests.lowering.eager_operators import (
    DIVISIONS,
    FLOATS,
    LENGTH,
    WHOLE,
    numbers,
    operators_of,
    same,
)
from tests.lowering.triton_kernels import run
from tests.lowering.triton_nests import I0, apply, constant, load, nest, store
from wrapperir.ir import DType
from wrapperir.lowering.eager import eager_operator
from wrapperir.lowering.loops import Step
from wrapperir.lowering.scalar_op import ScalarOp, operand_count, result_dtype

_HALVES = (DType.F16, DType.BF16)


def _results(
    dtype: DType, left: torch.Tensor, right: torch.Tensor
) -> dict[ScalarOp, torch.Tensor]:
    body: list[Step] = [
        load("v0", "in0", I0, dtype=dtype),
        load("v1", "in1", I0, dtype=dtype),
    ]
    buffers = {"in0": left, "in1": right}
    for op in operators_of(dtype):
        operands = ("v0", "v1")[: operand_count(op)]
        result = result_dtype(op, [dtype, dtype])
        assert result is not None
        name = f"out_{op.value}"
        body.append(apply(f"r_{op.value}", op, *operands, dtype=result))
        body.append(store(name, f"r_{op.value}", I0))
        buffers[name] = torch.zeros(LENGTH, dtype=getattr(torch, result.torch_name))
    run(nest("operators", (LENGTH,), *body), buffers)
    return {op: buffers[f"out_{op.value}"] for op in operators_of(dtype)}


@pytest.mark.parametrize("dtype", [*FLOATS, *_HALVES, *WHOLE, DType.BOOL])
def test_an_operator_gives_eagers_result(dtype: DType) -> None:
    left, right = numbers(dtype, 1), numbers(dtype, 2)
    if dtype.is_integer and dtype is not DType.BOOL:
        right[right == 0] = 1
    for op, got in _results(dtype, left, right).items():
        if op is ScalarOp.POW and dtype.is_integer:
            continue  # large powers raise in eager
        operands = (left, right)[: operand_count(op)]
        wanted = eager_operator(op)(*operands)
        if op is ScalarOp.SUB and dtype is DType.BOOL:
            continue
        if op in DIVISIONS and dtype.is_float:
            # Eager's remainder is NaN where the quotient has too many bits.
            plain = (left.double() / right.double()).abs() < 1 << 20
            got, wanted = got[plain], wanted[plain]
        tolerance = 1e-14 if dtype is DType.F64 else 4e-7
        assert same(got, wanted, tolerance), op


@pytest.mark.parametrize("dtype", WHOLE)
def test_a_whole_power_wraps_and_has_whole_inverses(dtype: DType) -> None:
    kind = getattr(torch, dtype.torch_name)
    left = (torch.arange(LENGTH) - 30).to(kind)
    right = (torch.arange(LENGTH) % 7).to(kind)
    if dtype is not DType.U8:
        right[::5] = -right[::5]
    got = _results(dtype, left, right)[ScalarOp.POW]
    assert torch.equal(got, torch.pow(left, right))


@pytest.mark.parametrize("dtype", [DType.I32, DType.U8])
def test_a_shift_by_too_many_bits(dtype: DType) -> None:
    kind = getattr(torch, dtype.torch_name)
    left = torch.arange(-30, -30 + LENGTH).to(kind)
    right = torch.arange(LENGTH).to(kind)
    found = _results(dtype, left, right)
    for op in (ScalarOp.SHL, ScalarOp.SHR):
        assert torch.equal(found[op], eager_operator(op)(left, right)), op


def test_a_cast_gives_eagers_result() -> None:
    dtypes = [*FLOATS, *_HALVES, *WHOLE, DType.BOOL]
    for source in dtypes:
        given = numbers(source, 3)
        body: list[Step] = [load("v0", "in0", I0, dtype=source)]
        buffers = {"in0": given}
        for target in dtypes:
            name = f"out_{target.value}"
            body.append(apply(target.value, ScalarOp.CAST, "v0", dtype=target))
            body.append(store(name, target.value, I0))
            buffers[name] = torch.zeros(LENGTH, dtype=getattr(torch, target.torch_name))
        run(nest("casts", (LENGTH,), *body), buffers)
        for target in dtypes:
            got = buffers[f"out_{target.value}"]
            assert same(got, given.to(got.dtype), 0.0), (source, target)


@pytest.mark.parametrize("dtype", [DType.U8, DType.I8, DType.U16, DType.I64])
def test_a_whole_constant_wraps(dtype: DType) -> None:
    kind = getattr(torch, dtype.torch_name)
    out = torch.zeros(3, 4, dtype=kind)
    body: list[Step] = []
    numbers = (-2, 255, (1 << 63) - 1)
    for n, number in enumerate(numbers):
        body.append(constant(f"v{n}", number, dtype))
        body.append(store("out0", f"v{n}", n, I0))
    run(nest("constants", (4,), *body), {"out0": out})
    wanted = torch.tensor(numbers).to(kind)
    assert torch.equal(out, wanted[:, None].expand(3, 4))


def test_bits_are_kept() -> None:
    given = numbers(DType.F32, 4)
    out = torch.zeros(LENGTH, dtype=torch.int32)
    body = (
        load("v0", "in0", I0),
        apply("v1", ScalarOp.BITCAST, "v0", dtype=DType.I32),
        store("out0", "v1", I0),
    )
    run(nest("bits", (LENGTH,), *body), {"in0": given, "out0": out})
    assert torch.equal(out, given.view(torch.int32))
