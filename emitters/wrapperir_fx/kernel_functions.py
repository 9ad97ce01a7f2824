"""Builds the kernels of programs, each once in a process, and binds graphs to them.

They are built in a generated Python module, as emitted Python builds them.

Graphs find Triton kernels by index in PyTorch's side table, which belongs to the process.
PyTorch numbers entries by the table's size, and ``torch._dynamo.reset`` empties it: after
that, a graph's index would name another kernel, or none.  So each kernel of ours has an
index made from its definition, the same in every process, and a reset leaves the kernels
that graphs were bound to.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
from attrs import evolve
from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_mutation,
)
from torch.fx import GraphModule, Node
from torch.fx.node import Argument

from wrapperir.emit import Artifact, Fragment, SourceWriter, fragment
from wrapperir.emit.python.compiled_launches import (
    emit_compilation,
    emit_compiled_kernel,
    emit_launcher,
    reason_against,
)
from wrapperir.emit.python.cpp_kernels import emit_cpp_end, emit_cpp_kernel
from wrapperir.emit.python.expressions import format_tuple
from wrapperir.emit.python.kernels import emit_triton_kernel
from wrapperir.emit.python.load_module import load_module
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.emit.triton_signature import ArgumentFacts
from wrapperir.fx import (
    Launcher,
    definition_key,
    opaque_launcher,
    register_kernel,
    register_triton_function,
    registered_definition,
    registered_launcher,
)
from wrapperir.ir import (
    DefinitionLine,
    KernelDefinitionLine,
    Language,
    runtime_parameters,
)

if TYPE_CHECKING:
    from wrapperir.kernels.triton_cpu import InterpretedKernel


_ENTRY = "kernels.py"
_LOCK = threading.RLock()
# The function, the launcher, and what the driver launches, of each Triton kernel.
_TRITON: dict[tuple[str, bool], tuple[object, Launcher, Any]] = {}

_Built: TypeAlias = tuple[object, Launcher, Any]

_untraced = cast(Callable[[Launcher], object], torch.compiler.disable)


class UntracedKernel:
    """A Triton kernel that runs in the interpreter and is launched like a jitted one.

    ``arg_names`` are the kernel's parameters, the only attribute that PyTorch needs to
    launch it.
    """

    def __init__(self, kernel: "InterpretedKernel") -> None:
        """Wrap a kernel that was loaded to be interpreted."""
        self.arg_names = kernel.arg_names
        self._kernel = kernel

    def __getitem__(self, grid: object) -> Launcher:
        """Return a function that launches the kernel on a grid."""
        # Dynamo would trace the interpreter, beneath a graph that it could not trace.
        return cast(Launcher, _untraced(self._kernel[grid]))


def register_kernels(
    definitions: Iterable[KernelDefinitionLine], *, interpreted: bool = False
) -> None:
    """Build kernels that this process has not built, and register the C++ and opaque ones.

    ``torch.ops.wrapperir.call_kernel`` finds them from then on.  ``interpreted`` says that
    Triton kernels are built to run on the CPU, in Triton's interpreter.

    Raises:
        DiagnosticError: WIR709, a kernel does not build.
    """
    with _LOCK:
        # By key: definitions are equal where one has 1 and another 1.0 or true.
        missing = {
            key: definition
            for definition in definitions
            if not _is_built(key := definition_key(definition), definition, interpreted)
        }
        written: dict[str, KernelDefinitionLine] = {}
        for key, definition in missing.items():
            if definition.language is Language.OPAQUE:
                register_kernel(key, definition, opaque_launcher(definition))
            else:
                written[key] = definition
        built = _build(tuple(written.values()), interpreted=interpreted)
        for (key, definition), (function, launcher, direct) in zip(
            written.items(), built, strict=True
        ):
            if definition.language is not Language.TRITON:
                register_kernel(key, definition, launcher)
                continue
            if interpreted:
                function = UntracedKernel(cast("InterpretedKernel", function))
            _TRITON[key, interpreted] = function, launcher, direct
            register_triton_function(function, definition)


def kernel_launcher(definition: KernelDefinitionLine, *, interpreted: bool) -> Launcher:
    """Return a function that runs a kernel; it takes arguments in the order of parameters.

    ``interpreted`` says that a Triton kernel runs on the CPU.  On a GPU, the device of its
    tensors must be the current one.

    Raises:
        DiagnosticError: WIR709, it does not build.
    """
    register_kernels([definition], interpreted=interpreted)
    key = definition_key(definition)
    if definition.language is Language.TRITON:
        return _TRITON[key, interpreted][1]
    return registered_launcher(key)


def _is_built(key: str, definition: KernelDefinitionLine, interpreted: bool) -> bool:
    if definition.language is Language.TRITON:
        return (key, interpreted) in _TRITON
    return registered_definition(key) is not None


def _build(
    definitions: Sequence[KernelDefinitionLine], *, interpreted: bool
) -> tuple[_Built, ...]:
    """Return the function of each kernel, for Triton the jitted one, and a launcher.

    Third is the object that launches through the driver, ``None`` if there is none.
    """
    if not definitions:
        return ()
    module = ModuleText()
    built: list[Fragment] = []
    names = [definition.name[:200] for definition in definitions]
    if len({*names}) < len(names):  # kernels of two programs may have one name
        names = [f"{name}_{index}" for index, name in enumerate(names)]
    for name, definition in zip(names, definitions, strict=True):
        line = evolve(definition, name=name)
        function = module.kernels[line.name]
        direct = fragment("None")
        # Nothing is known of the calls, which other graphs will have too.
        facts = [ArgumentFacts(1) for _ in runtime_parameters(line.parameters)]
        if line.language is Language.CPP:
            emit_cpp_kernel(module, line)
        elif interpreted or reason_against(line, facts) is not None:
            function = emit_triton_kernel(module, line)
        else:
            emit_compiled_kernel(module, line, facts, is_lazy=True)
            direct, function = function, fragment("{}.function", function)
        built.append(format_tuple([function, emit_launcher(module, line), direct]))
    emit_compilation(module)
    emit_cpp_end(module)
    writer = SourceWriter()
    module.emit_head(writer)
    writer.emit_blank(2)
    writer.emit_line("def call(args):")
    with writer.indented():
        writer.emit_line("return {}", format_tuple(built))
    files: dict[str, str | bytes] = {_ENTRY: writer.format_text(), **module.files}
    artifact = Artifact("fx", files, _ENTRY)
    call = load_module(artifact, {}, interpreted=interpreted).call
    return cast(Callable[[list[object]], tuple[_Built, ...]], call)([])


_ENTERED: dict[int, Any] = {}
_DIRECT: dict[int, Any] = {}
_NO_CONSTANTS = 1 << 62  # index of the constants of all our calls; PyTorch's count from 0


def bind_triton_kernels(
    module: GraphModule, definitions: Sequence[DefinitionLine], *, interpreted: bool
) -> None:
    """Put the Triton kernels that a built graph calls into PyTorch's side table.

    In the calls, in nested graphs too, indices into ``definitions`` become indices into
    that table.

    Raises:
        DiagnosticError: WIR709, a kernel does not build.
    """
    calls = list(triton_calls(module))
    table: dict[int, int] = {}
    for _, node in calls:
        index = cast(int, node.kwargs["kernel_idx"])
        if index not in table:
            definition = definitions[index]
            assert isinstance(definition, KernelDefinitionLine)
            table[index] = enter_triton_kernel(definition, interpreted=interpreted)
        node.update_kwarg("kernel_idx", table[index])
        node.update_kwarg("constant_args_idx", _NO_CONSTANTS)
    for owner in dict.fromkeys(owner for owner, _ in calls):
        owner.recompile()


def enter_triton_kernel(definition: KernelDefinitionLine, *, interpreted: bool) -> int:
    """Put a Triton kernel into PyTorch's side table for good, and return its index there.

    The index is that of the kernel in other processes too.

    Raises:
        DiagnosticError: WIR709, the kernel does not build.
    """
    register_kernels([definition], interpreted=interpreted)
    key = definition_key(definition)
    function, _, direct = _TRITON[key, interpreted]
    index = int(hashlib.sha256(f"{key}:{interpreted}".encode()).hexdigest()[:15], 16)
    with kernel_side_table.lock:
        if not _ENTERED:
            _keep_over_resets()
        known = _ENTERED.setdefault(index, function)
        assert known is function
        if hasattr(direct, "slow"):  # not a kernel that Triton launches
            _DIRECT[index] = direct
        _write_entries()
    return index


def triton_calls(module: GraphModule) -> Iterator[tuple[GraphModule, Node]]:
    """Yield each launch of a Triton kernel and its module, in nested graphs too."""
    for owner in module.modules():
        if isinstance(owner, GraphModule):
            for node in owner.graph.find_nodes(
                op="call_function", target=triton_kernel_wrapper_mutation
            ):
                yield owner, node


def launch_directly(module: GraphModule) -> None:
    """Have a graph's code launch Triton kernels through the driver, in nested graphs too.

    A call of the operator becomes ``add(4, 1, 1, buf0, buf1, 64)``, where the driver can
    launch the kernel.
    """
    changed: dict[GraphModule, None] = {}
    for owner, node in list(triton_calls(module)):
        kernel = _DIRECT.get(cast(int, node.kwargs["kernel_idx"]))
        if kernel is None:
            continue
        ((*grid,),) = cast("list[tuple[Argument, ...]]", node.kwargs["grid"])
        given = cast("dict[str, Argument]", node.kwargs["kwargs"])
        with owner.graph.inserting_before(node):
            launch = owner.graph.call_function(
                kernel, (*grid, *(given[name] for name in kernel.slow.names))
            )
        launch.meta = node.meta
        owner.graph.erase_node(node)
        changed[owner] = None
    for owner in changed:
        owner.recompile()


def _keep_over_resets() -> None:
    # Restored at the reset, not where a graph runs: what others traced or compiled from a
    # graph has its indices too, and runs without code of ours.
    reset_table = kernel_side_table.reset_table

    def reset() -> None:
        reset_table()
        with kernel_side_table.lock:
            _write_entries()

    vars(kernel_side_table)["reset_table"] = reset


def _write_entries() -> None:
    kernel_side_table.id_to_kernel.update(_ENTERED)
    kernel_side_table.kernel_to_id.update({kernel: i for i, kernel in _ENTERED.items()})
    kernel_side_table.constant_args[_NO_CONSTANTS] = {}
