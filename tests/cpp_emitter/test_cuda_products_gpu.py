"""Products of emitted C++ on a GPU: the bits that PyTorch's operators give."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from tests.cpp_emitter.operator_calls import DTYPES
from wrapperir.emit import Loaded
from wrapperir.ir import BufferRef, Device, ExternKernelLine, tensor
from wrapperir.ir.builder import NamedValue, ProgramBuilder
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.layout import PROGRAM

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
pytestmark = [pytest.mark.gpu, on_a_gpu]

SIZES = st.sampled_from([0, 1, 1, 2, 3, 8, 16, 17, 64, 65, 128, 384])
KINDS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
Scales = tuple[float, float]


def drawn(
    data: st.DataObject, sizes: Sequence[int], dtype: torch.dtype, *, may_overlap: bool
) -> torch.Tensor:
    """A matrix, or a batch of matrices, of random numbers in one of many layouts."""
    *batch, rows, columns = sizes
    gap = data.draw(st.sampled_from([0, 0, 8, 3]))
    layouts: list[tuple[int, ...]] = [(columns + gap, 1), (1, rows + gap)]
    if may_overlap:
        layouts += [(2 * columns, 2), (0, 1)]
    steps = data.draw(st.sampled_from(layouts))
    extent = (max(rows, 1) + gap) * (max(columns, 1) + gap) * 2
    if batch:
        outer = data.draw(st.sampled_from([extent, 0] if may_overlap else [extent]))
        steps = (outer, *steps)
    first = data.draw(st.sampled_from([0, 0, 0, 8, 1]))
    count = first + extent * (batch[0] + 1 if batch else 1)
    made = torch.randn(count, device="cuda").to(dtype)
    return made.as_strided(tuple(sizes), steps, first)


def type_of(value: torch.Tensor) -> Any:
    layout = tuple(value.shape), tuple(value.stride())
    device = Device("cuda", value.device.index)
    return tensor(DTYPES[value.dtype].value, *layout, device=device)


def compiled(
    operator: str,
    out: torch.Tensor,
    operands: Sequence[torch.Tensor],
    scales: Scales | None,
) -> Loaded:
    """Return a program of one product, which it writes into its last input."""
    b = ProgramBuilder()
    names = [b.input(type_of(value)) for value in operands]
    result = b.input(type_of(out), mutated=True)
    keywords = () if scales is None else (("alpha", scales[0]), ("beta", scales[1]))
    b.append(product_line(operator, names, result, keywords))
    program = b.build()
    emitter = CppEmitter()
    artifact = emitter.emit(program)
    assert "multiply(" in str(artifact.files[PROGRAM])
    return emitter.load(artifact, {})


def product_line(
    operator: str,
    operands: Sequence[NamedValue],
    out: NamedValue,
    keywords: tuple[tuple[str, Any], ...] = (),
    device: int = 0,
) -> ExternKernelLine:
    return ExternKernelLine(
        operator=f"aten.{operator}.out",
        arguments=tuple(BufferRef(value.name) for value in operands),
        keywords=(*keywords, ("out", BufferRef(out.name))),
        writes=(out.name,),
        device=Device("cuda", device),
    )


def expected(
    operator: str,
    out: torch.Tensor,
    operands: Sequence[torch.Tensor],
    scales: Scales | None,
) -> torch.Tensor:
    """Return what the operator writes."""
    made = torch.empty_strided(
        out.shape, out.stride(), dtype=out.dtype, device="cuda"
    ).copy_(out)
    keywords = {} if scales is None else {"alpha": scales[0], "beta": scales[1]}
    try:
        getattr(torch, operator)(*operands, **keywords, out=made)
    except RuntimeError as error:
        if "CUBLAS_STATUS_INVALID_VALUE" not in str(error):
            raise
        reject()  # PyTorch gives cublasLt strides that it does not take
    return made


def assert_same_bits(left: torch.Tensor, right: torch.Tensor) -> None:
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[left.itemsize]
    assert torch.equal(left.contiguous().view(bits), right.contiguous().view(bits))


def check(
    operator: str,
    out: torch.Tensor,
    operands: Sequence[torch.Tensor],
    scales: Scales | None,
) -> None:
    call = compiled(operator, out, operands, scales)
    wanted = expected(operator, out, operands, scales)
    for _ in range(2):
        call([*operands, out])
        assert_same_bits(out, wanted)


@settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_matrices(data: st.DataObject) -> None:
    m, n, k = (data.draw(SIZES) for _ in range(3))
    dtype = data.draw(st.sampled_from(KINDS))
    left = drawn(data, (m, k), dtype, may_overlap=True)
    right = drawn(data, (k, n), dtype, may_overlap=True)
    out = drawn(data, (m, n), dtype, may_overlap=False)
    check("mm", out, (left, right), None)
    wide = data.draw(st.booleans())
    bias = (
        drawn(data, (m, n), dtype, may_overlap=True)
        if wide
        else torch.randn(data.draw(st.sampled_from([(n,), (1, n), (m, 1)])), device="cuda")
    ).to(dtype)
    plain = torch.empty(m, n, dtype=dtype, device="cuda")
    for result in (out, plain):
        check("addmm", result, (bias, left, right), data.draw(SCALES))


SCALES = st.sampled_from([(1.0, 1.0), (1.0, 1.0), (0.5, 1.0), (1.0, 0.0), (2.0, -0.5)])


@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_batches(data: st.DataObject) -> None:
    m, n, k = (data.draw(SIZES) for _ in range(3))
    count = data.draw(st.sampled_from([1, 2, 12]))
    dtype = data.draw(st.sampled_from(KINDS))
    left = drawn(data, (count, m, k), dtype, may_overlap=True)
    right = drawn(data, (count, k, n), dtype, may_overlap=True)
    out = drawn(data, (count, m, n), dtype, may_overlap=False)
    check("bmm", out, (left, right), None)
    added = drawn(data, (count, m, n), dtype, may_overlap=True)
    check("baddbmm", out, (added, left, right), data.draw(SCALES))


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_biases_of_models(dtype: torch.dtype) -> None:
    """The sizes of GPT-2, BERT and ResNet, with a weight that is transposed or not."""
    for m, n, k in [(64, 2304, 768), (2048, 768, 3072), (1, 1000, 2048), (256, 768, 768)]:
        left = torch.randn(m, k, device="cuda").to(dtype)
        bias = torch.randn(n, device="cuda").to(dtype)
        out = torch.empty(m, n, device="cuda", dtype=dtype)
        for right in (
            torch.randn(k, n, device="cuda"),
            torch.randn(n, k, device="cuda").t(),
        ):
            check("addmm", out, (bias, left, right.to(dtype)), (1.0, 1.0))


@contextmanager
def setting(name: str, value: Any) -> Iterator[None]:
    backend: Any = torch.backends.cuda.matmul
    if name == "preferred":
        library = torch.backends.cuda.preferred_blas_library
        library(value)
        yield
        library("default")
    elif name == "tuned":
        torch.cuda.tunable.enable(value)
        yield
        torch.cuda.tunable.enable(False)
    else:
        before = getattr(backend, name)
        setattr(backend, name, value)
        yield
        setattr(backend, name, before)


SETTINGS = [
    ("allow_tf32", True),
    ("allow_fp16_reduced_precision_reduction", False),
    ("allow_bf16_reduced_precision_reduction", False),
    ("allow_fp16_accumulation", True),
    ("preferred", "cublaslt"),
    ("tuned", True),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS)
@pytest.mark.parametrize("dtype", KINDS[:3], ids=str)
def test_settings_change_between_calls(name: str, value: Any, dtype: torch.dtype) -> None:
    left, right = (torch.randn(256, 256, device="cuda").to(dtype) for _ in range(2))
    bias, out = torch.randn(256, device="cuda").to(dtype), torch.empty_like(left)
    cases: list[tuple[str, tuple[torch.Tensor, ...], Scales | None]] = [
        ("mm", (left, right), None),
        ("addmm", (bias, left, right), (1.0, 1.0)),
    ]
    for operator, operands, scales in cases:
        call = compiled(operator, out, operands, scales)
        for _ in range(2):
            call([*operands, out])
            assert_same_bits(out, expected(operator, out, operands, scales))
            with setting(name, value):
                call([*operands, out])
                assert_same_bits(out, expected(operator, out, operands, scales))


def chain(count: int) -> Callable[[torch.Tensor], Loaded]:
    """Return a maker of a program of products: mm, addmm and an operator in turns."""

    def make(x: torch.Tensor) -> Loaded:
        b = ProgramBuilder()
        type = type_of(x)
        value, weight = b.input(type), b.input(type)
        bias = b.input(tensor(type.dtype.value, (x.shape[1],), device=type.device))
        for _ in range(count):
            first, second = b.allocate(type), b.allocate(type)
            b.append(product_line("mm", (value, weight), first))
            b.append(product_line("addmm", (bias, first, weight), second))
            b.free(first)
            value = second
        emitter = CppEmitter()
        return emitter.load(emitter.emit(b.build(value)), {})

    return make


def run_chain(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, count: int
) -> torch.Tensor:
    for _ in range(count):
        x = torch.addmm(b, torch.mm(x, w), w)
    return x


def chain_inputs(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source = torch.Generator("cuda").manual_seed(seed)
    x = torch.randn(96, 96, device="cuda", generator=source).half()
    w = (torch.randn(96, 96, device="cuda", generator=source) / 10).half()
    return x, w, torch.randn(96, device="cuda", generator=source).half()


def test_streams_and_threads() -> None:
    call = chain(4)(chain_inputs(0)[0])
    failures: list[str] = []

    def work(seed: int) -> None:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            x, w, b = chain_inputs(seed)
            wanted = run_chain(x, w, b, 4)
            for _ in range(50):
                (got,) = call([x, w, b])
                if not torch.equal(got, wanted):  # type: ignore[arg-type]
                    failures.append(f"of seed {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_products_on_two_gpus() -> None:
    matrices = [torch.randn(96, 96, device=f"cuda:{index}").half() for index in (0, 1)]
    biases = [torch.randn(96, device=f"cuda:{index}").half() for index in (0, 1)]
    b = ProgramBuilder()
    values = [b.input(type_of(x)) for x in matrices]
    rows = [b.input(type_of(x)) for x in biases]
    results: list[NamedValue] = []
    for index in (1, 0, 1):
        results.append(b.allocate(type_of(matrices[index])))
        operands = rows[index], values[index], values[index]
        b.append(product_line("addmm", operands, results[-1], device=index))
    emitter = CppEmitter()
    call = emitter.load(emitter.emit(b.build(*results)), {})
    for _ in range(3):
        outputs = call([*matrices, *biases])
        for index, out in zip((1, 0, 1), outputs, strict=True):
            x, row = matrices[index], biases[index]
            assert isinstance(out, torch.Tensor)
            assert_same_bits(out, torch.addmm(row, x, x))


def test_products_are_captured_in_a_graph() -> None:
    x, w, b = chain_inputs(0)
    call = chain(4)(x)
    call([x, w, b])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (out,) = call([x, w, b])
    for seed in (1, 2):
        for old, new in zip((x, w, b), chain_inputs(seed), strict=True):
            old.copy_(new)
        graph.replay()
        assert torch.equal(out, run_chain(x, w, b, 4))  # type: ignore[arg-type]
