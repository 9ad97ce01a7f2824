"""Builds the kernels of programs, each once in a process.

They are built in a generated Python module, as emitted Python builds them.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

import torch
from attrs import evolve

from wrapperir.emit import Artifact, Fragment, SourceWriter
from wrapperir.emit.python.expressions import format_tuple
from wrapperir.emit.python.kernels import emit_cpp_kernel, emit_triton_kernel
from wrapperir.emit.python.load_module import load_module
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.fx import (
    Launcher,
    definition_key,
    opaque_launcher,
    register_kernel,
    register_triton_function,
    registered_definition,
    registered_launcher,
)
from wrapperir.ir import KernelDefinitionLine, Language

if TYPE_CHECKING:
    from wrapperir.kernels.triton_cpu import InterpretedKernel

_ENTRY = "kernels.py"
_LOCK = threading.RLock()
# The function and the launcher of each Triton kernel.
_TRITON: dict[tuple[str, bool], tuple[object, Launcher]] = {}

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
        """Return what launches the kernel on a grid."""
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
        for (key, definition), (function, launcher) in zip(
            written.items(), built, strict=True
        ):
            if definition.language is not Language.TRITON:
                register_kernel(key, definition, launcher)
                continue
            if interpreted:
                function = UntracedKernel(cast("InterpretedKernel", function))
            _TRITON[key, interpreted] = function, launcher
            register_triton_function(function, definition)


def triton_function(definition: KernelDefinitionLine, *, interpreted: bool) -> object:
    """Return a Triton kernel's function: a ``JITFunction``, or on the CPU its stand-in.

    Both are launched as ``function[grid](...)``.

    Raises:
        DiagnosticError: WIR709, it does not build.
    """
    register_kernels([definition], interpreted=interpreted)
    function, _ = _TRITON[definition_key(definition), interpreted]
    return function


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
) -> tuple[tuple[object, Launcher], ...]:
    """Return the function of each kernel, for Triton the jitted one, and a launcher."""
    if not definitions:
        return ()
    module = ModuleText()
    compiled = any(line.language is Language.CPP for line in definitions)
    if compiled:
        module.need("AsyncCompile")
        module.definitions.emit_line("async_compile = AsyncCompile()")
    built: list[Fragment] = []
    for index, definition in enumerate(definitions):
        # Those of two programs may have one name.
        line = evolve(definition, name=f"{definition.name[:200]}_{index}")
        if line.language is Language.TRITON:
            function = emit_triton_kernel(module, line)
        else:
            emit_cpp_kernel(module, line)
            function = module.kernels[line.name]
        built.append(format_tuple([function, module.kernels[line.name]]))
    if compiled:
        module.awaiting.emit_line("async_compile.wait(globals())")
    writer = SourceWriter()
    module.emit_head(writer)
    writer.emit_blank(2)
    writer.emit_line("def call(args):")
    with writer.indented():
        writer.emit_line("return {}", format_tuple(built))
    files: dict[str, str | bytes] = {_ENTRY: writer.format_text(), **module.files}
    artifact = Artifact("fx", files, _ENTRY)
    call = load_module(artifact, {}, interpreted=interpreted).call
    return cast(Callable[[list[object]], tuple[tuple[object, Launcher], ...]], call)([])
