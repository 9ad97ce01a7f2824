"""Triton kernels of nests on a GPU give what eager gives there."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.lowering.eager_operators import (
    DIVISIONS,
    FLOATS,
    LENGTH,
    WHOLE,
    assert_quotients,
    numbers,
    operators_of,
    same,
)
from tests.lowering.triton_kernels import Blocks, kernel_of, type_of
from tests.lowering.triton_nests import (
    I0,
    R0,
    apply,
    axes,
    biased,
    load,
    moments,
    nest,
    reduce,
    row_quotients,
    scan,
    softmax,
    store,
    transposed,
)
from wrapperir.ir import DType, evaluate_int
from wrapperir.lowering.eager import eager_operator
from wrapperir.lowering.loops import InnerLoop, Nest, Step
from wrapperir.lowering.renderer import ReductionForm
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp, operand_count, result_dtype
from wrapperir.lowering.triton import TritonRenderer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
forms = pytest.mark.parametrize("form", list(ReductionForm))


def _launch(
    folder: Path,
    nest: Nest,
    tensors: Mapping[str, torch.Tensor],
    *,
    blocks: Blocks | None = None,
    form: ReductionForm = ReductionForm.LOOPED,
) -> None:
    """Compile a nest and launch it with each of its configs."""
    types = {name: type_of(tensor) for name, tensor in tensors.items()}
    kernel = kernel_of(nest, types, blocks=blocks, form=form)
    definition = TritonRenderer().render_kernel(kernel)
    path = folder / f"{definition.name}.py"
    path.write_text(definition.source)
    spec = importlib.util.spec_from_file_location(definition.name, path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for config in definition.configs:
        values = dict(config.values)
        sizes = {name: v for name, v in values.items() if isinstance(v, int)}
        grid = tuple(evaluate_int(count, sizes) for count in definition.grid)
        getattr(module, definition.entry)[grid](*tensors.values(), **values)


def _random(*size: int) -> torch.Tensor:
    return torch.randn(size, device="cuda")


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE, DType.BOOL])
def test_an_operator_gives_eagers_bits(dtype: DType, tmp_path: Path) -> None:
    left, right = numbers(dtype, 1).cuda(), numbers(dtype, 2).cuda()
    if dtype.is_integer and dtype is not DType.BOOL:
        right[right == 0] = 1
    body: list[Step] = [
        load("v0", "in0", I0, dtype=dtype),
        load("v1", "in1", I0, dtype=dtype),
    ]
    buffers = {"in0": left, "in1": right}
    outs: dict[ScalarOp, torch.Tensor] = {}
    for op in operators_of(dtype):
        result = result_dtype(op, [dtype, dtype])
        assert result is not None
        name, operands = f"out_{op.value}", ("v0", "v1")[: operand_count(op)]
        body.append(apply(f"r_{op.value}", op, *operands, dtype=result))
        body.append(store(name, f"r_{op.value}", I0))
        kind = getattr(torch, result.torch_name)
        outs[op] = buffers[name] = torch.zeros(LENGTH, dtype=kind, device="cuda")
    _launch(tmp_path, nest("operators", (LENGTH,), *body), buffers)
    faults: list[str] = []
    for op, got in outs.items():
        if op is ScalarOp.POW and dtype.is_integer:
            continue
        wanted = eager_operator(op)(*(left, right)[: operand_count(op)])
        if op in DIVISIONS and dtype.is_float:
            plain = (left.double() / right.double()).abs() < 1 << 20
            got, wanted = got[plain], wanted[plain]
        # 2 ulp: eager's functions may be those of another release of the library.
        tolerance = 5e-16 if dtype is DType.F64 else 2.4e-7
        if not same(got, wanted, tolerance):
            faults.append(f"{op}: {got} {wanted}")
    assert not faults


@pytest.mark.parametrize(("rows", "columns"), [(100, 70), (64, 256), (1, 3)])
def test_pointwise_nests(rows: int, columns: int, tmp_path: Path) -> None:
    x, bias, out = _random(rows, columns), _random(columns), _random(rows, columns)
    _launch(tmp_path, biased(rows, columns), {"in0": x, "in1": bias, "out0": out})
    torch.testing.assert_close(out, (x + bias).exp(), rtol=2.4e-7, atol=0)
    out = _random(columns, rows)
    blocks = (("i0",), ("i1",))
    _launch(tmp_path, transposed(columns, rows), {"in0": x, "out0": out}, blocks=blocks)
    assert torch.equal(out, x.T)


@forms
@pytest.mark.parametrize(("rows", "columns"), [(100, 70), (2000, 512), (3, 5000)])
def test_reductions(rows: int, columns: int, form: ReductionForm, tmp_path: Path) -> None:
    x, out = _random(rows, columns), _random(rows, columns)
    _launch(tmp_path, softmax(rows, columns), {"in0": x, "out0": out}, form=form)
    torch.testing.assert_close(out, x.softmax(1))
    mean, squares = _random(rows), _random(rows)
    buffers = {"in0": x, "out0": mean, "out1": squares}
    _launch(tmp_path, moments(rows, columns), buffers, form=form)
    torch.testing.assert_close(mean, x.mean(1))
    torch.testing.assert_close(squares, x.var(1, correction=0) * columns)


@forms
def test_positions_and_scans(form: ReductionForm, tmp_path: Path) -> None:
    x = torch.stack([numbers(DType.F32, seed, 3000) for seed in range(5)]).cuda()
    place = torch.zeros(5, dtype=torch.int64, device="cuda")
    total, best = _random(5, 3000), _random(5, 3000)
    where = torch.zeros(5, 3000, dtype=torch.int64, device="cuda")
    x[2:] = _random(3, 3000)
    loop = InnerLoop(
        axes=axes("r", (3000,)),
        body=(
            load("v0", "in0", I0, R0),
            reduce("v1", ReduceOp.ARGMAX, "v0"),
            scan("v2", ReduceOp.SUM, "v0"),
            scan("v3 v4", ReduceOp.ARGMAX, "v0"),
            store("out1", "v2", I0, R0),
            store("out2", "v3", I0, R0),
            store("out3", "v4", I0, R0),
        ),
    )
    nest = Nest(name="places", axes=axes("i", (5,)), body=(loop, store("out0", "v1", I0)))
    buffers = {"in0": x, "out0": place, "out1": total, "out2": best, "out3": where}
    _launch(tmp_path, nest, buffers, form=form)
    assert torch.equal(place, x.argmax(1))
    wanted = x.cummax(1)
    torch.testing.assert_close(best, wanted[0], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(where, wanted[1])
    torch.testing.assert_close(total[2:], x[2:].cumsum(1), rtol=1e-4, atol=1e-3)


def test_rows_are_divided_by_numbers_of_any_bits(tmp_path: Path) -> None:
    bits = torch.iinfo(torch.int32)
    drawn = torch.randint(bits.min, bits.max, (512, 4097), dtype=torch.int32, device="cuda")
    x, divisors = drawn[:, 1:].contiguous(), drawn[:, 0].contiguous()
    x, divisors = x.view(torch.float32), divisors.view(torch.float32)
    found = torch.empty_like(x)
    nest = row_quotients(*x.shape)
    _launch(tmp_path, nest, {"in0": x, "in1": divisors, "out0": found})
    assert_quotients(found, x, divisors)
