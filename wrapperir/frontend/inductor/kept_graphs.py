"""Graphs that PyTorch has kept, found and loaded without what compiles others.

PyTorch looks a graph up when its compiler has been imported, which takes half a second or
more.  The lookup itself, its keys and its guards need none of that; what it imports beside
is replaced here.
"""

import contextlib
import importlib
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import torch
from attrs import frozen
from torch._dynamo import compiled_autograd, disable
from torch._dynamo.utils import counters
from torch._functorch import aot_autograd
from torch._functorch import config as functorch_config
from torch._inductor import codecache, config, metrics
from torch._inductor.cudagraph_utils import BoxedDeviceIndex
from torch._inductor.output_code import OutputCode
from torch._inductor.utils import BoxedBool

from wrapperir.frontend.inductor.first_keys import (
    LOOKS_UP_FIRST,
    NotKeptError,
    looking_up,
)
from wrapperir.frontend.inductor.light_keys import light_keys
from wrapperir.frontend.inductor.program_cache import cached_by, is_module
from wrapperir.frontend.inductor.settings import OWN
from wrapperir.frontend.inductor.shared_patch import SharedPatch
from wrapperir.frontend.inductor.vector_sets import recalling_vector_sets
from wrapperir.frontend.output_code import is_shown

_counters: Any = counters
_aot_autograd: Any = aot_autograd

_EXPECTED = ("torch._inductor.async_compile", "torch._inductor.debug")
"""Modules that PyTorch takes for imported where it loads and calls a graph."""


@frozen
class _NoGraphs:
    """What PyTorch passes on for graphs of the device, which it is not to make."""

    cudagraphs: BoxedBool
    forward_device: BoxedDeviceIndex


def find_graph(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    settings: Mapping[str, Any],
    cache_key: str,
) -> Callable[..., Any] | None:
    """Return the callable of a graph that Dynamo traced; ``None`` if it is not kept.

    ``settings`` are those of Inductor that the graph is compiled with, and ``cache_key`` is
    the key of :func:`~.program_cache.cached_by`.
    """
    if "cudagraph_annotation" in graph.meta or is_shown():
        return None  # compile_fx acts on it, and shows what it finds

    for name in _EXPECTED:
        importlib.import_module(name)

    def refuse(*_: object) -> Any:
        raise NotKeptError

    no_graphs = _NoGraphs(BoxedBool(False), BoxedDeviceIndex(None))
    given: dict[str, Any] = (
        {"pre_grad_passes": refuse, "compiler_config_extra": no_graphs}  # the first step
        if LOOKS_UP_FIRST
        else {
            "cudagraphs": no_graphs.cudagraphs,
            "boxed_forward_device_index": no_graphs.forward_device,
        }
    )
    compiler = _aot_autograd.SerializableAOTDispatchCompiler(OutputCode, refuse)
    counted = Counter(_counters["aot_autograd"])
    with config.patch(dict(settings)), config.patch(OWN), cached_by(cache_key), _loading():
        try:
            with looking_up():
                found = _aot_autograd.aot_module_simplified(
                    graph,
                    list(inputs),
                    fw_compiler=compiler,
                    keep_inference_input_mutations=True,
                    **given,
                )
        except Exception:  # what else fails does so again where errors are reported
            _counters["aot_autograd"] = counted
            return None
    _counters["aot_autograd"].update({"total": 1, "ok": 1})
    reason = "do not trace AOT-compiled graph"
    function: Callable[..., Any] = disable(found, reason=reason)  # type: ignore[no-untyped-call]
    return function


@contextlib.contextmanager
def _loading() -> Generator[None]:
    """Look graphs up as ``compile_fx`` does, but import nothing that compiles them."""
    selective: bool = config.selective_decompose
    with (
        compiled_autograd._disable(),
        functorch_config.patch(unlift_effect_tokens=True, selective_decompose=selective),
        light_keys(),
        recalling_vector_sets,
        _loading_programs,
    ):
        yield


def _load_program(stock: Callable[..., Any]) -> Any:
    """Return what loads a compiled graph that PyTorch has found in a file."""

    def load(graph: Any, facts: dict[str, Any], constants: Any) -> Any:
        if not is_module(graph.source_code):
            return stock(graph, facts, constants)
        try:
            graph.after_deserialization(constants)
        except OSError:  # it is compiled anew
            return None, facts
        metrics.CachedMetricsHelper.apply_deltas(graph.metrics_deltas)
        _counters["inductor"] += graph.counter_deltas
        return graph, facts

    return staticmethod(load)


_loading_programs = SharedPatch(
    codecache.FxGraphCache, "cache_hit_post_compile", _load_program
)
