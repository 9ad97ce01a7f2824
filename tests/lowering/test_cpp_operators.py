"""Each operator and cast of C++ kernels gives eager's results."""

from collections.abc import Callable
from functools import partial

import pytest
import torch

from tests.lowering.cpp_kernels import build_kernels, kernel_of
from wrapperir.ir import DType, Symbol, TensorType
from wrapperir.lowering.loops import Apply, Axis, Load, Nest, Step, Store
from wrapperir.lowering.scalar_op import ScalarOp, operand_count, result_dtype

_LENGTH = 61
_FLOATS = (DType.F32, DType.F64)
_WHOLE = (DType.I64, DType.I32, DType.I16, DType.I8, DType.U8)
_OF_FLOATS = frozenset(
    {
        *(ScalarOp.SQRT, ScalarOp.RSQRT, ScalarOp.EXP, ScalarOp.EXP2, ScalarOp.EXPM1),
        *(ScalarOp.LOG, ScalarOp.LOG2, ScalarOp.LOG10, ScalarOp.LOG1P, ScalarOp.SIN),
        *(ScalarOp.COS, ScalarOp.TAN, ScalarOp.ASIN, ScalarOp.ACOS, ScalarOp.ATAN),
        *(ScalarOp.SINH, ScalarOp.COSH, ScalarOp.TANH, ScalarOp.ASINH, ScalarOp.ACOSH),
        *(ScalarOp.ATANH, ScalarOp.ATAN2, ScalarOp.HYPOT, ScalarOp.COPYSIGN),
        *(ScalarOp.NEXTAFTER, ScalarOp.ERF, ScalarOp.ERFC, ScalarOp.LGAMMA),
        *(ScalarOp.FMIN, ScalarOp.FMAX, ScalarOp.DIV, ScalarOp.ISNAN, ScalarOp.ISINF),
    }
)
_OF_WHOLE = frozenset({ScalarOp.BITNOT, ScalarOp.SHL, ScalarOp.SHR})
_LOGIC = frozenset({ScalarOp.AND, ScalarOp.OR, ScalarOp.XOR})
_DIVISIONS = frozenset(
    {ScalarOp.FLOORDIV, ScalarOp.TRUNCDIV, ScalarOp.REMAINDER, ScalarOp.FMOD}
)
_CASTS = frozenset({ScalarOp.CAST, ScalarOp.BITCAST, ScalarOp.WHERE, ScalarOp.NOT})
_EAGER: dict[ScalarOp, Callable[..., torch.Tensor]] = {
    ScalarOp.FLOORDIV: partial(torch.div, rounding_mode="floor"),
    ScalarOp.TRUNCDIV: partial(torch.div, rounding_mode="trunc"),
    ScalarOp.BITNOT: torch.bitwise_not,
    ScalarOp.AND: torch.bitwise_and,
    ScalarOp.OR: torch.bitwise_or,
    ScalarOp.XOR: torch.bitwise_xor,
    ScalarOp.SHL: torch.bitwise_left_shift,
    ScalarOp.SHR: torch.bitwise_right_shift,
}


def _operators(dtype: DType) -> list[ScalarOp]:
    excluded = set(_CASTS)
    if dtype.is_float:
        excluded |= _OF_WHOLE | _LOGIC
    else:
        excluded |= _OF_FLOATS
    if dtype is DType.U8:
        excluded.add(ScalarOp.SIGNBIT)  # eager's meaning of it is of signed dtypes
    return [op for op in ScalarOp if op not in excluded]


def _values(dtype: DType, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype.torch_name)
    if dtype is DType.BOOL:
        return torch.rand(_LENGTH, generator=generator) > 0.5
    if dtype.is_float:
        inf, nan = float("inf"), float("nan")
        special = [0.0, -0.0, 1, -1, inf, -inf, nan, 0.5, -0.5, 1.5, 2.5, -2.5, 300.5]
        special += [-300.5, 1e10, -1e10, 3e38, -3e38, 127, 128, 255, 256, 65504, 1e-7]
        chosen = torch.tensor(special, dtype=torch.float64)
        chosen = chosen[torch.randperm(len(special), generator=generator)]
        drawn = torch.randn(_LENGTH - len(special), generator=generator) * 3
        return torch.cat([chosen, drawn.double()]).to(kind)
    drawn = torch.randint(-130, 130, (_LENGTH,), generator=generator)
    drawn[:4] = torch.tensor([2**31 - 1, -(2**31), 2**62, 3])
    return drawn.to(kind)


