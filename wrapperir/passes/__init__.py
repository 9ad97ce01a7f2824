"""Passes: each takes a program and returns one that means the same."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TypeAlias

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
from wrapperir.passes.branch_attention import branch_attention
from wrapperir.passes.call_collectives import call_collectives
from wrapperir.passes.capture_graphs import (
    Captured,
    CapturedRegion,
    CaptureReport,
    capture_graphs,
    capture_named,
    capture_regions,
)
from wrapperir.passes.check_nans import check_nans
from wrapperir.passes.free_early import free_early
from wrapperir.passes.insert_frees import insert_frees
from wrapperir.passes.installed import InstalledPass, InstalledPipeline
from wrapperir.passes.merge_collectives import (
    Merged,
    MergedCollective,
    merge_collectives,
    merge_lines,
)
from wrapperir.passes.merge_workspaces import merge_workspaces
from wrapperir.passes.multiply_convolutions import multiply_convolutions
from wrapperir.passes.open_graph_regions import open_graph_regions
from wrapperir.passes.open_pools import open_pools
from wrapperir.passes.overlap_collectives import (
    Overlapped,
    overlap_collectives,
    overlap_lines,
)
from wrapperir.passes.overlap_report import (
    BlockOverlap,
    OverlappedCollective,
    OverlapReport,
)
from wrapperir.passes.parameters import (
    PassFunction,
    PassParameter,
    bind_arguments,
    format_parameter,
    parameters_of,
)
from wrapperir.passes.pass_call import (
    PassArgument,
    PassCall,
    format_call,
    format_pipeline,
    parse_pipeline,
)
from wrapperir.passes.pass_record import record_pass
from wrapperir.passes.plan_memory import plan_memory
from wrapperir.passes.remove_copies import remove_copies
from wrapperir.passes.remove_dead_lines import remove_dead_lines
from wrapperir.passes.reuse_buffers import reuse_buffers
from wrapperir.passes.simplify_expressions import simplify_expressions
from wrapperir.passes.split_configs import split_configs, split_configs_but
from wrapperir.passes.split_products import split_products
from wrapperir.passes.tile_attention import tile_attention
from wrapperir.passes.tile_products import tile_products
from wrapperir.passes.update_in_place import update_in_place
from wrapperir.passes.use_comm_memory import use_comm_memory
from wrapperir.passes.use_out_variants import use_out_variants

__all__ = [
    "BUILT_IN_PASSES",
    "MEMORY_PASSES",
    "PASSES",
    "BlockOverlap",
    "CaptureReport",
    "Captured",
    "CapturedRegion",
    "InstalledPass",
    "InstalledPipeline",
    "Merged",
    "MergedCollective",
    "OverlapReport",
    "Overlapped",
    "OverlappedCollective",
    "Pass",
    "PassArgument",
    "PassCall",
    "PassFunction",
    "PassParameter",
    "bind_arguments",
    "branch_attention",
    "call_collectives",
    "capture_graphs",
    "capture_named",
    "capture_regions",
    "check_nans",
    "format_call",
    "format_parameter",
    "format_pipeline",
    "free_early",
    "insert_frees",
    "memory_passes",
    "merge_collectives",
    "merge_lines",
    "merge_workspaces",
    "multiply_convolutions",
    "open_graph_regions",
    "open_pools",
    "overlap_collectives",
    "overlap_lines",
    "parameters_of",
    "parse_pipeline",
    "plan_memory",
    "record_pass",
    "remove_copies",
    "remove_dead_lines",
    "reuse_buffers",
    "simplify_expressions",
    "split_configs",
    "split_configs_but",
    "split_products",
    "tile_attention",
    "tile_products",
    "update_in_place",
    "use_comm_memory",
    "use_out_variants",
]

Pass: TypeAlias = Callable[[Program], Program]

PASSES: Mapping[str, PassFunction] = MappingProxyType(
    {
        "branch_attention": branch_attention,
        "capture_graphs": capture_graphs,
        "check_nans": check_nans,
        "free_early": free_early,
        "insert_frees": insert_frees,
        "merge_collectives": merge_collectives,
        "merge_workspaces": merge_workspaces,
        "multiply_convolutions": multiply_convolutions,
        "open_graph_regions": open_graph_regions,
        "open_pools": open_pools,
        "overlap_collectives": overlap_collectives,
        "plan_memory": plan_memory,
        "remove_copies": remove_copies,
        "remove_dead_lines": remove_dead_lines,
        "reuse_buffers": reuse_buffers,
        "simplify_expressions": simplify_expressions,
        "split_configs": split_configs,
        "split_products": split_products,
        "tile_attention": tile_attention,
        "tile_products": tile_products,
        "update_in_place": update_in_place,
        "use_comm_memory": use_comm_memory,
        "use_out_variants": use_out_variants,
    }
)
"""Every built-in pass by its name."""

MEMORY_PASSES = (
    "insert_frees",
    "free_early",
    "use_out_variants",
    "remove_copies",
    "update_in_place",
    "merge_workspaces",
    "plan_memory",
    "reuse_buffers",
)
"""The passes that plan a program's memory, in the order to run them."""

BUILT_IN_PASSES: Mapping[str, InstalledPass | InstalledPipeline] = MappingProxyType(
    {
        **{
            name: InstalledPass(name, run, parameters_of(run))
            for name, run in PASSES.items()
        },
        "memory": InstalledPipeline("memory", ", ".join(MEMORY_PASSES)),
    }
)
"""The built-in passes with their parameters, and the built-in pipelines, by name."""

_MAKES: Mapping[str, tuple[type[BodyLine], ...]] = MappingProxyType(
    {
        "use_out_variants": (AllocateLine,),
        "capture_graphs": (GraphRegionLine,),
        "remove_copies": (ReuseLine,),
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
