"""Compilation of traced graphs by Inductor, up to its wrapper lines, as programs."""

import contextlib
import copy
import functools
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._dynamo import config as dynamo_config
from torch._inductor import config
from torch._inductor.codegen import common
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.output_code import MockFXGraphCacheOutput
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.attention import densify_masks, shorten_attention
from wrapperir.frontend.aten.marked_inputs import mark_inputs
from wrapperir.frontend.failures import ReportFailure, compile_or_fall_back
from wrapperir.frontend.inductor.compile import CompileLowered
from wrapperir.frontend.inductor.compile_processes import (
    expect_imports,
    kernels_not_compiled,
    processes_started_late,
)
from wrapperir.frontend.inductor.cpu_triton import triton_for_cpu
from wrapperir.frontend.inductor.decompositions import decompositions
from wrapperir.frontend.inductor.light_keys import light_keys
from wrapperir.frontend.inductor.program_cache import cached_by, showing_emitted_code
from wrapperir.frontend.inductor.saved_draws import with_saved_draws
from wrapperir.frontend.inductor.settings import OWN
from wrapperir.frontend.inductor.vector_sets import recalling_vector_sets
from wrapperir.frontend.preparation import Prepare
from wrapperir.frontend.user_names import UserNames, dynamo_names

# Others are imported late: a graph that PyTorch's cache has needs none of them.
if TYPE_CHECKING:
    from wrapperir.emit import Loaded
    from wrapperir.frontend.inductor.session import Session

# Inductor's registry is one for the process: one capture at a time.
_LOCK = threading.RLock()


@contextlib.contextmanager
def own_settings(cache_key: str | None = None) -> Generator[None]:
    """Turn off what passes or emitters do instead of Inductor, and what is known already.

    ``compile_fx`` reads some of these before it hands a graph on for compilation.
    ``cache_key`` is the key of :func:`~.program_cache.cached_by`.
    """
    with (
        config.patch(OWN),
        cached_by(cache_key),
        light_keys(),
        recalling_vector_sets,
        processes_started_late,
    ):
        yield


@contextlib.contextmanager
def capturing(session: "Session", cache_key: str | None = None) -> Generator[None]:
    """Have Inductor, in this thread, generate for ``session``.

    The registry and the configuration are as before when the context is left, also by
    an exception.  Other threads wait to enter; those that compile with Inductor itself
    meanwhile get its own wrapper.
    """
    from wrapperir.frontend.inductor.kernel_origins import kernels_noted
    from wrapperir.frontend.inductor.storage_offsets import offsets_from_the_storage
    from wrapperir.frontend.inductor.wrapper import CaptureFactory

    with _LOCK:
        common.init_backend_registration()
        stock = dict(common.device_codegens)
        try:
            for device, codegen in stock.items():
                if codegen.wrapper_codegen is not PythonWrapperCodegen:
                    continue
                factory: Any = CaptureFactory(
                    session, codegen.wrapper_codegen, threading.get_ident()
                )
                common.device_codegens[device] = common.DeviceCodegen(
                    codegen.scheduling, factory, factory, factory
                )
            # Alignment is asserted by lines, which the session makes.
            asserts = config.patch("alignment_asserts", False)
            settings = own_settings(cache_key)
            with (
                settings,
                asserts,
                triton_for_cpu(),
                offsets_from_the_storage(),
                kernels_not_compiled(),
                kernels_noted(),
            ):
                yield
        finally:
            for device, codegen in stock.items():
                common.device_codegens[device] = codegen


def compile_anew(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    compile: CompileLowered,
    names: UserNames,
    stock: dict[str, Any] | None,
    cache_key: str | None,
    prepare: Prepare,
    *,
    settings: dict[str, Any],
    report: ReportFailure | None = None,
) -> Callable[..., Any]:
    """Compile a graph that Dynamo traced, as :func:`~.compile.compile_graph` does.

    ``stock`` are Inductor's settings for a graph that fails here, or ``None`` to raise the
    error, which ``report`` is given; ``settings`` are those that captured graphs are
    compiled with.
    """
    inner = functools.partial(
        _compile_or_advise, compile, names, stock, cache_key, prepare, report
    )
    return _compile(graph, inputs, inner, settings, cache_key)


def _compile_or_advise(
    compile: CompileLowered,
    names: UserNames,
    stock: dict[str, Any] | None,
    cache_key: str | None,
    prepare: Prepare,
    report: ReportFailure | None,
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    **kwargs: Any,
) -> Any:
    """Compile one traced graph; if that fails, compile it with Inductor and its settings.

    ``stock`` are Inductor's settings, or ``None`` to raise the error, with advice.
    """
    expect_imports()
    prepare(is_new=True)
    original = graph if stock is None else _copy_graph(graph)

    def fall_back() -> Any:
        with config.patch(stock or {}), cached_by(None):  # else later ones say nothing
            return compile_fx_inner(original, inputs, **kwargs)

    return compile_or_fall_back(
        lambda: compile_inner(compile, graph, inputs, names, cache_key, **kwargs),
        None if stock is None else fall_back,
        is_backward=bool(kwargs.get("is_backward")),
        report=report,
    )


def compile_traced(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], *, is_backward: bool
) -> Any:
    """Compile a graph that AOTAutograd traced for the lowering, with Inductor alone.

    Its operators are decomposed as Inductor's lowering wants them.
    """
    traced = make_fx(graph, select_decomp_table())(*inputs)
    with cached_by(None):  # else later processes would not say it
        return compile_fx_inner(traced, inputs, is_backward=is_backward)


