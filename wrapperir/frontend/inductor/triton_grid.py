"""Launch grids of Triton kernels as expressions.

Inductor's strategies (``GridExpr`` of its Triton heuristics) render text for the target;
here grids are built from the same numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import sympy
from torch._inductor.runtime.runtime_utils import get_max_y_grid
from torch._inductor.runtime.triton_heuristics import FixedGrid
from torch._inductor.virtualized import V

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.symbolic import lower_size
from wrapperir.text import parse_expr

Grid: TypeAlias = tuple[wir.Expr, wir.Expr, wir.Expr]


class _Sizes:
    """The sizes in a grid: a block size that the kernel does not take is 1."""

    def __init__(self, meta: Mapping[str, Any], blocks: frozenset[str]) -> None:
        self.meta = meta
        self._blocks = blocks

    def block(self, name: str) -> wir.Expr:
        return wir.Symbol(name) if name in self._blocks else 1

    def count(self, axis: str) -> wir.Expr:
        extent = wir.Symbol(f"{axis}numel")
        return wir.ceildiv(extent, self.block(f"{axis.upper()}BLOCK"))


def lower_grid(meta: Mapping[str, Any], blocks: frozenset[str]) -> Grid:
    """Return the grid that ``meta`` asks for; ``blocks`` are the kernel's constexprs.

    Raises:
        DiagnosticError: WIR654, the strategy is unknown.
    """
    kind = meta.get("grid_type")
    strategy = _STRATEGIES.get(str(kind))
    if strategy is None:
        raise Code.INDUCTOR_KERNEL.error(f"launch grid {kind} is of an unknown form")
    return strategy(_Sizes(meta, blocks))


def _folded(rows: wir.Expr) -> tuple[wir.Expr, wir.Expr]:
    """Return y and z for more rows than y can count."""
    layers = wir.ceildiv(rows, get_max_y_grid())
    # Without rows there are no layers: the divisor must not be zero.
    return wir.ceildiv(rows, wir.maximum(layers, 1)), layers


def _mixed_order(sizes: _Sizes) -> Grid:
    return wir.ceildiv(wir.Symbol("xnumel"), sizes.block("RSPLIT_SIZE")), 1, 1


def _combined(sizes: _Sizes, count_x: Callable[[_Sizes, list[wir.Expr]], wir.Expr]) -> Grid:
    meta = sizes.meta["combo_grid_meta"]
    numbers = range(meta["num_kernels"])
    x = count_x(sizes, [_extent(meta, f"xnumel_{n}") for n in numbers])
    if meta["min_blocks"]:
        x = wir.maximum(x, meta["min_blocks"])
    rows = [_extent(meta, f"ynumel_{n}") for n in numbers if f"ynumel_{n}" in meta]
    if not rows or count_x is _flattened:
        return x, 1, 1
    y, z = _folded(wir.ceildiv(reduce(wir.maximum, rows), sizes.block("YBLOCK")))
    return x, y, z


def _extent(meta: Mapping[str, Any], name: str) -> wir.Expr:
    known: int | None = meta[name]
    return wir.Symbol(name) if known is None else known


def _is_flat(sizes: _Sizes, number: int) -> bool:
    return bool(sizes.meta["combo_grid_meta"][f"no_x_dim_{number}"])


def _sequential(sizes: _Sizes, extents: list[wir.Expr]) -> wir.Expr:
    counts = [
        extent if _is_flat(sizes, n) else wir.ceildiv(extent, sizes.block("XBLOCK"))
        for n, extent in enumerate(extents)
    ]
    return reduce(wir.add, counts)


def _round_robin(sizes: _Sizes, extents: list[wir.Expr]) -> wir.Expr:
    flat = [extent for n, extent in enumerate(extents) if _is_flat(sizes, n)]
    deep = [extent for n, extent in enumerate(extents) if not _is_flat(sizes, n)]
    if deep:
        flat.append(wir.ceildiv(reduce(wir.maximum, deep), sizes.block("XBLOCK")))
    return wir.mul(reduce(wir.maximum, flat), len(extents))


def _flattened(sizes: _Sizes, extents: list[wir.Expr]) -> wir.Expr:
    meta = sizes.meta["combo_grid_meta"]
    total: wir.Expr = 0
    for n, count in enumerate(extents):
        if not _is_flat(sizes, n):
            count = wir.ceildiv(count, sizes.block(f"XBLOCK_{n}"))
        if f"ynumel_{n}" in meta:
            rows = _extent(meta, f"ynumel_{n}")
            count = wir.mul(count, wir.ceildiv(rows, sizes.block(f"YBLOCK_{n}")))
        total = wir.add(total, count)
    return total


_STRATEGIES: dict[str, Callable[[_Sizes], Grid]] = {
    "Grid1D": lambda sizes: (sizes.count("x"), 1, 1),
    "Grid2D": lambda sizes: (sizes.count("x"), sizes.count("y"), 1),
    "Grid3D": lambda sizes: (sizes.count("x"), sizes.count("y"), sizes.count("z")),
    "BatchMatmulGrid3D": lambda sizes: (
        sizes.count("z"),
        sizes.count("y"),
        sizes.count("x"),
    ),
    "Grid2DWithYZOverflow": lambda sizes: (sizes.count("x"), *_folded(sizes.count("y"))),
    "MixOrderReductionGrid": _mixed_order,
    "CooperativeReductionGrid": lambda sizes: (
        sizes.block("RSPLIT"),
        sizes.count("x"),
        1,
    ),
    "SplitScanGrid": lambda sizes: (sizes.count("r0_"), wir.Symbol("xnumel"), 1),
    "SequentialComboKernelGrid": lambda sizes: _combined(sizes, _sequential),
    "RoundRobinComboKernelGrid": lambda sizes: _combined(sizes, _round_robin),
    "SequentialFlattenComboKernelGrid": lambda sizes: _combined(sizes, _flattened),
}
"""Grid of each of Inductor's strategies, by the name of its class."""


