"""Gets the graphs that Inductor's own FX backend makes, on a CPU without a GPU."""

import contextlib
import copy
from collections.abc import Callable, Generator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from attrs import define, field
from torch._dynamo import config as dynamo_config
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import PyCodeCache
from torch._inductor.codegen import common, wrapper_fxir
from torch._inductor.compile_fx import compile_fx
from torch.fx import GraphModule

from wrapperir.frontend.inductor.cpu_triton import triton_for_cpu

_SETTINGS: dict[str, Any] = {
    "fx_wrapper": True,
    "fx_graph_cache": False,
    "compile_threads": 1,
    "size_asserts": False,
    "alignment_asserts": False,
    "triton.autotune_at_compile_time": False,  # kernels are not built
}


@define(eq=False)
class Graphs:
    """The graphs in the order in which they were made, and what they were first given."""

    modules: list[GraphModule] = field(factory=list[GraphModule])
    given: list[list[Any]] = field(factory=list[list[Any]])
    returned: list[Any] = field(factory=list[Any])


def graphs_of(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    training: bool = False,
    triton: bool = False,
    dynamic: bool | None = None,
) -> Graphs:
    """Compile and run a function with the FX backend; return the graphs that it makes.

    With ``triton`` all is fused into Triton kernels, which nothing here can run: then the
    graphs are given zeros, and nothing is returned.
    """
    torch._dynamo.reset()
    found = Graphs()

    class Recorded(wrapper_fxir.WrapperFxCodegen):
        def compile_graph(self, gm: GraphModule) -> Callable[..., Any]:
            number = len(found.modules)
            found.modules.append(gm)
            found.given.append([])
            found.returned.append(None)

            def run(*args: Any) -> Any:
                found.given[number] = [_copied(value) for value in args]
                results = _zeros(gm) if triton else gm(*args)
                found.returned[number] = results
                return results

            return run

    settings = dict(_SETTINGS, cpu_backend="triton") if triton else _SETTINGS
    capture: Any = dynamo_config.patch(
        capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True
    )
    with (
        _fx_backend(Recorded),
        config.patch(settings),
        capture,
        triton_for_cpu(),
        _kernels_unbuilt(),
    ):
        compiled: Any = torch.compile(function, backend=compile_fx, dynamic=dynamic)
        with contextlib.nullcontext() if training else torch.no_grad():
            results = compiled(*inputs)
            if training:
                results.sum().backward()
    return found


def _copied(value: Any) -> Any:
    return copy.deepcopy(value.detach()) if isinstance(value, torch.Tensor) else value


def _zeros(gm: GraphModule) -> Any:
    def zeros(node: Any) -> Any:
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            return 0
        size, stride = (
            [_hint(number) for number in numbers]
            for numbers in (value.size(), value.stride())
        )
        return torch.empty_strided(size, stride, dtype=value.dtype).zero_()

    output = next(iter(reversed(gm.graph.nodes)))
    return torch.fx.map_arg(output.args[0], zeros)


def _hint(number: Any) -> int:
    """Return an example of a number, without making a guard of it."""
    known = number if isinstance(number, int) else number.node.hint
    return 1 if known is None else int(known)


@contextlib.contextmanager
def _fx_backend(codegen: type[wrapper_fxir.WrapperFxCodegen]) -> Generator[None]:
    common.init_backend_registration()
    stock = common.device_codegens["cpu"]
    common.device_codegens["cpu"] = common.DeviceCodegen(
        stock.scheduling, codegen, codegen, codegen
    )
    try:
        yield
    finally:
        common.device_codegens["cpu"] = stock


@contextlib.contextmanager
def _kernels_unbuilt() -> Generator[None]:
    """Have Inductor load its Triton kernels, and take their first config, unbuilt."""

    def load(self: Any, code: str, kernel_name: str) -> Any:
        with mock.patch.object(AsyncCompile, "triton", _tuner):
            module = PyCodeCache.load("\n".join([self.prologue, code]))
        tuner = getattr(module, kernel_name)
        tuner.compile_results = [SimpleNamespace(config=tuner.configs[0])]
        return tuner

    with mock.patch.object(wrapper_fxir.FxConverter, "_import_kernel", load):
        yield


def _tuner(self: Any, kernel_name: str, source_code: str, device_str: str = "cuda") -> Any:
    return getattr(PyCodeCache.load(source_code), kernel_name)