def _type(dtype: DType) -> TensorType:
    return TensorType(dtype=dtype, size=(_LENGTH,), stride=(1,))


def _same(got: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> bool:
    assert got.dtype == wanted.dtype
    if not got.dtype.is_floating_point:
        return torch.equal(got, wanted)
    near = torch.isclose(
        got.double(), wanted.double(), rtol=tolerance, atol=1e-44, equal_nan=True
    )
    signs = torch.signbit(got) == torch.signbit(wanted)
    return bool((near & (signs | wanted.isnan())).all())


@pytest.mark.parametrize("dtype", [*_FLOATS, *_WHOLE])
def test_an_operator_gives_eagers_result(dtype: DType) -> None:
    operators = _operators(dtype)
    index = (Symbol("i0"),)
    body: list[Step] = [
        Load(result=f"v{n}", dtype=dtype, buffer=f"in{n}", index=index) for n in range(2)
    ]
    types = {"in0": _type(dtype), "in1": _type(dtype)}
    for op in operators:
        operands = ("v0", "v1")[: operand_count(op)]
        result = result_dtype(op, [dtype, dtype])
        assert result is not None
        body += [
            Apply(result=f"r_{op.value}", dtype=result, op=op, operands=operands),
            Store(buffer=op.value, index=index, value=f"r_{op.value}"),
        ]
        types[op.value] = _type(result)
    nest = Nest(name="operators", axes=(Axis("i0", _LENGTH),), body=tuple(body))
    (kernel,) = build_kernels([kernel_of(nest, types)])
    left, right = _values(dtype, 1), _values(dtype, 2)
    if not dtype.is_float:
        right[right == 0] = 1
    for power in (False, True):  # whole numbers to a small power
        if not dtype.is_float and power:
            right = right.abs() % 5
            right[right == 0] = 1
        outputs = [
            torch.zeros(_LENGTH, dtype=getattr(torch, types[op.value].dtype.torch_name))
            for op in operators
        ]
        kernel.launch([left, right, *outputs])
        for op, got in zip(operators, outputs, strict=True):
            if op is ScalarOp.POW and not dtype.is_float and not power:
                continue
            eager = _EAGER.get(op) or getattr(torch, op.value)
            wanted = eager(*(left, right)[: operand_count(op)])
            tolerance = 4e-7 if dtype is DType.F32 else 1e-14
            if op in _DIVISIONS and dtype.is_float:
                # Eager's remainder is NaN where the quotient has too many bits.
                plain = (left / right).abs() < 1 << 20
                got, wanted = got[plain], wanted[plain]
            assert _same(got, wanted, tolerance), op


def test_a_cast_gives_eagers_result() -> None:
    dtypes = [*_FLOATS, DType.BF16, DType.F16, *_WHOLE, DType.BOOL, DType.U16]
    index = (Symbol("i0"),)
    body: list[Step] = []
    types: dict[str, TensorType] = {}
    for source in dtypes:
        types[f"in_{source.value}"] = _type(source)
        body.append(
            Load(
                result=f"v_{source.value}",
                dtype=source,
                buffer=f"in_{source.value}",
                index=index,
            )
        )
        for target in dtypes:
            name = f"{source.value}_{target.value}"
            types[name] = _type(target)
            cast = Apply(
                result=f"r_{name}",
                dtype=target,
                op=ScalarOp.CAST,
                operands=(f"v_{source.value}",),
            )
            body += [cast, Store(buffer=name, index=index, value=cast.result)]
    nest = Nest(name="casts", axes=(Axis("i0", _LENGTH),), body=tuple(body))
    (kernel,) = build_kernels([kernel_of(nest, types)])
    tensors: dict[str, torch.Tensor] = {}
    for name, type in types.items():
        kind = getattr(torch, type.dtype.torch_name)
        given = name.startswith("in_")
        tensors[name] = (
            _values(type.dtype, 3) if given else torch.zeros(_LENGTH, dtype=kind)
        )
    kernel.launch(list(tensors.values()))
    for source in dtypes:
        for target in dtypes:
            got = tensors[f"{source.value}_{target.value}"]
            wanted = tensors[f"in_{source.value}"].to(got.dtype)
            assert _same(got, wanted, 0.0), (source, target)