def simplified(value: Any) -> Any:
    """Return a number with what the graph's guards say of its symbols put in."""
    return V.graph.sizevars.simplify(value) if isinstance(value, sympy.Expr) else value


def number_over(value: Any, sizes: Mapping[str, wir.Expr]) -> wir.Expr | None:
    """Return an integer of a call over the parameters of its kernel.

    ``sizes`` has the parameter for each symbol.  ``None``: the kernel is not given a size
    that the number depends on.
    """
    extent = lower_size(value)
    if not sizes.keys() >= set(wir.symbols_in(extent)):
        return None
    return wir.substitute(extent, sizes)


def grid_of_configs(
    grids: Sequence[Mapping[str, Any]], sizes: Mapping[str, wir.Expr]
) -> Grid:
    """Return the grid of a kernel that has one for each of its configs.

    Each of ``grids`` has the text of its numbers (``python``), over names that ``sizes``
    has, and the values of their config.  The values tell the configs apart.

    Raises:
        DiagnosticError: WIR654, configs with different grids have the same numbers.
    """
    *others, last = grids
    chosen = _parse_grid(last["python"], sizes)
    for other in reversed(others):
        grid = _parse_grid(other["python"], sizes)
        if grid == chosen:
            continue
        same = [
            wir.compare(wir.ExprOp.EQ, wir.Symbol(name), value)
            for name, value in other["config"].items()
            if isinstance(value, int) and any(g["config"].get(name) != value for g in grids)
        ]
        if not same:
            raise Code.INDUCTOR_KERNEL.error(
                "no number of a kernel's configs tells their grids apart"
            )
        condition = (
            same[0] if len(same) == 1 else wir.Operation(wir.ExprOp.AND, tuple(same))
        )
        x, y, z = (
            one if one == two else wir.Operation(wir.ExprOp.WHERE, (condition, one, two))
            for one, two in zip(grid, chosen, strict=True)
        )
        chosen = x, y, z
    return chosen


def _parse_grid(texts: Sequence[str], sizes: Mapping[str, wir.Expr]) -> Grid:
    x, y, z = (wir.substitute(parse_expr(text), sizes) for text in texts)
    return x, y, z


def template_meta(name: str, arguments: Any, signature: Any) -> dict[str, Any]:
    """Return the metadata of a call of a template kernel: its grid, what it writes.

    The call ends with the three numbers of the launch grid.  Results of a template but the
    first are inputs that it mutates.

    Raises:
        DiagnosticError: WIR654, a Python function computes the grid when the call runs.
    """
    if isinstance(arguments[-1], str):
        raise Code.INDUCTOR_KERNEL.error(
            f"the launch grid of {name} is computed by a Python function",
            hint="make the template's grid a SymbolicGridFn of torch._inductor",
        )
    scheduled: Any = V.graph.scheduler.current_node
    mutated = {
        name
        for node in scheduled.get_nodes()
        for output in node.get_outputs()
        for name in output.get_mutations()
    }
    return {
        **FixedGrid.setup_grid_as_args(),
        "mutated_arg_names": [
            parameter
            for parameter, argument in zip(signature, arguments, strict=False)
            if argument in mutated
        ],
    }
