"""Compilation of graphs that Dynamo traced: those that are kept, and all others.

A graph that an earlier process compiled is loaded without the modules of Inductor that
compile graphs: they are imported when the first graph is compiled.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch._inductor import config

from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.attention import densify_masks
from wrapperir.frontend.inductor.first_keys import kept_as_traced
from wrapperir.frontend.inductor.kept_graphs import find_graph
from wrapperir.frontend.inductor.program_cache import can_keep_programs
from wrapperir.frontend.inductor.saved_draws import with_saved_draws
from wrapperir.frontend.inductor.settings import OF_HOSTS, OWN
from wrapperir.frontend.opaque_inputs import refuse_opaque_inputs
from wrapperir.frontend.preparation import Prepare, prepare_nothing
from wrapperir.frontend.user_names import dynamo_names

if TYPE_CHECKING:
    from wrapperir.emit import Loaded, OutputCode
    from wrapperir.frontend.failures import ReportFailure

CompileLowered: TypeAlias = Callable[
    [Lowered, bool, "Callable[[OutputCode], None]"], "Loaded"
]
"""Turns a program into a callable.

It is given whether the program is a backward, and a function to show emitted code to.
"""


def compile_graph(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compile: CompileLowered,
    cache_key: str | None = None,
    *,
    settings: Mapping[str, object] | None = None,
    falls_back: bool = False,
    prepare: Prepare = prepare_nothing,
    report: "ReportFailure | None" = None,
) -> Callable[..., Any]:
    """Compile a graph that Dynamo traced; return the callable that replaces it.

    ``compile`` turns each program into a callable.  A training graph gives a forward and a
    backward program, the backward maybe not before it first runs.  PyTorch keeps what they
    compile to, if ``cache_key`` is the key of what ``compile`` does; later calls, of other
    processes too, then load it.  Both are compiled with these ``settings`` of Inductor,
    except those that are :data:`~.settings.OWN`.  With ``falls_back``, Inductor
    compiles a graph that fails here, and PyTorch does not keep it.  ``prepare`` is called
    before what PyTorch has not kept is compiled.  ``report`` is given the error of each
    graph that fails.

    Raises:
        DiagnosticError: the graph has something that a program cannot express, or
            ``compile`` raised it; or WIR655, PyTorch failed.
    """
    refuse_opaque_inputs(graph, example_inputs)
    changed = dict(settings or {})
    applied = {name: value for name, value in changed.items() if name not in OWN}
    with config.patch(changed):
        key = cache_key if can_keep_programs() else None
        stock = {name: operator.attrgetter(name)(config) for name in OWN.keys() - OF_HOSTS}
    applied = with_saved_draws(applied)
    names = dynamo_names(graph)
    densify_masks(graph)
    if key is not None:
        # Keys of PyTorch 2.11 have neither dtype nor threads, on which kernels depend.
        key += f" {names.digest} {torch.get_default_dtype()} {torch.get_num_threads()}"
    with kept_as_traced(graph, example_inputs):
        if key is not None:
            kept = find_graph(graph, example_inputs, applied, key)
            if kept is not None:
                return kept
        prepare(is_new=False)
        from wrapperir.frontend.inductor.compilation import compile_anew

        return compile_anew(
            graph,
            example_inputs,
            compile,
            names,
            stock if falls_back else None,
            key,
            prepare,
            settings=applied,
            report=report,
        )
