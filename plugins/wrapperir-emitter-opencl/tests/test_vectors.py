"""Kernels compute contiguous points as vectors, and are right at the edges."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from lowered_functions import lower_on_device
from wrapperir import ir as wir
from wrapperir.emit import compile_program
from wrapperir.passes import memory_passes
from wrapperir_opencl.emitter import OpenclEmitter

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")
EMITTER = OpenclEmitter()


def sources(function: Callable[..., object], *args: torch.Tensor) -> str:
    """Return the kernels of a function."""
    definitions = lower_on_device(function, args).definitions
    kernels = [k for k in definitions if isinstance(k, wir.KernelDefinitionLine)]
    return "\n".join(kernel.source for kernel in kernels)


def test_contiguous_points_of_a_parallel_axis_are_vectors() -> None:
    text = sources(lambda x, y: (x * y).exp(), torch.randn(6, 16), torch.randn(16))
    assert "float8 v0 = vload8(0, &p0[((i1 * 16) + i0)]);" in text
    assert "float8 v2 = (v0 * v1);" in text
    assert "float8 v3 = exp(v2);" in text
    assert "vstore8(v3, 0, &p2[((i1 * 16) + i0)]);" in text
    assert "else for" not in text  # 16 is a multiple of 8


def test_what_is_left_of_an_axis_is_computed_alone() -> None:
    text = sources(lambda x, y: x * y, torch.randn(6, 13), torch.randn(13))
    assert "if (i0 + 8 <= 13) {" in text
    assert "else for (long i2 = i0; i2 < 13; ++i2) {" in text


def test_reductions_of_contiguous_points_add_vectors() -> None:
    text = sources(lambda x: x.sum(1), torch.randn(6, 1000))
    assert "for (; i1 + 8 <= 1000; i1 += 8) {" in text
    assert "a0_1_v = (a0_1_v + convert_double8(v0));" in text
    assert "a0_1 = (a0_1 + a0_1_v.s7);" in text


def test_points_that_are_not_contiguous_are_single() -> None:
    text = sources(lambda x: x[::3, 1].clone(), torch.randn(60, 16))
    assert "vload" not in text
    text = sources(lambda x, y: x + y.t(), torch.randn(60, 16), torch.randn(16, 60))
    assert "vload" not in text


FUNCTIONS: dict[str, Callable[..., object]] = {
    "pointwise": lambda x, b: ((x * b).tanh() - x.floor(), x > b, torch.sign(x)),
    "dtypes": lambda x, b: (
        (x.half() + b.bfloat16(), (x * 9).to(torch.int8), x.double() // 0.3),
        ((x > 0).float() + (b < 0).to(torch.int64), (x * 3).to(torch.int32) * 7 % 5),
    ),
    "choices": lambda x, b: (
        (torch.where(x > b, x, 2.0), x.clamp(-1, 1), torch.maximum(x, b)),
        ((x > 0) & (b > 0) | ~(x < b), torch.where(x > 0, x > b, b > 0)),
    ),
    "masks": lambda x, b: (functional.pad(x, (3, 2)), torch.cat([x, x + b], 1), x.triu()),
    "gathers": lambda x, b: x[:, torch.arange(x.shape[1] - 1, -1, -1)] + b,
    "rows": lambda x, b: (x.sum(1), x.amax(1), (x + b).prod(1), x.softmax(1)),
    "columns": lambda x, b: (x.sum(0), x.mean(0), x.softmax(0), x.std(0)),
    "norm": lambda x, b: functional.layer_norm(x, b.shape, b, b),
    "positions": lambda x, b: (x.argmax(1), (x > 5).any(1), x.cumsum(1), x.cumsum(0)),
}


@pytest.mark.device
@pytest.mark.parametrize("width", [7, 8, 9, 24, 29])
def test_edges_are_right(width: int) -> None:
    torch.manual_seed(0)
    x, b = torch.randn(5, width), torch.randn(width)
    x[0, 0], x[1, -1] = float("nan"), -0.0

    def function(x: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        results: list[torch.Tensor] = []
        for each in FUNCTIONS.values():
            results += torch.utils._pytree.tree_leaves(each(x, b))
        return results

    program = lower_on_device(function, (x, b))
    passes = tuple(memory_passes(EMITTER.support.lines))
    found = compile_program(program, emitter=EMITTER, passes=passes)([x, b])
    for given, wanted in zip(found, function(x, b), strict=True):
        torch.testing.assert_close(given, wanted, equal_nan=True)


ALL_DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)


@pytest.mark.device
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype_has_vectors_or_single_values(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, y = (torch.randint(-9, 9, (3, 19)).to(dtype) for _ in range(2))

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        results = [x != 0, x == y, x < y, torch.where(x > y, x, y), torch.sign(x)]
        results += [torch.maximum(x, y), x & y, ~x] if not x.is_floating_point() else []
        results += [each.to(other) for each in (x,) for other in ALL_DTYPES]
        if x.dtype is not torch.bool:
            results += [-x, x.abs(), x + y, x - y, x * y, x.clamp(-3, 5), x.amax(1)]
            results += [torch.where(x > 0, x, 1), x.to(torch.bool) & (y > 1)]
        return results

    program = lower_on_device(function, (x, y))
    passes = tuple(memory_passes(EMITTER.support.lines))
    found = compile_program(program, emitter=EMITTER, passes=passes)([x, y])
    for given, wanted in zip(found, function(x, y), strict=True):
        torch.testing.assert_close(given, wanted)


@pytest.mark.device
@pytest.mark.parametrize("count", [1, 8, 13])
def test_no_memory_beside_a_view_is_written(count: int) -> None:
    exported = lower_on_device(lambda x: x * 2, (torch.randn(count),))
    (kernel,) = exported.definitions
    device = wir.Device("opencl", 0)
    whole = wir.tensor(wir.DType.F32, (64,), device=device)
    view = wir.tensor(wir.DType.F32, (count,), offset=21, device=device)
    program = wir.Program(
        inputs=(
            wir.Input(name="x", type=wir.tensor(wir.DType.F32, (count,), device=device)),
            wir.Input(name="y", type=whole, mutated=True),
        ),
        definitions=(kernel,),
        lines=(
            wir.ReinterpretLine(result="v", source="y", type=view),
            wir.KernelCallLine(
                kernel=kernel.name,
                arguments=(wir.BufferRef("x"), wir.BufferRef("v")),
                device=device,
            ),
            wir.FreeLine(buffer="v"),
        ),
    )
    x, y = torch.randn(count), torch.full((64,), 7.0)
    compile_program(program, emitter=EMITTER)([x, y])
    wanted = torch.full((64,), 7.0)
    wanted[21 : 21 + count] = x * 2
    assert torch.equal(y, wanted)
