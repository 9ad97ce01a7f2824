"""Operators called through PyTorch's C functions: the same bits, or the same refusal."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode

from wrapperir.text import parse_program
from wrapperir_python.emitter import PythonEmitter

PROGRAM = """\
wrapperir 1

program @main(%x: f32[2, 4], %y: f32[4, 4]) {
  %r = allocate f32[2, 4]
  extern_kernel aten.mm.out(%x, %y, out = %r) writes(%r)
  %q = allocate f32[2, 4]
  extern_kernel aten.addmm.out(%r, %x, %y, out = %q) writes(%q)
  %b = reinterpret %r as f32[1, 2, 4]
  %c = reinterpret %y as f32[1, 4, 4]
  %s = allocate f32[1, 2, 4]
  extern_kernel aten.bmm.out(%b, %c, out = %s) writes(%s)
  %t = allocate f32[1, 2, 4]
  extern_kernel aten.baddbmm.out(%s, %b, %c, beta = 2, alpha = 0.5, out = %t) writes(%t)
  free %b
  free %c
  return %r, %q, %s, %t
}
"""


def load() -> Any:
    """Return the loaded ``call``; its globals hold the direct functions."""
    emitter = PythonEmitter()
    return emitter.load(emitter.emit(parse_program(PROGRAM)), {})


@pytest.fixture(scope="module")
def operators() -> ModuleType:
    """The compiled operators; every machine that runs the tests has a compiler."""
    found = load().__globals__["operators"].compiled
    assert isinstance(found, ModuleType)
    return found


PLAIN: dict[str, Callable[..., torch.Tensor]] = {
    "mm_out": torch.mm,
    "bmm_out": torch.bmm,
    "addmm_out": torch.addmm,
    "baddbmm_out": torch.baddbmm,
}


def pytorchs(name: str, *given: Any) -> None:
    """Call what PyTorch binds, with the arguments of the direct function."""
    *arguments, out = given
    if name.startswith("add") or name.startswith("badd"):
        x, a, b, beta, alpha = arguments
        PLAIN[name](x, a, b, beta=beta, alpha=alpha, out=out)
    else:
        PLAIN[name](*arguments, out=out)


@st.composite
def strided(draw: st.DrawFn, size: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A view of random numbers: permuted, with gaps, and not at its storage's start."""
    order = draw(st.permutations(range(len(size))))
    gaps = [draw(st.integers(0, 2)) for _ in size]
    room = [size[i] + gaps[i] for i in order]
    seed = draw(st.integers(0, 99))
    base = torch.randn(room, generator=torch.Generator().manual_seed(seed)).to(dtype)
    view = base.permute([order.index(i) for i in range(len(size))])
    for dim, extent in enumerate(size):
        start = draw(st.integers(0, gaps[dim]))
        view = view.narrow(dim, start, extent)
    assert view.shape == size
    return view


@st.composite
def products(draw: st.DrawFn, batched: bool) -> list[torch.Tensor]:
    """Two factors, something to add, and two equal tensors for the result."""
    extents = st.integers(0, 9)
    n, k, m = draw(extents), draw(extents), draw(extents)
    batch = (draw(st.integers(0, 3)),) if batched else ()
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
    left = draw(strided((*batch, n, k), dtype))
    right = draw(strided((*batch, k, m), dtype))
    shape = draw(st.sampled_from([(*batch, n, m), (*batch, n, 1), (m,), (1,)]))
    added = draw(strided(shape, dtype))
    out = draw(strided((*batch, n, m), dtype))
    return [left, right, added, out]