def _copy_graph(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a copy for a second compilation; the tensors of both are the same."""
    tensors = (
        value
        for module in graph.modules()
        for value in (
            *vars(module).values(),
            *module._parameters.values(),
            *module._buffers.values(),
        )
        if isinstance(value, torch.Tensor)
    )
    with unset_fake_temporarily():
        return copy.deepcopy(graph, {id(tensor): tensor for tensor in tensors})


def _compile(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    inner: Callable[..., Any],
    settings: dict[str, Any],
    cache_key: str | None = None,
) -> Callable[..., Any]:
    densify_masks(graph)
    with own_settings(cache_key), showing_emitted_code():
        compiled: Any = compile_fx(
            graph,
            list(inputs),
            inner_compile=inner,
            config_patches=settings,  # also for the backward, which may compile later
            decompositions=decompositions(),
        )
    function: Callable[..., Any] = compiled
    return function


def compile_inner(
    compile: CompileLowered,
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    names: UserNames | None = None,
    cache_key: str | None = None,
    **kwargs: Any,
) -> Any:
    """Compile one traced graph, in the scope that captures it; ``compile`` as above."""
    from wrapperir.frontend.donation import donated_inputs
    from wrapperir.frontend.inductor.block_donation import donating_nothing_to_blocks
    from wrapperir.frontend.inductor.failures import reporting_failures
    from wrapperir.frontend.inductor.passed_objects import has_objects
    from wrapperir.frontend.inductor.session import Session
    from wrapperir.frontend.inductor.user_streams import uses_streams

    # A backward graph may come here when the forward has long returned, so each graph
    # enters the scope by itself.
    backward = bool(kwargs.get("is_backward"))
    shorten_attention(graph.graph)
    marked = mark_inputs(graph.graph, conjugated=False)
    if has_objects(graph, inputs) or uses_streams(graph) or marked.views:
        # What is kept for later processes has nothing around it, and streams are objects
        # of Dynamo's in this one.
        cache_key = None
    asserts = config.alignment_asserts
    session = Session(
        lambda lowered, show: marked.around(compile(lowered, backward, show)),
        asserts,
        is_kept=cache_key is not None,
    )
    if names is not None:
        session.names = names.of_traced(graph.graph, backward=backward)
    with contextlib.ExitStack() as stack:
        if backward:
            session.donated = stack.enter_context(donated_inputs(inputs))
            stack.enter_context(donating_nothing_to_blocks)
        if cache_key is not None:
            if "get_decomp_fn" in kwargs:
                kwargs["get_decomp_fn"] = decompositions  # PyTorch's digests need a name
            donated = None if session.donated is None else sorted(session.donated)
            cache_key = f"{cache_key} {asserts} {donated}"
        stack.enter_context(capturing(session, cache_key))
        stack.enter_context(reporting_failures(session))
        compiled: Any = compile_fx_inner(graph, inputs, **kwargs)
        if session.shown is not None and compiled._fx_graph_cache_key is None:
            # The profiler shows it in the mark of each call.
            compiled._fx_graph_cache_key = session.shown.digest
        return compiled


def capture(
    function: Callable[..., Any],
    example_inputs: Sequence[Any],
    *,
    cpu_backend: str | None = None,
    training: bool = False,
) -> list[Lowered]:
    """Return the programs that Inductor makes of a function or module.

    PyTorch itself runs the function once on ``example_inputs``, with all its effects, so
    that every graph is reached.  With ``training`` the sum of its results is then
    propagated back, which accumulates gradients.  No kernel is compiled.  A function that
    ``torch.compile`` has given up, because it was recompiled too often, has no graphs until
    ``torch._dynamo.reset()``.

    Args:
        function: a function or module that ``torch.compile`` accepts.
        example_inputs: its positional arguments.
        cpu_backend: ``"triton"`` has Inductor write Triton for CPU tensors, with no GPU
            needed; the default is as Inductor is configured.
        training: whether to capture the backward graphs too.

    Raises:
        DiagnosticError: a graph has something that a program cannot express.
    """
    captured: list[Lowered] = []
    # For these graphs alone: the functions that they run may compile too.
    settings: dict[str, Any] = {} if cpu_backend is None else {"cpu_backend": cpu_backend}

    def keep(lowered: Lowered, backward: bool, show: object) -> "Loaded":
        captured.append(lowered)
        return lambda args: ()

    def inner(
        names: UserNames, graph: torch.fx.GraphModule, inputs: Sequence[Any], **kwargs: Any
    ) -> Any:
        original = _copy_graph(graph)  # Inductor's passes change the graph

        def run(args: list[Any]) -> Any:
            return original(*args)

        compile_inner(keep, graph, inputs, names, **kwargs)
        return MockFXGraphCacheOutput(run)

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        compile = functools.partial(inner, dynamo_names(graph))
        return _compile(graph, inputs, compile, with_saved_draws(settings))

    compiled: Callable[..., Any] = torch.compile(function, backend=backend)
    # Dynamo counts what others compiled of the function, and would leave it to PyTorch.
    limits = {"recompile_limit": sys.maxsize, "accumulated_recompile_limit": sys.maxsize}
    gradients = contextlib.nullcontext() if training else torch.no_grad()
    with gradients, dynamo_config.patch(limits):
        _run(compiled, example_inputs)
    return captured


def _run(compiled: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Run forward and, if a result requires a gradient, backward."""
    from wrapperir.frontend.inductor.failures import diagnostics_unwrapped

    with diagnostics_unwrapped():
        outputs = pytree.tree_leaves(compiled(*inputs))
        leaves = [o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
        if leaves:
            torch.autograd.backward([leaf.sum() for leaf in leaves])
