"""Each operator and cast of C++ kernels gives eager's results."""

import pytest
import torch

from tests.lowering.cpp_kernels import build_kernels, kernel_of, type_of, use_processor
from tests.lowering.eager_operators import (
    DIVISIONS,
    FLOATS,
    LENGTH,
    WHOLE,
    numbers,
    operators_of,
    same,
)
from wrapperir.ir import DType, Symbol, TensorType
from wrapperir.lowering.eager import eager_operator
from wrapperir.lowering.loops import Apply, Axis, Load, Nest, Step, Store
from wrapperir.lowering.scalar_op import ScalarOp, operand_count, result_dtype


def _type(dtype: DType) -> TensorType:
    return TensorType(dtype=dtype, size=(LENGTH,), stride=(1,))


@pytest.mark.parametrize("dtype", [*FLOATS, DType.F16, DType.BF16, *WHOLE])
def test_an_operator_gives_eagers_result(dtype: DType) -> None:
    operators = operators_of(dtype)
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
    nest = Nest(name="operators", axes=(Axis("i0", LENGTH),), body=tuple(body))
    (kernel,) = build_kernels([kernel_of(nest, types)])
    left, right = numbers(dtype, 1), numbers(dtype, 2)
    if not dtype.is_float:
        right[right == 0] = 1
    for power in (False, True):  # whole numbers to a small power
        if not dtype.is_float and power:
            right = right.abs() % 5
            right[right == 0] = 1
        outputs = [
            torch.zeros(LENGTH, dtype=getattr(torch, types[op.value].dtype.torch_name))
            for op in operators
        ]
        kernel.launch([left, right, *outputs])
        for op, got in zip(operators, outputs, strict=True):
            if op is ScalarOp.POW and not dtype.is_float and not power:
                continue
            wanted = eager_operator(op)(*(left, right)[: operand_count(op)])
            tolerance = 4e-7 if dtype is DType.F32 else 1e-14
            if op in DIVISIONS and dtype.is_float:
                # Eager's remainder is NaN where the quotient has too many bits.
                plain = (left / right).abs() < 1 << 20
                got, wanted = got[plain], wanted[plain]
            assert same(got, wanted, tolerance), op


def test_a_cast_gives_eagers_result() -> None:
    dtypes = [*FLOATS, DType.BF16, DType.F16, *WHOLE, DType.BOOL, DType.U16]
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
    nest = Nest(name="casts", axes=(Axis("i0", LENGTH),), body=tuple(body))
    (kernel,) = build_kernels([kernel_of(nest, types)])
    tensors: dict[str, torch.Tensor] = {}
    for name, type in types.items():
        kind = getattr(torch, type.dtype.torch_name)
        given = name.startswith("in_")
        tensors[name] = numbers(type.dtype, 3) if given else torch.zeros(LENGTH, dtype=kind)
    kernel.launch(list(tensors.values()))
    for source in dtypes:
        for target in dtypes:
            got = tensors[f"{source.value}_{target.value}"]
            wanted = tensors[f"in_{source.value}"].to(got.dtype)
            assert same(got, wanted, 0.0), (source, target)


@pytest.mark.parametrize("processor", ["native", "x86-64-v3", "x86-64"])
def test_halves_have_eagers_bits(processor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_processor(processor, monkeypatch)
    halves = torch.arange(1 << 16).to(torch.int16).view(torch.float16)
    bits = torch.arange(1 << 16) << 16
    low = torch.tensor([0, 1, 0xFFF, 0x1000, 0x1001, 0x2000, 0x3000, 0xFFFF])
    wide = (bits[:, None] + low).flatten().to(torch.int32).view(torch.float32)
    for given, target in ((halves, DType.F32), (wide, DType.F16)):
        x = given[:-3]  # eager's vectors keep the bits of NaN, its single values do not
        source = DType.F16 if target is DType.F32 else DType.F32
        index = (Symbol("i0"),)
        body = (
            Load(result="v", dtype=source, buffer="x", index=index),
            Apply(result="r", dtype=target, op=ScalarOp.CAST, operands=("v",)),
            Store(buffer="y", index=index, value="r"),
        )
        y = torch.zeros(len(x), dtype=getattr(torch, target.torch_name))
        name = f"{source.value}_{processor}".replace("-", "_")
        nest = Nest(name=name, axes=(Axis("i0", len(x)),), body=body)
        (kernel,) = build_kernels([kernel_of(nest, {"x": type_of(x), "y": type_of(y)})])
        kernel.launch([x, y])
        kind = torch.int32 if target is DType.F32 else torch.int16
        assert torch.equal(y.view(kind), given.to(y.dtype)[:-3].view(kind))


@pytest.mark.parametrize("op", [ScalarOp.ISINF, ScalarOp.SIGNBIT])
def test_no_boolean_is_infinite_or_negative(op: ScalarOp) -> None:
    index = (Symbol("i0"),)
    body = (
        Load(result="v", dtype=DType.BOOL, buffer="x", index=index),
        Apply(result="r", dtype=DType.BOOL, op=op, operands=("v",)),
        Store(buffer="y", index=index, value="r"),
    )
    nest = Nest(name=f"{op.value}_of_bool", axes=(Axis("i0", LENGTH),), body=body)
    types = {"x": _type(DType.BOOL), "y": _type(DType.BOOL)}
    (kernel,) = build_kernels([kernel_of(nest, types)])
    found = torch.ones(LENGTH, dtype=torch.bool)
    kernel.launch([torch.ones(LENGTH, dtype=torch.bool), found])
    assert not found.any()