def same_layout(x: torch.Tensor) -> torch.Tensor:
    twin = torch.empty(x.untyped_storage().nbytes() // x.itemsize, dtype=x.dtype).zero_()
    return twin.as_strided(x.size(), x.stride(), x.storage_offset()).copy_(x)


NUMBERS = st.sampled_from([0, 1, 2, -1.5, 0.1, True])


@pytest.mark.parametrize("name", PLAIN)
@given(data=st.data())
def test_results_are_the_same_bits(
    operators: ModuleType, name: str, data: st.DataObject
) -> None:
    left, right, added, out = data.draw(products(name.startswith(("b", "bad"))))
    twin = same_layout(out)
    given: list[Any] = [left, right]
    if "add" in name:
        given = [added, left, right, data.draw(NUMBERS), data.draw(NUMBERS)]
    place = out.data_ptr()
    assert getattr(operators, name)(*given, out) is None
    pytorchs(name, *given, twin)
    assert out.data_ptr() == place
    torch.testing.assert_close(out, twin, rtol=0, atol=0, equal_nan=True)


A, B = torch.rand(2, 4), torch.rand(4, 4)
REFUSED: dict[str, Callable[[], tuple[Any, ...]]] = {
    "factors do not meet": lambda: (A, torch.rand(3, 4), torch.empty(2, 4)),
    "another dtype": lambda: (A, B.double(), torch.empty(2, 4)),
    "another dtype of out": lambda: (A, B, torch.empty(2, 4, dtype=torch.float64)),
    "a vector": lambda: (A, B[0], torch.empty(2)),
    "a sparse factor of another dtype": lambda: (A.double().to_sparse(), B, A.clone()),
    "no tensor": lambda: (A, [1.0], torch.empty(2, 4)),
    "none": lambda: (A, None, torch.empty(2, 4)),
    "overlapping memory": lambda: (A, B, torch.empty(4).expand(2, 4)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused_with_its_words(
    operators: ModuleType, name: str
) -> None:
    with pytest.raises(Exception) as wanted:  # noqa: PT011 whatever PyTorch raises
        pytorchs("mm_out", *REFUSED[name]())
    with pytest.raises(type(wanted.value)) as found:
        operators.mm_out(*REFUSED[name]())
    assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize("size", [(2, 5), (4, 4), (0,), (0, 0), (1, 2, 4), (8,)])
def test_a_result_is_never_resized(operators: ModuleType, size: tuple[int, ...]) -> None:
    out = torch.ones(size)
    with pytest.raises(ValueError, match="size of the result"):
        operators.mm_out(A, B, out)
    assert torch.equal(out, torch.ones(size))


def test_a_complex_number_is_pytorchs_to_refuse(operators: ModuleType) -> None:
    with pytest.raises(RuntimeError):
        operators.addmm_out(A, A, B, 1j, 1, torch.empty(2, 4))


@pytest.mark.parametrize("count", [0, 2, 4])
def test_the_number_of_arguments_is_checked(operators: ModuleType, count: int) -> None:
    with pytest.raises(TypeError, match="3 arguments"):
        operators.mm_out(*[A] * count)


def test_other_tensors_go_the_way_of_pytorch(operators: ModuleType) -> None:
    out = torch.empty(2, 4, device="meta")
    operators.mm_out(A.to("meta"), B.to("meta"), out)
    with FakeTensorMode() as mode:
        fake = torch.empty(2, 4)
        operators.mm_out(mode.from_tensor(A), mode.from_tensor(B), fake)
    assert fake.shape == (2, 4)

    class Counted(torch.Tensor):
        seen = 0

        @classmethod
        def __torch_function__(cls, *arguments: Any, **keywords: Any) -> Any:
            cls.seen += 1
            return super().__torch_function__(*arguments, **keywords)  # type: ignore[no-untyped-call]

    out = torch.empty(2, 4)
    operators.mm_out(A.as_subclass(Counted), B, out)
    assert Counted.seen == 1
    assert torch.equal(out, A @ B)


def test_no_gradient_is_recorded(operators: ModuleType) -> None:
    weight = torch.nn.Parameter(B)
    out = torch.empty(2, 4)
    operators.mm_out(A.requires_grad_(), weight, out)
    A.requires_grad_(False)
    assert not out.requires_grad
    assert torch.equal(out, A @ B)


def test_threads_share_the_functions(operators: ModuleType) -> None:
    a, b = torch.rand(128, 128), torch.rand(128, 128)
    outs = [torch.empty(128, 128) for _ in range(4)]

    def work(out: torch.Tensor) -> None:
        for _ in range(50):
            operators.mm_out(a, b, out)

    threads = [threading.Thread(target=work, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(out, a @ b) for out in outs)


def test_they_are_compiled_once() -> None:
    load()
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "wrapperir" / "operators"
    (library,) = folder.glob("*.so")
    built = library.stat().st_mtime_ns
    assert folder.stat().st_mode & 0o777 == 0o700
    load()
    assert [path.stat().st_mtime_ns for path in folder.glob("*.so")] == [built]


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false", "'"])
def test_without_a_compiler_pytorchs_own_are_called(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [torch.rand(2, 4), torch.rand(4, 4)]
    wanted = load()(list(inputs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", compiler)
    call = load()
    assert call.__globals__["operators"].compiled is None
    for found, expected in zip(call(list(inputs)), wanted, strict=True):
        assert torch.equal(found, expected)


def test_anothers_folder_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "wrapperir").mkdir()
    (tmp_path / "wrapperir" / "operators").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert load().__globals__["operators"].compiled is None
