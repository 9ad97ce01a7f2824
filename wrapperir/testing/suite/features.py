"""The features of emitters, and the conformance cases of each."""

from collections.abc import Mapping, Sequence

from attrs import evolve

from wrapperir.ir import Language
from wrapperir.testing.conformance_case import Case
from wrapperir.testing.conformance_cases import CASES
from wrapperir.testing.conformance_kernels import kernel_cases

INPUTS = "inputs and constants"
"""A feature with a check of inputs that share memory, beside its cases."""

FEATURES: Mapping[str, tuple[str, ...]] = {
    "buffers": ("allocate_and_free", "kernel_buffers", "view_outlives_its_source"),
    "reuse": ("reuse", "kernel_reuse"),
    "kernels": ("kernels", "kernel_numbers"),
    "operators": ("arguments", "copies", "multiple_outputs"),
    INPUTS: ("mutation", "kernel_mutation", "donated", "kernel_donated"),
    "outputs": ("outputs", "kernel_outputs"),
    "symbols": (
        *("symbols", "kernel_symbols", "symbol_outside_its_range", "kernel_late_item"),
        "kernel_offsets",
        *("kernel_false_range", "kernel_false_division"),
    ),
    "asserts": (
        *("asserts", "kernel_asserts", "false_assert_scalar", "false_assert_size_stride"),
        *("false_assert_not_nan", "false_assert_alignment"),
        *("kernel_alignment", "kernel_false_alignment"),
        *("kernel_false_condition", "kernel_false_layout", "kernel_false_not_nan"),
    ),
    "comments": ("comments",),
    "workspaces": ("workspaces", "kernel_workspaces"),
    "pools": (
        *("pool", "placed_views", "placed_zeros", "symbolic_pool", "pools_in_blocks"),
        *("pool_in_loop", "pools_and_kernels", "kernel_pools", "kernel_placed_views"),
        *("kernel_symbolic_pool", "kernel_pools_in_blocks", "kernel_pool_in_loop"),
    ),
    "conditionals": (
        *("conditional_on_tensor", "conditional_on_condition"),
        *("kernel_conditional_on_tensor", "kernel_conditional"),
        "kernel_conditional_with_constant",
    ),
    "loops": (
        *("while_loop", "while_loop_without_iterations", "while_loop_stacked"),
        *("while_loop_stacked_without_iterations", "while_loop_on_condition"),
        *("kernel_loop_on_tensor", "kernel_loop", "kernel_loop_without_iterations"),
        *("kernel_loop_results", "kernel_loop_stacked"),
        "kernel_loop_stacked_without_iterations",
    ),
    "subgraphs": ("subgraph_calls", "kernel_subgraphs"),
    "graph regions": (
        *("graph_regions", "region_streams", "kernel_graph_region"),
        "kernel_region_streams",
    ),
    "streams": (
        *("streams", "kernel_streams", "kernel_late_stream", "kernel_pool_of_streams"),
    ),
    "collectives": ("collectives", "coalesced_collectives"),
    "multi-kernels": (
        *("multi_kernel_first", "multi_kernel_forced", "selection_settled"),
        *("selection_benchmark", "selection_static_sizes", "selection_dynamic_sizes"),
        *("selection_in_blocks", "selection_without_value", "kernel_selection_in_blocks"),
    ),
    "descriptors": (
        *("descriptors", "descriptors_of_dynamic_size", "misaligned_descriptor"),
    ),
}
"""The names of each feature's cases, without the language of their kernels."""

LEAKS, PEAK, WRONG_INPUTS = "leaks", "peak memory", "wrong inputs"
CALLS_AT_ONCE, DRAWN = "calls at once", "drawn programs"
PROBES = (LEAKS, PEAK, WRONG_INPUTS, CALLS_AT_ONCE, DRAWN)
"""Checks that are not of one part of programs."""

_OWN = "own"
"""Ends the names of cases with kernels in a language of an emitter's own."""

_FEATURE_OF = {case: feature for feature, cases in FEATURES.items() for case in cases}


def feature_of(case: Case) -> str:
    """Return the feature that a case of the kit checks."""
    return _FEATURE_OF[stem(case)]


def stem(case: Case) -> str:
    """Return the name of a case without the language of its kernels."""
    name = case.name
    for language in (*(x.value for x in Language), _OWN):
        name = name.removesuffix(f"_{language}")
    return name


def suite_cases(twins: Language | None, *, is_own: bool = False) -> Sequence[Case]:
    """Return the kit's cases, and those with kernels only in one language, by feature.

    With ``is_own``, kernels in C++ are run in a language of the emitter's own, and the
    names of cases say so.
    """
    cases = [*CASES, *(() if twins is None else kernel_cases(twins))]
    if is_own:
        cases = [evolve(case, name=_own_name(case.name)) for case in cases]
    order = list(FEATURES)
    return sorted(cases, key=lambda case: order.index(feature_of(case)))


def _own_name(name: str) -> str:
    in_cpp = f"_{Language.CPP.value}"
    return f"{name.removesuffix(in_cpp)}_{_OWN}" if name.endswith(in_cpp) else name
