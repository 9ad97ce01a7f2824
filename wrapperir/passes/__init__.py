"""Passes: each takes a program and returns one that means the same."""

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.ir import (
    AllocateLine,
    AllocatePoolLine,
    BodyLine,
    GraphRegionLine,
    Line,
    PlaceLine,
    Program,
    ReuseLine,
)
from wrapperir.passes.capture_graphs import (
    Captured,
    CapturedRegion,
    CaptureReport,
    capture_graphs,
    capture_regions,
)
from wrapperir.passes.check_nans import check_nans
from wrapperir.passes.free_early import free_early
from wrapperir.passes.insert_frees import insert_frees
from wrapperir.passes.merge_workspaces import merge_workspaces
from wrapperir.passes.multiply_convolutions import multiply_convolutions
from wrapperir.passes.open_graph_regions import open_graph_regions
from wrapperir.passes.plan_memory import plan_memory
from wrapperir.passes.remove_dead_lines import remove_dead_lines
from wrapperir.passes.reuse_buffers import reuse_buffers
from wrapperir.passes.simplify_expressions import simplify_expressions
from wrapperir.passes.split_configs import split_configs, split_configs_but
from wrapperir.passes.split_products import split_products
from wrapperir.passes.tile_attention import tile_attention
from wrapperir.passes.tile_products import tile_products
from wrapperir.passes.update_in_place import update_in_place
from wrapperir.passes.use_out_variants import use_out_variants

__all__ = [
    "MEMORY_PASSES",
    "PASSES",
    "CaptureReport",
    "Captured",
    "CapturedRegion",
    "Pass",
    "capture_graphs",
    "capture_regions",
    "check_nans",
    "free_early",
    "insert_frees",
    "memory_passes",
    "merge_workspaces",
    "multiply_convolutions",
    "open_graph_regions",
    "plan_memory",
    "remove_dead_lines",
    "reuse_buffers",
    "run_passes",
    "simplify_expressions",
    "split_configs",
    "split_configs_but",
    "split_products",
    "tile_attention",
    "tile_products",
    "update_in_place",
    "use_out_variants",
]

Pass: TypeAlias = Callable[[Program], Program]

PASSES: Mapping[str, Pass] = MappingProxyType(
    {
        "capture_graphs": capture_graphs,
        "check_nans": check_nans,
        "free_early": free_early,
        "insert_frees": insert_frees,
        "merge_workspaces": merge_workspaces,
        "multiply_convolutions": multiply_convolutions,
        "open_graph_regions": open_graph_regions,
        "plan_memory": plan_memory,
        "remove_dead_lines": remove_dead_lines,
        "reuse_buffers": reuse_buffers,
        "simplify_expressions": simplify_expressions,
        "split_configs": split_configs,
        "split_products": split_products,
        "tile_attention": tile_attention,
        "tile_products": tile_products,
        "update_in_place": update_in_place,
        "use_out_variants": use_out_variants,
    }
)
"""Every pass by its name."""

MEMORY_PASSES = (
    "insert_frees",
    "free_early",
    "use_out_variants",
    "update_in_place",
    "merge_workspaces",
    "plan_memory",
    "reuse_buffers",
)
"""The passes that plan a program's memory, in the order to run them."""

_MAKES: Mapping[str, tuple[type[BodyLine], ...]] = MappingProxyType(
    {
        "use_out_variants": (AllocateLine,),
        "capture_graphs": (GraphRegionLine,),
        "update_in_place": (ReuseLine,),
        "plan_memory": (AllocatePoolLine, PlaceLine),
        "reuse_buffers": (ReuseLine,),
    }
)


def memory_passes(
    supported: Collection[type[Line]], *, graphs: bool = False
) -> tuple[str, ...]:
    """Return the memory passes that make only lines of these kinds, in order.

    With ``graphs``, ``capture_graphs`` comes before the pools: a region needs the frees and
    the buffers that the first passes add, and has pools of its own.
    """
    names: list[str] = list(MEMORY_PASSES)
    if graphs:
        names.insert(names.index("plan_memory"), "capture_graphs")
    return tuple(
        name for name in names if all(line in supported for line in _MAKES.get(name, ()))
    )


def run_passes(
    program: Program,
    names: Sequence[str],
    on_capture: Callable[[CaptureReport], None] = lambda report: None,
) -> Program:
    """Return the program after the passes of these names, in this order.

    ``on_capture`` is given the report of each ``capture_graphs``.

    Raises:
        DiagnosticError: WIR740 for each name that is not a pass; then none has run.
    """
    unknown = [name for name in dict.fromkeys(names) if name not in PASSES]
    if unknown:
        raise DiagnosticError(*(_unknown_pass(name) for name in unknown))
    for name in names:
        if name == "capture_graphs":
            captured = capture_regions(program)
            on_capture(captured.report)
            program = captured.program
        else:
            program = PASSES[name](program)
    return program


def _unknown_pass(name: str) -> Diagnostic:
    near = difflib.get_close_matches(name, PASSES, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return Diagnostic(
        Code.UNKNOWN_PASS,
        f"there is no pass {name!r}",
        hint=f"{meant}passes are {', '.join(sorted(PASSES))}",
    )
