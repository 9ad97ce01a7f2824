"""Launches of emitted Python as if there were a GPU, in a process of their own.

``python -m tests.python_emitter.fake_launches`` reads the name of a check a line, and
answers with a line of JSON: nothing, or why the check failed.
"""

import contextvars
import ctypes
import gc
import json
import math
import resource
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import triton
from attrs import evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st
from triton.runtime import _allocation

from tests.cpp_emitter.moved import on_gpu
from tests.cpp_emitter.tritons_launcher import tritons_launcher
from tests.python_emitter.running import assert_same
from wrapperir import ir as wir
from wrapperir.emit.python.load_module import load_module
from wrapperir.interp import interpret
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.kernels import triton_compile
from wrapperir.testing import CASES, Case, example_constants, example_inputs
from wrapperir.testing.conformance_cases import DESCRIPTOR_CASES
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir_fx.kernel_functions import kernel_launcher
from wrapperir_python.emitter import PythonEmitter

ON_GPU = [case for case in CASES if case.name.endswith("_triton") and not case.faults]
DTYPES = tuple(
    dtype
    for dtype in wir.DType
    if dtype.triton_name is not None and not dtype.triton_name.startswith("fp8")
)


class Gpu:
    """The driver that is made up."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.driver.fake_log.restype = ctypes.c_char_p
        self.driver.fake_set_stream_of.argtypes = [ctypes.c_int, ctypes.c_uint64]
        self.enter(0)

    def enter(self, device: int, has_context: bool = True) -> None:
        """Make a device current, with or without a context of this thread."""
        self.driver.fake_set_device(device, has_context)

    def log(self) -> list[str]:
        """Return what was called since the last log."""
        return str(self.driver.fake_log().decode()).splitlines()

    def launches(self) -> list[str]:
        return [line for line in self.log() if line.startswith("launch")]


GPU: Gpu


def loaded(program: wir.Program, constants: dict[str, torch.Tensor]) -> Any:
    """Load the Python that is emitted for a GPU; tensors on the CPU pass for its own."""
    emitter = PythonEmitter(trusts_inputs=True)
    artifact = emitter.emit(on_gpu(program))
    text = str(artifact.files["program.py"])
    text = text.replace("_empty_strided_cuda", "_empty_strided_cpu")
    text = text.replace("torch.device('cuda', 0)", "torch.device('cpu')")
    files = {**artifact.files, "program.py": text}
    module: Any = load_module(evolve(artifact, files=files), constants, interpreted=False)
    return module.call


@contextmanager
def _only_shown(sizes: str = "8") -> Iterator[None]:
    """Have launches show the bytes of parameters of some sizes, and run nothing."""
    GPU.driver.fake_show_parameters(sizes.encode())
    GPU.log()
    try:
        yield
    finally:
        GPU.driver.fake_show_parameters(b"")


def _conformance(case: Case) -> Callable[[], None]:
    def check() -> None:
        mine, theirs = (example_constants(case.program, 0) for _ in range(2))
        call = loaded(case.program, mine)
        for seed in case.seeds:
            GPU.log()
            outputs = call(example_inputs(case.program, seed))
            log = GPU.log()
            assert not [line for line in log if "wrong" in line or "no such" in line], log
            assert any(line.startswith("launch") for line in log), log
            wanted = interpret(case.program, example_inputs(case.program, seed), theirs)
            assert_same(outputs, wanted)

    return check


def _described() -> list[str]:
    """Return what is encoded for the cases with tensors behind descriptors."""
    encoded: list[str] = []
    for case in DESCRIPTOR_CASES:
        call = loaded(case.program, {})
        if case.faults:
            with raises(
                RuntimeError, "the address of a tensor descriptor is not a multiple"
            ):
                call(example_inputs(case.program, 0))
            continue
        for seed in case.seeds:
            GPU.log()
            outputs = call(example_inputs(case.program, seed))
            log = GPU.log()
            assert not [line for line in log if "wrong" in line], log
            assert any(line.startswith("launch") for line in log), log
            encoded += [line for line in log if line.startswith("encode")]
            assert_same(
                outputs, interpret(case.program, example_inputs(case.program, seed), {})
            )
    return encoded


def check_descriptors_are_encoded() -> None:
    wanted = "encode type 7 rank 2 block 4 4 steps 1 1 "
    wanted += "interleave 0 swizzle 0 promotion 2 fill 0"
    encoded = _described()
    assert set(encoded) == {wanted}
    assert len(encoded) % 6 == 0


def check_descriptors_are_passed_in_parts() -> None:
    GPU.driver.fake_set_capability(80)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.cuda, "get_device_capability", lambda index=0: (8, 0))
            assert _described() == []
    finally:
        GPU.driver.fake_set_capability(90)


def check_special_launches_have_attributes() -> None:
    kernel, _ = _fresh_kernel()
    given = (3, 1, 1, *_tensors(), 32)
    facts = (*kernel.answer, (), 0)
    launch = "launch add grid {} 1 1 block 32 1 1 shared 0 on current"
    for kind, attributes, grid in (
        ((1, False, False), [], 3),
        ((1, True, False), ["attribute 2 is 1"], 3),
        ((1, False, True), ["attribute 6 is 1"], 3),
        ((2, False, False), ["attribute 4 is 2", "attribute 5 is 1"], 6),
    ):
        special, _ = _fresh_kernel(answer=(*facts, *kind))
        with _only_shown():
            special(*given)
            log = [line for line in GPU.log() if line.startswith(("launch", "attribute"))]
        assert log == [*attributes, launch.format(grid)], log
        assert special.slow == []
    special(2**31 - 1, 1, 1, *_tensors(), 32)  # of the clusters: too many, as Triton says
    assert len(special.slow) == 1


def check_scratch_memory_follows_the_arguments() -> None:
    kernel, _ = _fresh_kernel()
    facts = (*kernel.answer, (), 0, 1, False, False)
    made = {"names": ("a", "b"), "types": ("*fp32", "*fp32")}
    x, y, _ = _tensors()
    for wanted in (64, 0):
        scratched, _ = _fresh_kernel(answer=(*facts, wanted), **made)
        with _only_shown("8888"):
            scratched(2, 3, 1, x, y)
            (line,) = (each for each in GPU.log() if each.startswith("parameters"))
        found = [int.from_bytes(bytes.fromhex(each), "little") for each in line.split()[1:]]
        assert found[:2] == [x.data_ptr(), y.data_ptr()]
        assert bool(found[2]) == bool(wanted)
        assert found[2] % 16 == 0
        assert found[3:] == [0]
        assert not scratched.slow
    large, _ = _fresh_kernel(answer=(*facts, 2**62), **made)
    with raises(RuntimeError, "k: there is no scratch memory for its programs"):
        large(8, 1, 1, x, y)


def check_descriptors_of_other_tensors_are_triton_s() -> None:
    kernel, _ = _fresh_kernel(types=("tensordesc<fp32[4, 4]>", "*fp32", "*fp32", "i32"))
    x, y, out = _tensors()
    kernel(1, 1, 1, x, y, out, 32)
    assert len(kernel.slow) == 1


@cache
def _add() -> tuple[Any, ModuleType]:
    """Return a kernel that adds, with one for any address, and the module of launches."""
    x = wir.tensor("f32", (wir.Symbol("s0"),))
    b = ProgramBuilder()
    inputs = [b.input(x), b.input(x)]
    b.symbol("s0", wir.SizeOf(inputs[0].name, 0), lower=1, upper=99)
    add = b.kernel(library_kernel(KernelKind.ADD, wir.Language.TRITON))
    out = b.allocate(x)
    b.call(add, *inputs, out, wir.Symbol("s0"))
    scope = loaded(b.build(out), {}).__globals__
    return scope[f"{add.name}_config0"], scope["launches"]


def _tensors(count: int = 3) -> list[torch.Tensor]:
    # Memory of the CPU's allocator begins at multiples of 64.
    return [torch.arange(32.0) + index for index in range(count)]


def check_a_launch_passes_arguments_grid_and_stream() -> None:
    kernel, _ = _add()
    x, y, out = _tensors()
    kernel(2, 1, 1, x, y, out, 32)
    assert torch.equal(out, x + y)
    GPU.log()
    kernel(2, 1, 1, x, torch.nn.Parameter(y, requires_grad=False), out, 32)
    (line,) = GPU.log()
    assert line == "launch add grid 2 1 1 block 32 1 1 shared 0 on current", line


def check_fx_graphs_call_kernels() -> None:
    kernel, _ = _add()
    graph = torch.fx.Graph()
    given = [graph.placeholder(name) for name in ("x", "y", "out")]
    graph.call_function(kernel, (2, 1, 1, *given, 32))
    graph.output(None)
    x, y, out = _tensors()
    torch.fx.GraphModule({}, graph)(x, y, out)
    assert torch.equal(out, x + y)


def check_addresses_pick_the_variant() -> None:
    kernel, _ = _fresh_kernel(addresses=0b011)
    x, y, out = _tensors()
    off = torch.arange(33.0)[1:]
    for pair, variant in (((x, y), 1), ((off, y), 0), ((x, off), 0), ((y, x), 1)):
        kernel(1, 1, 1, *pair, out, 32)
        assert kernel.asked[-1] == (0, variant) or kernel.asked.count((0, variant)) == 1
    assert kernel.asked == [(0, 1), (0, 0)]


def check_numbers_pick_the_variant() -> None:
    kernel, _ = _fresh_kernel(addresses=0b001, numbers=0b1000)
    x, y, out = _tensors()
    for number in (16, 17, 32, 0, -16, 1):
        kernel(1, 1, 1, x, y, out, number)
    kernel(1, 1, 1, torch.arange(33.0)[1:], y, out, 3)
    assert kernel.asked == [(0, 3), (0, 1), (0, 0)]


class _Direct:
    """A kernel made by hand; ``asked`` are the devices and variants that were loaded."""

    def __init__(self, launches: ModuleType, code: bytes, **facts: Any) -> None:
        self.asked: list[tuple[int, int]] = []
        self.slow: list[tuple[Any, ...]] = []
        self.answer: Any = facts.pop("answer", (code, "add", 32, 0))
        names = facts.pop("names", ("a", "b", "c", "n"))
        types = facts.pop("types", ("*fp32", "*fp32", "*fp32", "i32"))
        masks = facts.pop("addresses", 0), facts.pop("numbers", 0)
        key = str(id(self))
        keep = self.asked, self.slow

        def load(device: int, variant: int) -> Any:
            keep[0].append((device, variant))
            if self.answer is None:
                return None
            return (f"{key} {variant}", *self.answer)

        def slow(*given: Any) -> None:
            keep[1].append(given)

        self.kernel = launches._native.Kernel(
            *("k", None, slow, load, names, types, *masks)
        )

    def __call__(self, *given: Any) -> None:
        self.kernel(*given)


def _fresh_kernel(**facts: Any) -> tuple[_Direct, ModuleType]:
    _, launches = _add()
    found = next(iter(launches._done.values()))
    return _Direct(launches, found.code, **facts), launches


def check_each_device_has_its_own_code_and_stream() -> None:
    kernel, _ = _fresh_kernel()
    for device in (0, 1):
        GPU.driver.fake_set_stream_of(device, 0x1000 + device)
    try:
        for device in (1, 0, 1, 0):
            GPU.enter(device)
            GPU.log()
            kernel(1, 1, 1, *_tensors(), 32)
            log = GPU.log()
            assert log[-1].endswith(f"on current of {device}"), log
            assert "wrong context" not in log
    finally:
        GPU.enter(0)
    assert kernel.asked == [(1, 0), (0, 0)]


def check_a_thread_without_a_context_gets_one() -> None:
    kernel, _ = _fresh_kernel()
    logs: list[list[str]] = []

    def run() -> None:
        GPU.enter(1, has_context=False)
        GPU.log()
        for _ in range(2):
            kernel(1, 1, 1, *_tensors(), 32)
            logs.append(GPU.log())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert logs[0][:2] == ["context", "module ELF"], logs
    assert len(logs[1]) == 1
    assert kernel.asked == [(1, 0)]


def check_programs_share_code() -> None:
    kernel, launches = _fresh_kernel()
    code = kernel.answer[0]
    makes = [
        launches._native.Kernel(
            *("k", None, None, lambda *_: ("shared", code, "add", 32, 0)),
            *(("a",), ("*fp32",), 0, 0),
        )
        for _ in range(2)
    ]
    with _only_shown():
        for made in makes:
            made(1, 1, 1, torch.zeros(1))
        log = GPU.log()
    assert log.count("module ELF") == 1, log


def check_hooks_are_triton_s() -> None:
    kernel, _ = _fresh_kernel()
    given = (1, 1, 1, *_tensors(), 32)
    runtime = triton.knobs.runtime

    def hook(*_: Any) -> None:
        pass

    for name in ("launch_enter_hook", "launch_exit_hook"):
        chain = getattr(runtime, name)
        chain.add(hook)
        kernel(*given)
        assert kernel.slow.pop() == given
        chain.remove(hook)
        kernel(*given)
        assert not kernel.slow
        with runtime.scope():
            setattr(runtime, name, hook)
            kernel(*given)
            assert kernel.slow.pop() == given
        kernel(*given)
        assert not kernel.slow


class _Other(torch.Tensor):
    pass


def check_tensors_of_a_subclass_are_triton_s() -> None:
    kernel, _ = _fresh_kernel()
    x, y, out = _tensors()
    given = (1, 1, 1, x, y.as_subclass(_Other), out, 32)
    GPU.log()
    kernel(*given)
    assert [a is b for a, b in zip(kernel.slow.pop(), given, strict=True)] == [True] * 7
    assert GPU.log() == []


def check_tensors_without_memory_are_triton_s() -> None:
    kernel, _ = _fresh_kernel()
    x, y, out = _tensors()
    kernel(1, 1, 1, x.to_sparse(), y, out, 32)
    assert len(kernel.slow) == 1


def check_kernels_that_need_more_are_triton_s() -> None:
    kernel, _ = _fresh_kernel(answer=None)
    for _ in range(3):
        kernel(1, 1, 1, *_tensors(), 32)
    assert len(kernel.slow) == 3
    assert kernel.asked == [(0, 0)]


def check_kernels_that_triton_launches_have_an_allocator() -> None:
    _, launches = _add()
    allocators: list[Any] = []

    class Function:
        def __getitem__(self, grid: Any) -> Callable[..., None]:
            return lambda **_: allocators.append(_allocation._allocator.get())

    made = object.__new__(launches.DispatchedKernel)
    made.names, made.facts, made.function = (), {"values": {}, "blocks": {}}, Function()
    contextvars.Context().run(made, 1, 1, 1)
    with_own = contextvars.Context()
    with_own.run(triton.set_allocator, _tensors)
    with_own.run(made, 1, 1, 1)
    assert allocators == [launches._allocate, _tensors]


@contextmanager
def raises(kind: type[Exception], *texts: str) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert all(text in str(caught.value) for text in texts), caught.value


def check_wrong_arguments_are_errors() -> None:
    kernel, _ = _fresh_kernel()
    x, y, out = _tensors()
    with raises(TypeError, "k takes 3 extents and 4 arguments", "not 6 in all"):
        kernel(1, 1, 1, x, y, out)
    with raises(TypeError, "not 8 in all"):
        kernel(1, 1, 1, x, y, out, 1, 2)
    with raises(TypeError, "by position"):
        kernel.kernel(1, 1, 1, x, y, out, n=1)
    wrong: Any
    for wrong in (None, 3, [1.0], "x", x.numpy()):
        with raises(TypeError, "k takes b as *fp32, not a "):
            kernel(1, 1, 1, x, wrong, out, 32)
    for wrong in (None, 1.0, "1", x):
        with raises(TypeError, "k takes n as i32, not a "):
            kernel(1, 1, 1, x, y, out, wrong)
    for wrong in (2**31, -(2**31) - 1, 2**80):
        with raises(OverflowError, "k takes n as i32, which cannot hold", str(wrong)):
            kernel(1, 1, 1, x, y, out, wrong)
    for wrong in (1.0, None, x):
        with raises(TypeError, "the launch grid of k has ints, not a "):
            kernel(1, wrong, 1, x, y, out, 1)
    assert not kernel.slow


def check_grids_at_their_limits() -> None:
    kernel, _ = _fresh_kernel()
    with _only_shown():
        given = (*_tensors(), 32)
        for empty in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (-1, 1, 1), (-(2**70), 1, 1)):
            GPU.log()
            kernel(*empty, *given)
            assert GPU.log() == []
        for grid in ((2**31 - 1, 1, 1), (1, 65535, 65535)):
            kernel(*grid, *given)
            line = GPU.launches()[-1]
            assert "grid {} {} {} ".format(*grid) in line, line
        for axis, extent in enumerate((2**31, 65536, 65536)):
            large = [1, 1, 1]
            for large[axis] in (extent, 2**70):
                text = f"k has {large[axis]} programs along {'xyz'[axis]}, and at most"
                with raises(RuntimeError, text):
                    kernel(*large, *given)


def check_errors_of_the_driver_are_raised() -> None:
    kernel, _ = _fresh_kernel()
    given = (1, 1, 1, *_tensors(), 32)
    kernel(*given)
    GPU.driver.fake_fail_next_launch(1)
    text = "launching k failed: invalid argument (CUDA_ERROR_INVALID_VALUE, 1)"
    with raises(RuntimeError, text):
        kernel(*given)
    kernel(*given)
    large, _ = _fresh_kernel(answer=(kernel.answer[0], "add", 32, 300_000))
    with raises(RuntimeError, "k needs 300000 bytes of shared memory, and the device has"):
        large(*given)
    asking, _ = _fresh_kernel(answer=(kernel.answer[0], "add", 32, 100_000))
    GPU.log()
    asking(*given)
    assert "attribute add 8 100000" in GPU.log()


def check_errors_of_loading_are_raised_each_time() -> None:
    kernel, _ = _fresh_kernel()
    right, kernel.answer = kernel.answer, (1, 2)
    for _ in range(2):
        with raises(TypeError):
            kernel(1, 1, 1, *_tensors(), 32)
    kernel.answer = right
    kernel(1, 1, 1, *_tensors(), 32)
    assert len(kernel.asked) == 3


_NUMBERS = tuple(f"n{index}" for index in range(len(DTYPES)))
_SIZES = {"1": 1, "8": 1, "6": 2, "2": 4, "4": 8}
"""Bytes of a type by the last digit of its name: i8, u16, fp32, i64."""


@cache
def _passing() -> tuple[Any, Callable[[Sequence[Any]], None]]:
    """Return a launch of a kernel that takes a number of each dtype, and Triton's own."""
    source = f"""\
import triton
import triton.language as tl


@triton.jit
def k(x, {", ".join(_NUMBERS)}, y):
    tl.store(y, tl.load(x))
"""
    kernel = wir.KernelDefinitionLine(
        name="k",
        language=wir.Language.TRITON,
        parameters=(
            wir.BufferParameter("x", wir.DType.F32, wir.Access.READ),
            *(wir.ScalarParameter(n, d) for n, d in zip(_NUMBERS, DTYPES, strict=True)),
            wir.BufferParameter("y", wir.DType.F32, wir.Access.WRITE),
        ),
        grid=(1,),
        entry="k",
        source=source,
    )
    b = ProgramBuilder()
    b.kernel(kernel)
    x, y = (b.input(wir.tensor("f32", (4,)), mutated=True) for _ in range(2))
    b.call(kernel, x, *(1 for _ in DTYPES), y)
    scope = loaded(b.build(), {}).__globals__
    launches = scope["launches"]
    facts = {**launches._kernels[0].facts, "name": "k"}
    symbol = next(iter(launches._done.values())).result["function"]
    text = launches._kernels[0].source.read_text()
    return scope["k"], tritons_launcher(facts, text, symbol)


