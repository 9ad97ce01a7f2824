"""Launch grids of Triton kernels as expressions.

Each function is one of Inductor's strategies (``GridExpr`` of its Triton heuristics),
which render text for the target; here they are built from the same numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import sympy
from torch._inductor.runtime.runtime_utils import get_max_y_grid

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import (
    Expr,
    ExprOp,
    Operation,
    Symbol,
    add,
    ceildiv,
    compare,
    maximum,
    mul,
    substitute,
    symbols_in,
)
from wrapperir.symbolic import lower_size
from wrapperir.text import parse_expr

Grid: TypeAlias = tuple[Expr, Expr, Expr]


class _Sizes:
    """The names that a grid may use: block sizes that the kernel takes, else one."""

    def __init__(self, meta: Mapping[str, Any], blocks: frozenset[str]) -> None:
        self.meta = meta
        self._blocks = blocks

    def block(self, name: str) -> Expr:
        return Symbol(name) if name in self._blocks else 1

    def count(self, extent: str, block: str) -> Expr:
        return ceildiv(Symbol(extent), self.block(block))


def lower_grid(meta: Mapping[str, Any], blocks: frozenset[str]) -> Grid:
    """Return the grid that ``meta`` asks for; ``blocks`` are the kernel's constexprs.

    Raises:
        DiagnosticError: WIR654, the strategy is unknown.
    """
    kind = meta["grid_type"]
    strategy = _STRATEGIES.get(kind)
    if strategy is None:
        raise Code.INDUCTOR_KERNEL.error(f"launch grid {kind} is of an unknown form")
    return strategy(_Sizes(meta, blocks))


def _one(sizes: _Sizes) -> Grid:
    return sizes.count("xnumel", "XBLOCK"), 1, 1


def _two(sizes: _Sizes) -> Grid:
    return sizes.count("xnumel", "XBLOCK"), sizes.count("ynumel", "YBLOCK"), 1


def _three(sizes: _Sizes) -> Grid:
    x, y, _ = _two(sizes)
    return x, y, sizes.count("znumel", "ZBLOCK")


def _batched(sizes: _Sizes) -> Grid:
    x, y, z = _three(sizes)
    return z, y, x


def _folded(rows: Expr) -> tuple[Expr, Expr]:
    """Return y and z for more rows than y can count."""
    layers = ceildiv(rows, get_max_y_grid())
    # No rows are no layers, which nothing can be divided by.
    return ceildiv(rows, maximum(layers, 1)), layers


def _two_folded(sizes: _Sizes) -> Grid:
    y, z = _folded(sizes.count("ynumel", "YBLOCK"))
    return sizes.count("xnumel", "XBLOCK"), y, z


def _mixed_order(sizes: _Sizes) -> Grid:
    return sizes.count("xnumel", "RSPLIT_SIZE"), 1, 1


def _cooperative(sizes: _Sizes) -> Grid:
    return sizes.block("RSPLIT"), sizes.count("xnumel", "XBLOCK"), 1


def _split_scan(sizes: _Sizes) -> Grid:
    return sizes.count("r0_numel", "R0_BLOCK"), Symbol("xnumel"), 1


def _combined(sizes: _Sizes, x_of: Callable[[_Sizes, list[Expr]], Expr]) -> Grid:
    meta = sizes.meta["combo_grid_meta"]
    numbers = range(meta["num_kernels"])
    extents = [_extent(meta, f"xnumel_{n}") for n in numbers]
    x = x_of(sizes, extents)
    if meta["min_blocks"]:
        x = maximum(x, meta["min_blocks"])
    rows = [_extent(meta, f"ynumel_{n}") for n in numbers if f"ynumel_{n}" in meta]
    if not rows:
        return x, 1, 1
    y, z = _folded(ceildiv(reduce(maximum, rows), sizes.block("YBLOCK")))
    return x, y, z


def _extent(meta: Mapping[str, Any], name: str) -> Expr:
    known: int | None = meta[name]
    return Symbol(name) if known is None else known


def _flat(sizes: _Sizes, number: int) -> bool:
    return bool(sizes.meta["combo_grid_meta"][f"no_x_dim_{number}"])


def _sequential(sizes: _Sizes, extents: list[Expr]) -> Expr:
    counts = [
        extent if _flat(sizes, n) else ceildiv(extent, sizes.block("XBLOCK"))
        for n, extent in enumerate(extents)
    ]
    return reduce(add, counts)


def _round_robin(sizes: _Sizes, extents: list[Expr]) -> Expr:
    flat = [extent for n, extent in enumerate(extents) if _flat(sizes, n)]
    deep = [extent for n, extent in enumerate(extents) if not _flat(sizes, n)]
    if deep:
        flat.append(ceildiv(reduce(maximum, deep), sizes.block("XBLOCK")))
    return mul(reduce(maximum, flat), len(extents))


def _flattened(sizes: _Sizes) -> Grid:
    meta = sizes.meta["combo_grid_meta"]
    total: Expr = 0
    for n in range(meta["num_kernels"]):
        count = _extent(meta, f"xnumel_{n}")
        if not _flat(sizes, n):
            count = ceildiv(count, sizes.block(f"XBLOCK_{n}"))
        if f"ynumel_{n}" in meta:
            rows = ceildiv(_extent(meta, f"ynumel_{n}"), sizes.block(f"YBLOCK_{n}"))
            count = mul(count, rows)
        total = add(total, count)
    return (maximum(total, meta["min_blocks"]) if meta["min_blocks"] else total), 1, 1


_STRATEGIES: dict[str, Callable[[_Sizes], Grid]] = {
    "Grid1D": _one,
    "Grid2D": _two,
    "Grid3D": _three,
    "BatchMatmulGrid3D": _batched,
    "Grid2DWithYZOverflow": _two_folded,
    "MixOrderReductionGrid": _mixed_order,
    "CooperativeReductionGrid": _cooperative,
    "SplitScanGrid": _split_scan,
    "SequentialComboKernelGrid": lambda sizes: _combined(sizes, _sequential),
    "RoundRobinComboKernelGrid": lambda sizes: _combined(sizes, _round_robin),
    "SequentialFlattenComboKernelGrid": _flattened,
}


def given_grid(values: Sequence[Any], sizes: Mapping[str, Expr]) -> Grid:
    """Return a grid that a call gives, as numbers, sympy's expressions or their text.

    ``sizes`` has what stands in the kernel for the sizes that the numbers are made of.

    Raises:
        DiagnosticError: WIR654, the kernel is not given a size that its grid depends on.
    """
    try:
        grid = [_given(value) for value in values]
    except (DiagnosticError, TypeError):
        grid = None
    if grid is None or not sizes.keys() >= {name for e in grid for name in symbols_in(e)}:
        raise Code.INDUCTOR_KERNEL.error(
            f"a launch grid depends on sizes that the kernel is not given: {tuple(values)}"
        )
    x, y, z = (substitute(expr, sizes) for expr in grid)
    return x, y, z


def grid_of_configs(grids: Sequence[Mapping[str, Any]], sizes: Mapping[str, Expr]) -> Grid:
    """Return the grid of a kernel that has one for each of its configs.

    Each of ``grids`` has the numbers as :func:`given_grid` takes them (``python``) and the
    values of the config that they are for; which config it is, the values tell.

    Raises:
        DiagnosticError: WIR654, the kernel is not given a size that a grid depends on, or
            configs with different grids have the same numbers.
    """
    *others, last = grids
    chosen = given_grid(last["python"], sizes)
    for other in reversed(others):
        grid = given_grid(other["python"], sizes)
        if grid == chosen:
            continue
        same = [
            compare(ExprOp.EQ, Symbol(name), value)
            for name, value in other["config"].items()
            if isinstance(value, int) and any(g["config"].get(name) != value for g in grids)
        ]
        if not same:
            raise Code.INDUCTOR_KERNEL.error(
                "no number of a kernel's configs tells their grids apart"
            )
        condition = same[0] if len(same) == 1 else Operation(ExprOp.AND, tuple(same))
        x, y, z = (
            one if one == two else Operation(ExprOp.WHERE, (condition, one, two))
            for one, two in zip(grid, chosen, strict=True)
        )
        chosen = x, y, z
    return chosen


def _given(value: Any) -> Expr:
    if isinstance(value, str):
        return parse_expr(value)
    if not isinstance(value, int | sympy.Expr):
        raise TypeError(f"{type(value).__name__} in a grid")
    return lower_size(value)
