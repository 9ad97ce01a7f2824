"""C++ kernels in Python: functions of libraries that the emitted program compiles."""

from wrapperir import ir as wir
from wrapperir.emit.python.compiled_launches import CACHE, EMITTED
from wrapperir.emit.python.expressions import format_string, format_text, format_tuple
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.emit.source_text import Fragment, joined

_KERNELS = ("cpp_kernels",)
_FILES = (
    *("cpp_calls.cpp", "arguments.h", "tensors.h", "native_module.py"),
    *("kernel_flags.py", "kernel_sources.py", CACHE),
)


def emit_cpp_kernel(module: ModuleText, line: wir.KernelDefinitionLine) -> None:
    """Append a C++ kernel, which is compiled with others."""
    if _KERNELS not in module.made:
        module.made[_KERNELS] = module.import_file(
            "cpp_kernels", EMITTED, *_FILES, writer=module.definitions
        )
    has_headers = wir.NO_HEADERS not in line.metadata
    arguments = [
        format_string(line.name),
        format_tuple(
            [_type(p, has_headers) for p in wir.runtime_parameters(line.parameters)]
        ),
        format_string(line.entry),
        format_text(line.source),
        *([format_string(line.vectors or "")] if has_headers else []),
    ]
    module.definitions.emit_line(
        "{} = {}.kernel({})",
        *(module.kernels[line.name], module.made[_KERNELS], joined(", ", arguments)),
    )


def _type(parameter: wir.RuntimeParameter, has_headers: bool) -> Fragment:
    if isinstance(parameter, wir.TensorParameter):
        return format_string("address")
    if has_headers and parameter.dtype in (wir.DType.F16, wir.DType.BF16):
        return format_string("f32")  # which PyTorch's classes of halves are made from
    return format_string(parameter.dtype)


def emit_cpp_end(module: ModuleText) -> None:
    """Append the end of compiling."""
    if _KERNELS in module.made:
        module.awaiting.emit_line("{}.build()", module.made[_KERNELS])