def _range(dtype: wir.DType) -> tuple[int, int]:
    if dtype is wir.DType.BOOL:
        return 0, 1
    bits = 8 * dtype.itemsize
    is_unsigned = dtype.value.startswith("u")
    return (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _numbers(dtype: wir.DType) -> st.SearchStrategy[Any]:
    if dtype.is_float:
        widths: dict[wir.DType, Any] = {wir.DType.F16: 16, wir.DType.F32: 32}
        own = st.floats(width=widths.get(dtype, 64))
        near = (65519.9, 65504.0, 6e-8, 2.0**-25, 1e-310, 1e300, math.inf, math.nan, -0.0)
        return own | st.sampled_from(near) | st.floats() | st.integers(-(2**60), 2**60)
    low, high = _range(dtype)
    edges = st.sampled_from((low, low + 1, high - 1, high, 0, 1))
    return edges | st.integers(low - 2, high + 2) | st.booleans()


def check_numbers_are_passed_as_triton_passes_them() -> None:
    ours, theirs = _passing()
    x, y = torch.zeros(4), torch.zeros(4)
    kinds = [dtype.triton_name or "" for dtype in DTYPES]
    shown = "".join(str(_SIZES[kind[-1]]) for kind in kinds)

    def logged(launch: Callable[[], None]) -> list[str] | str:
        GPU.log()
        try:
            launch()
        except OverflowError:
            return "overflow"
        return [line for line in GPU.log() if line.startswith("parameters")]

    @settings(max_examples=600, deadline=None, database=None, derandomize=True)
    @example([1 for _ in DTYPES])
    @given(st.tuples(*map(_numbers, DTYPES)).map(list))
    def same(numbers: list[Any]) -> None:
        mine = logged(lambda: ours(1, 1, 1, x, *numbers, y))
        pairs = list(zip(DTYPES, numbers, strict=True))
        fits = all(
            d.is_float or _range(d)[0] <= number <= _range(d)[1] for d, number in pairs
        )
        if not fits:
            assert mine == "overflow", numbers
            return
        wanted = logged(lambda: theirs([x.data_ptr(), *numbers, y.data_ptr()]))
        assert mine == wanted, numbers

    with _only_shown(f"8{shown}888"):
        same()


def check_numbers_that_are_not_pythons_own() -> None:
    kernel, _ = _fresh_kernel()
    x, y, out = _tensors()
    for number in (np.int32(32), np.int64(32)):
        kernel(2, 1, 1, x, y, out, number)
        assert torch.equal(out, x + y)


def check_bits_of_floats() -> None:
    kernel, _ = _fresh_kernel(names=("v",), types=("fp64",))
    with _only_shown("888"):
        for value in (0.1, -0.0, math.inf, 5e-324):
            GPU.log()
            kernel(1, 1, 1, value)
            (shown,) = [x for x in GPU.log() if x.startswith("parameters")]
            assert shown.split()[1:] == [struct.pack("<d", value).hex(), "00" * 8, "00" * 8]


def check_threads_share_a_kernel() -> None:
    kernel, _ = _fresh_kernel(addresses=0b011)
    failures: list[BaseException] = []

    def run(device: int) -> None:
        try:
            GPU.enter(device)
            x, y, out = _tensors()
            for number in range(3000):
                x[0] = number
                kernel(2, 1, 1, x, y, out, 32)
                assert out[0] == number + y[0]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index % 2,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert sorted(set(kernel.asked)) == [(0, 1), (1, 1)]


def check_nothing_leaks() -> None:
    kernel, _ = _fresh_kernel()
    given = (1, 1, 1, *_tensors(), 32)

    def work() -> None:
        for _ in range(20_000):
            kernel.kernel(*given)
            with suppress(OverflowError):
                kernel.kernel(*given[:-1], 2**40)
        GPU.log()

    with _only_shown():
        work()
        counts = [sys.getrefcount(item) for item in given]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(3):
            work()
        assert [sys.getrefcount(item) for item in given] == counts
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 3000, f"{grown} KiB"
    dropped = [_fresh_kernel()[0] for _ in range(100)]
    held = sys.getrefcount(dropped[0].kernel.slow)
    assert held < 6
    del dropped
    gc.collect()


def _program(source: str, *blocks: int) -> wir.Program:
    """Return a program with a call of ``k``; ``blocks`` are the values of its configs."""
    constant = (wir.ConstexprParameter("B"),) if blocks else ()
    kernel = wir.KernelDefinitionLine(
        name="k",
        language=wir.Language.TRITON,
        parameters=(wir.BufferParameter("x", wir.DType.F32, wir.Access.WRITE), *constant),
        grid=(1,),
        configs=tuple(wir.KernelConfig((("B", block),)) for block in blocks),
        entry="k",
        source=f"import triton\nimport triton.language as tl\n\n\n{source}",
    )
    b = ProgramBuilder()
    b.kernel(kernel)
    b.call(kernel, b.input(wir.tensor("f32", (64,)), mutated=True))
    return b.build()


def check_a_second_load_takes_the_cache() -> None:
    program = _program("@triton.jit\ndef k(x):\n    tl.store(x, 4.5)\n")
    first = loaded(program, {}).__globals__["launches"]
    assert len(first._done) == 1
    worker, attempt = first._worker, first._worker.attempt
    vars(worker)["attempt"] = None
    try:
        again = loaded(program, {}).__globals__["launches"]
    finally:
        vars(worker)["attempt"] = attempt
    assert again._done == first._done
    launches = loaded(program, {}).__globals__["launches"]
    assert launches._done == first._done
    # Not from the cache, in this process, in wrapperir's processes and in one of its own.
    launches._cache = None
    wrapperirs = sys.modules["wrapperir.kernels.triton_compile"]
    for most, known in ((2, None), (0, wrapperirs), (0, None)):
        launches._done.clear()
        launches._MOST_IN_THIS_PROCESS = most
        sys.modules["wrapperir.kernels.triton_compile"] = known  # type: ignore[assignment]
        try:
            launches.build()
        finally:
            sys.modules["wrapperir.kernels.triton_compile"] = wrapperirs
        assert launches._done == first._done


def check_a_process_that_runs_compiles_a_single_kernel() -> None:
    source = "@triton.jit\ndef k(x):\n    tl.store(x, 7.5)\n"
    triton_compile.WORKERS.start()
    assert triton_compile.WORKERS.is_running
    first = loaded(_program(source), {}).__globals__["launches"]
    worker, attempt = first._worker, first._worker.attempt
    vars(worker)["attempt"] = None
    try:
        loaded(_program(source.replace("7.5", "8.5")), {})
    finally:
        vars(worker)["attempt"] = attempt


def check_code_for_any_address_is_compiled_when_one_is_not_aligned() -> None:
    program = _program("@triton.jit\ndef k(x):\n    tl.store(x, 6.5)\n")
    call = loaded(program, {})
    launches = call.__globals__["launches"]
    aligned = torch.zeros(64)
    other = torch.zeros(128)[1:65]
    for x, variants in ((aligned, 1), (other, 2), (aligned, 2)):
        with _only_shown():
            call([x])
        assert len(launches._done) == variants


def check_a_kernel_that_does_not_compile_is_an_error() -> None:
    program = _program("@triton.jit\ndef k(x):\n    tl.store(x, tl.arange(0, 3))\n")
    with raises(Exception, "WIR709", "k does not compile for sm_90", "power of 2"):
        loaded(program, {})


def check_a_choice_that_does_not_compile_is_not_picked() -> None:
    source = (
        "@triton.jit\ndef k(x, B: tl.constexpr):\n    tl.store(x + tl.arange(0, B), 1)\n"
    )
    call = loaded(_program(source, 3, 4), {})
    with _only_shown():
        call([torch.zeros(64)])
    assert call.choices()[-1].kernel == "k_config1"
    assert call.choices()[-1].microseconds[0] == ("k_config0", None)
    with raises(RuntimeError, "k_config0 does not compile for sm_90"):
        call.__globals__["k_config0"](1, 1, 1, torch.zeros(64))


def check_a_source_that_only_this_process_can_execute() -> None:
    asserted = 'import sys\n\nassert "tests.cpp_emitter.moved" in sys.modules\n\n\n'
    program = _program(f"{asserted}@triton.jit\ndef k(x):\n    tl.store(x, 5.5)\n")
    launches = loaded(program, {}).__globals__["launches"]
    known = dict(launches._done)
    launches._done.clear()
    launches._cache, launches._MOST_IN_THIS_PROCESS = None, 0
    launches.build()
    assert launches._done == known


def check_graphs_launch_in_the_same_way() -> None:
    definition = library_kernel(KernelKind.ADD, wir.Language.TRITON)
    launch: Any = kernel_launcher(definition, interpreted=False)
    x, y, out = _tensors()
    for count in (32, 13, 32):
        out.zero_()
        GPU.log()
        launch(x, y, out, count)
        assert len(GPU.launches()) == 1
        assert torch.equal(out[:count], (x + y)[:count])
        assert not out[count:].any()
    assert len(launch.__globals__["launches"]._done) == 2  # by what the number divides


def check_other_functions_are_triton_s() -> None:
    heuristics = "@triton.heuristics({'B': lambda given: 4})\n@triton.jit\ndef k(x, B: "
    program = _program(f"{heuristics}tl.constexpr):\n    tl.store(x, B)\n")
    scope = loaded(program, {}).__globals__
    assert type(scope["k"]).__name__ == "DispatchedKernel"


CHECKS: dict[str, Callable[[], None]] = {
    **{f"conformance_{case.name}": _conformance(case) for case in ON_GPU},
    **{name[6:]: check for name, check in globals().items() if name.startswith("check_")},
}


def pretend() -> None:
    """Have PyTorch say that there are two GPUs."""
    cuda: Any = torch.cuda
    cuda.is_available = lambda: True
    cuda.device_count = lambda: 2
    cuda.current_device = lambda: 0
    cuda.get_device_capability = lambda index=0: (9, 0)
    cuda._DeviceGuard = lambda index: nullcontext()
    cuda.set_device = lambda index: None
    cuda.is_current_stream_capturing = lambda: False


def serve(checks: Mapping[str, Callable[[], None]]) -> None:
    """Answer each name of a check that is read with why it fails."""
    for line in sys.stdin:
        problem = ""
        try:
            checks[line.strip()]()
        except Exception:
            problem = traceback.format_exc()
        print(json.dumps(problem), flush=True)


def main() -> None:
    """Run checks until there are no more."""
    global GPU
    GPU = Gpu()
    pretend()
    serve(CHECKS)


if __name__ == "__main__":
    assert Path.cwd().joinpath("tests").is_dir()
    main()
