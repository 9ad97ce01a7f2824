"""Kernels of a language on a kind of device; C++ kernels, their declarations and files."""

from collections.abc import Callable, Mapping, Sequence
from typing import LiteralString, TypeAlias

from attrs import frozen

from wrapperir.diagnostics import Code
from wrapperir.emit import Fragment, NameTable, fragment, joined
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import (
    BufferRef,
    DType,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    Language,
    RuntimeParameter,
    ScalarParameter,
    runtime_parameters,
)
from wrapperir.kernels.emitted.kernel_sources import split_includes, with_vectors
from wrapperir_cpp.context import Context
from wrapperir_cpp.layout import KERNELS
from wrapperir_cpp.literals import format_string
from wrapperir_cpp.module_text import CppModule
from wrapperir_cpp.streams import format_stream_handle

Addresses: TypeAlias = Callable[[int], Fragment]
"""Returns the address of the tensor at a position of a call's arguments."""


@frozen
class LaunchArgument:
    """A tensor and the address of its first element, or a scalar, which has none."""

    value: KernelArgument
    address: Fragment | None = None


@frozen
class KernelLanguage:
    """Functions that emit kernels of one language on one kind of device.

    ``declare`` adds a definition to the module, or reports it.  ``format_launch`` returns
    the expression that launches a kernel.
    """

    declare: Callable[[Context, KernelDefinitionLine], None]
    format_launch: Callable[
        [Context, KernelCallLine, KernelDefinitionLine, Sequence[LaunchArgument]], Fragment
    ]


KernelLanguages: TypeAlias = Mapping[tuple[str, Language], KernelLanguage]
"""Kernels by kind of device and language."""


_PREFIX = "cpp_"
"""Prefix of C++ kernels' names; no function of the C library has it."""

# Numbers as they are passed; the source's own parameter converts them.
_NUMBERS: Mapping[DType, LiteralString] = {
    DType.F64: "double",
    **dict.fromkeys((DType.F32, DType.F16, DType.BF16), "float"),
    **dict.fromkeys((dtype for dtype in DType if dtype.is_integer), "int64_t"),
    DType.U64: "uint64_t",
}
_PASSED_AS_DECLARED = frozenset({DType.I64, DType.U64, DType.F32})
# An address that converts to a pointer of the type that the source declares.
_ADDRESS = """\
namespace {
struct Address {
  void* address;
  template <typename T> operator T*() const { return static_cast<T*>(address); }
};
}
"""


def declare_kernel(module: CppModule, line: KernelDefinitionLine) -> None:
    """Add the declaration of a C++ kernel and its file ``kernels/<name>.cpp``.

    ``module.kernels`` has the function's name.  It takes the addresses of buffers as
    ``void*``, whole numbers as ``int64_t`` (``uint64_t`` for u64), and others as ``float``
    or ``double``.

    Raises:
        DiagnosticError: WIR705, a number is of a type that cannot be passed.
    """
    name = line.name if line.name.startswith(_PREFIX) else f"{_PREFIX}{line.name}"
    function = module.kernels[line.name] = module.names.claim(name)
    runtime = runtime_parameters(line.parameters)
    types = [_c_type(line, parameter) for parameter in runtime]
    module.declare(fragment("void {}({})", function, joined(", ", types)))
    adapted = _adapted_source(line, function, types)
    module.files[f"{KERNELS}{function}.cpp"] = with_vectors(adapted, line.vectors)


def _c_type(line: KernelDefinitionLine, parameter: RuntimeParameter) -> Fragment:
    if not isinstance(parameter, ScalarParameter):
        return fragment("void*")
    spelled = _NUMBERS.get(parameter.dtype)
    if spelled is None:
        message = f"a number of type {parameter.dtype} cannot be passed to a kernel"
        raise Code.UNSUPPORTED_FEATURE.error(message, subject=f"@{line.name}")
    return fragment(spelled)


def _adapted_source(
    line: KernelDefinitionLine, function: Fragment, types: Sequence[Fragment]
) -> str:
    """Return the source with its entry under the name of the kernel."""
    head, body = split_includes(line.source)
    runtime = runtime_parameters(line.parameters)
    entry = NameTable(()).claim(line.entry)
    if not any(map(_is_converted, runtime)):
        return f"{head}#define {entry} {function}\n{body}\n#undef {entry}\n"
    inner = fragment("{}_of_source", function)
    names = [f"a{index}" for index in range(len(runtime))]
    declared = ", ".join(f"{t} {name}" for t, name in zip(types, names, strict=True))
    given = ", ".join(
        name if isinstance(parameter, ScalarParameter) else f"Address{{{name}}}"
        for parameter, name in zip(runtime, names, strict=True)
    )
    return f"""\
{head}#define {entry} {inner}
{body}
#undef {entry}
{_ADDRESS}extern "C" void {function}({declared}) {{
  {inner}({given});
}}
"""


def _is_converted(parameter: RuntimeParameter) -> bool:
    return (
        isinstance(parameter, ScalarParameter)
        and parameter.dtype not in _PASSED_AS_DECLARED
    )


def _format_launch(
    context: Context,
    line: KernelCallLine,
    kernel: KernelDefinitionLine,
    arguments: Sequence[LaunchArgument],
) -> Fragment:
    """Return ``cpp_fused_0(c.p[x], c.arena + 256, 64)``."""
    given = format_arguments(context, kernel, arguments)
    return fragment("{}({})", context.module.kernels[kernel.name], joined(", ", given))


def format_arguments(
    context: Context, kernel: KernelDefinitionLine, arguments: Sequence[LaunchArgument]
) -> list[Fragment]:
    """Return the arguments of a C++ kernel's function."""
    given: list[Fragment] = []
    for argument, parameter in zip(
        arguments, runtime_parameters(kernel.parameters), strict=True
    ):
        if argument.address is not None:
            given.append(argument.address)
            continue
        assert not isinstance(argument.value, BufferRef)  # it would have an address
        dtype = parameter.dtype if isinstance(parameter, ScalarParameter) else None
        given.append(context.expressions.format_number(argument.value, kind_of(dtype)))
    return given


CPP_KERNELS = KernelLanguage(
    lambda context, line: declare_kernel(context.module, line), _format_launch
)
"""C++ kernels, run by the host at their call."""


def launched_kernels(function: LiteralString) -> KernelLanguage:
    """Return C++ kernels that ``function`` launches on a stream of a device.

    It is called as ``function(stream, "add", cpp_add, arguments...)``: the stream as the
    device's functions take it, and the kernel's name in the program.
    """

    def format_launch(
        context: Context,
        line: KernelCallLine,
        kernel: KernelDefinitionLine,
        arguments: Sequence[LaunchArgument],
    ) -> Fragment:
        given = [
            format_stream_handle(context, line.device, line.stream),
            format_string(kernel.name),
            context.module.kernels[kernel.name],
            *format_arguments(context, kernel, arguments),
        ]
        return fragment("{}({})", fragment(function), joined(", ", given))

    return KernelLanguage(CPP_KERNELS.declare, format_launch)
