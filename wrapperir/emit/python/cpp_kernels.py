"""C++ kernels in Python: functions that torch binds, or of a library without headers."""

from collections.abc import Iterable

from wrapperir import ir as wir
from wrapperir.emit.python.compiled_launches import CACHE, EMITTED
from wrapperir.emit.python.expressions import format_string, format_text, format_tuple
from wrapperir.emit.python.kernels import emit_bound_kernel
from wrapperir.emit.python.module_text import ModuleText

_KERNELS = ("cpp_kernels",)
_TORCHS = ("async_compile",)
_FILES = (*("cpp_calls.cpp", "arguments.h", "tensors.h", "native_module.py"), CACHE)


def emit_cpp_begin(
    module: ModuleText, definitions: Iterable[wir.KernelDefinitionLine]
) -> None:
    """Append what the given C++ kernels need before they are defined."""
    if any(wir.NO_HEADERS not in line.metadata for line in definitions):
        module.made[_TORCHS] = module.need("AsyncCompile")
        module.definitions.emit_line("async_compile = AsyncCompile()")


def emit_cpp_kernel(module: ModuleText, line: wir.KernelDefinitionLine) -> None:
    """Append a C++ kernel, which is compiled beside others."""
    if wir.NO_HEADERS not in line.metadata:
        emit_bound_kernel(module, line)
        return
    if _KERNELS not in module.made:
        module.made[_KERNELS] = module.import_file(
            "cpp_kernels", EMITTED, *_FILES, writer=module.definitions
        )
    types = [
        format_string(
            "address" if isinstance(parameter, wir.TensorParameter) else parameter.dtype
        )
        for parameter in wir.runtime_parameters(line.parameters)
    ]
    module.definitions.emit_line(
        "{} = {}.kernel({}, {}, {}, {})",
        *(module.kernels[line.name], module.made[_KERNELS]),
        *(format_string(line.name), format_tuple(types), format_string(line.entry)),
        format_text(line.source),
    )


def emit_cpp_end(module: ModuleText, *, is_script: bool = True) -> None:
    """Append the end of compiling; ``is_script`` drops what only that needed."""
    if _KERNELS in module.made:
        module.awaiting.emit_line("{}.build()", module.made[_KERNELS])
    if _TORCHS in module.made:
        module.awaiting.emit_line("async_compile.wait(globals())")
        if is_script:
            module.awaiting.emit_line("del async_compile")
