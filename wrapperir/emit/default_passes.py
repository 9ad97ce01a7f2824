"""The passes that programs of ``torch.compile`` go through."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.contract import Emitter, Support
from wrapperir.ir import (
    POOL_ALIGNMENT,
    AllocateLine,
    AllocatePoolLine,
    GraphRegionLine,
    Language,
    Line,
    ReinterpretLine,
)

# Passes are imported late: a program that a cache has needs none.
if TYPE_CHECKING:
    from wrapperir.pipelines import PassLike

_logger = logging.getLogger("wrapperir.graphs")


def passes_to_run(
    named: "tuple[PassLike, ...] | None",
    emitter: Emitter,
    *,
    graphs: bool,
    graph_collectives: bool = False,
) -> "tuple[PassLike, ...]":
    """Return the passes that are named, by default those below.

    ``multiply_convolutions`` is the first, unless PyTorch is asked for deterministic
    algorithms: it then refuses products where it takes convolutions.  The memory passes
    follow, with ``split_products``, and with ``tile_attention`` and ``tile_products`` where
    the emitter and the GPU can run their kernels; ``branch_attention`` comes before these
    where conditionals cost the emitter little.  ``overlap_collectives`` comes before these,
    but not ``merge_collectives``, by which ranks with different programs might decide
    differently.  An emitter that declares its operators is given no pass that calls others.
    With ``graphs`` they capture graphs, if they do not do so already, with
    ``graph_collectives`` those of collectives too.  An emitter without graph regions is
    given none, and a warning is logged.
    """
    import torch

    from wrapperir.passes import memory_passes

    if graphs and GraphRegionLine not in emitter.support.lines:
        _logger.warning("the %s emitter has no graph regions", emitter.name)
        graphs = False
    capture = capture_pass(emitter.support, collectives=graph_collectives)
    if named is None:
        names = tuple(
            capture if name == "capture_graphs" else name
            for name in memory_passes(_pass_lines(emitter.support), graphs=graphs)
        )
        can_multiply = emitter.support.lines >= {AllocateLine, ReinterpretLine}
        own = ["split_products"] if can_multiply else []
        if can_tile(emitter):
            own += ["branch_attention"] if emitter.support.branching else []
            own += ["tile_attention", "tile_products"]
        calls_others = emitter.support.operators is None
        if not calls_others:
            names = tuple(name for name in names if name != "use_out_variants")
        # Products of other frontends have results that are not allocated before.  Kernels
        # of tiles do not show what they compute, and memory that is used again keeps lines
        # in order.
        first = "insert_frees", "free_early", "use_out_variants", "remove_copies"
        at = sum(name in first for name in names)
        middle = ("overlap_collectives", *(own if calls_others else ()))
        names = (*names[:at], *middle, *names[at:])
        if not calls_others:
            return names
        if can_multiply and not torch.are_deterministic_algorithms_enabled():
            names = ("multiply_convolutions", *names)
        return names
    is_missing = graphs and not captures_graphs(named)
    return (capture, *named) if is_missing else named


def _pass_lines(support: Support) -> frozenset[type[Line]]:
    """Return the line kinds that passes may add; their pools have an alignment."""
    most = support.greatest_alignment
    has_pools = most is None or most >= POOL_ALIGNMENT
    return support.lines if has_pools else support.lines - {AllocatePoolLine}


def capture_pass(support: Support, *, collectives: bool = False) -> str:
    """Return the pass that captures graphs on the devices of an emitter, as text."""
    given: dict[str, str] = {}
    if support.graphs != Support().graphs:
        given["devices"] = ",".join(sorted(support.graphs))
    if support.recorded is not None:
        given["operators"] = ",".join(sorted(support.recorded))
    shown = [f'{name} = "{value}"' for name, value in given.items()]
    shown += ["collectives = true"] if collectives else []
    return f"capture_graphs({', '.join(shown)})" if shown else "capture_graphs"


def captures_graphs(passes: "Sequence[PassLike]") -> bool:
    """Return whether passes capture graphs; ``False`` if one of them does not exist."""
    if not passes:
        return False
    from wrapperir.passes import capture_graphs
    from wrapperir.pipelines import find_passes

    with suppress(DiagnosticError):  # it is raised when the first program is compiled
        return any(each.run is capture_graphs for each in find_passes(passes))
    return False


def installed_passes(
    passes: "Sequence[PassLike]",
) -> tuple[tuple[str, frozenset[str]], ...] | None:
    """Return the text and the packages of each pass that runs, in order.

    The text has the arguments and the origin.  ``None``: one of them is a function, which
    may depend on anything.

    Raises:
        DiagnosticError: as :func:`wrapperir.pipelines.find_passes`.
    """
    from wrapperir.pipelines import find_passes

    chosen = find_passes(passes)
    found = [(str(c), c.installed.packages) for c in chosen if c.installed is not None]
    return tuple(found) if len(found) == len(chosen) else None


def can_tile(emitter: Emitter) -> bool:
    """Return whether an emitter and all GPUs here can run the Triton kernels of passes."""
    from wrapperir.kernels import present_targets

    least = 80  # earlier ones have no bf16, and less shared memory
    targets = present_targets()
    return (
        Language.TRITON in emitter.support.languages
        and bool(targets)
        and all(target.capability >= least for target in targets)
    )
