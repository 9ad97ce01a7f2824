"""Programs that call multi-kernels whose choices can be told apart.

Kernels of one multi-kernel do the same. These write their own number, or add it, so that
tests see which one ran; the opaque ones are functions of the tests.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.fx import GraphModule

from wrapperir.fx import call_kernel, call_multi_kernel, kernel_registry
from wrapperir.fx.kernel_registry import _MULTI_KERNELS, MULTI_KERNEL_FUNCTIONS
from wrapperir.ir import (
    Access,
    BufferParameter,
    DType,
    Expr,
    KernelDefinitionLine,
    Language,
    Program,
    ScalarParameter,
    Selection,
    SizeOf,
    Symbol,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.tuning import kernel_choices
from wrapperir.verify import verify
from wrapperir_fx.choosing import Decision
from wrapperir_fx.graph_module import KERNELS, SavedKernels, build_graph_module

NAMES = ("zeroth", "first", "second")
CPP = """\
#include <chrono>
#include <cstdint>
extern "C" void kernel(const float* a, const float* b, float* out, int64_t n) {{
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::microseconds({spin})) {{}}
  for (int64_t i = 0; i < n; ++i) out[i] = {number};
}}
"""
PARAMETERS = (
    BufferParameter("a", DType.F32, Access.READ),
    BufferParameter("b", DType.F32, Access.READ),
    BufferParameter("out", DType.F32, Access.WRITE),
    ScalarParameter("n", DType.I64),
)


def opaque_kernel(number: int) -> KernelDefinitionLine:
    """Return a kernel that :func:`numbering` has write its number."""
    return KernelDefinitionLine(
        name=NAMES[number],
        language=Language.OPAQUE,
        parameters=PARAMETERS,
        entry=f"tests_{NAMES[number]}",
        source="out[:] = number",
    )


def cpp_kernel(number: int, spin: int = 0) -> KernelDefinitionLine:
    """Return a kernel in C++ that writes its number, after so many microseconds."""
    return KernelDefinitionLine(
        name=NAMES[number],
        language=Language.CPP,
        parameters=PARAMETERS,
        entry="kernel",
        source=CPP.format(number=number, spin=spin),
    )


OPAQUE = tuple(opaque_kernel(number) for number in range(3))


@contextmanager
def numbering(
    before: Callable[[int], object] = lambda number: None,
) -> Generator[list[int]]:
    """Have opaque kernels write their number; return those of the launches so far.

    ``before`` is called with the number at each launch.  What multi-kernels decided
    before is forgotten, and what they decide meanwhile is forgotten afterwards.
    """
    launched: list[int] = []

    def function(number: int) -> Callable[..., None]:
        def write(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, n: int) -> None:
            before(number)
            launched.append(number)
            out.fill_(number)

        return write

    functions = {f"tests_{name}": function(at) for at, name in enumerate(NAMES)}
    with mock.patch.dict(kernel_registry._OPAQUE, functions), undecided():
        yield launched


@contextmanager
def undecided() -> Generator[None]:
    """Forget what multi-kernels have decided, and afterwards what they decide meanwhile."""
    with (
        mock.patch.object(kernel_choices, "_decisions", deque[Decision]()),
        mock.patch.dict(_MULTI_KERNELS, clear=True),
        mock.patch.dict(MULTI_KERNEL_FUNCTIONS, clear=True),
    ):
        yield


ROWS, COLUMNS = Symbol("s0"), Symbol("s1")


def program(
    selection: Selection,
    kernels: Sequence[KernelDefinitionLine] = OPAQUE,
    size: tuple[Expr, Expr] = (ROWS, COLUMNS),
    n: Expr | None = None,
) -> Program:
    """Return a program that calls a multi-kernel of ``kernels`` on matrices of a size.

    Its sizes are ``M`` and ``N``; its last argument is a number ``n``.
    """
    b = ProgramBuilder()
    x = b.input(tensor("f32", size), name="x")
    for dim, extent in enumerate(size):
        if isinstance(extent, Symbol):
            b.symbol(extent.name, SizeOf("x", dim), lower=0, upper=1 << 20)
    for kernel in kernels:
        b.kernel(kernel)
    many = b.multi_kernel(
        kernels, name="many", sizes={"M": ("a", 0), "N": ("out", 1)}, selection=selection
    )
    out = b.allocate(tensor("f32", size), name="out")
    b.call(many, x, x, out, size[0] * size[1] if n is None else n)
    b.free(x)
    built = b.build(out)
    assert verify(built) == ()
    return built


def module(selection: Selection, **given: Any) -> GraphModule:
    """Return the graph module of :func:`program`."""
    return build_graph_module(program(selection, **given), {})


def chosen(graph: Callable[..., Any], rows: int = 4, columns: int = 4) -> int:
    """Run a graph of :func:`program`; return the number of the kernel that ran."""
    (out,) = graph(torch.full((rows, columns), 9.0))
    assert out.shape == (rows, columns)
    (number,) = set(out.flatten().tolist())
    return int(number)


def called(graph: GraphModule) -> list[str]:
    """Return the names of kernels and multi-kernels that a graph calls by our operators."""
    return [
        str(node.args[0]).partition(":")[0]
        for owner in graph.modules()
        if isinstance(owner, GraphModule)
        for node in owner.graph.nodes
        if node.target in (call_kernel, call_multi_kernel)
    ]


def built(graph: GraphModule) -> list[str]:
    """Return the names of the kernels that were built for a graph."""
    kernels = getattr(graph, KERNELS)
    assert isinstance(kernels, SavedKernels)
    return [kernel.name for kernel in kernels.kernels]
