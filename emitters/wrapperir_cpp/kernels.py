"""C++ kernels: their declarations and files, and their objects.

Kernels of Inductor's are compiled with Inductor's own flags, so that the same source gives
the same results as when Inductor compiles it.  Most of the time that one takes is for its
header, so kernels that include no other are compiled several at a time.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import LiteralString

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit.fragment import Fragment, fragment, joined
from wrapperir.emit.names import NameTable
from wrapperir.ir.kernel import RuntimeParameter, ScalarParameter, runtime_parameters
from wrapperir.ir.line import KernelDefinitionLine
from wrapperir.ir.types import DType
from wrapperir_cpp.build_cache import built_once, digest_of
from wrapperir_cpp.compiler import Compiler, compiler_version, failed
from wrapperir_cpp.layout import KERNELS
from wrapperir_cpp.module_text import CppModule
from wrapperir_cpp.objects import side_by_side, torch_facts

_PREFIX = "cpp_"
"""What C++ kernels' names begin with; no function of the C library's does."""
_HEADER = "#include <torch/csrc/inductor/cpp_prefix.h>\n"
_INCLUDES = re.compile(r"(?:[ \t]*#[ \t]*include[ \t][^\n\\]*\n|[ \t]*\n)*")
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*(?!pragma\b)(.*)$", re.MULTILINE)
_LARGEST_UNIT = 32

# Numbers as they are passed; the source's own parameter converts them.
_NUMBERS: Mapping[DType, LiteralString] = {
    DType.F64: "double",
    DType.U64: "uint64_t",
    DType.F32: "float",
    DType.F16: "float",
    DType.BF16: "float",
    DType.I64: "int64_t",
    DType.I32: "int64_t",
    DType.I16: "int64_t",
    DType.I8: "int64_t",
    DType.U32: "int64_t",
    DType.U16: "int64_t",
    DType.U8: "int64_t",
    DType.BOOL: "int64_t",
}
_PASSED_AS_DECLARED = frozenset({DType.I64, DType.U64, DType.F32})
# An address that becomes a pointer of the type that the source declares.
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
    module.files[f"{KERNELS}{function}.cpp"] = _adapted_source(line, function, types)


def _c_type(line: KernelDefinitionLine, parameter: RuntimeParameter) -> Fragment:
    if not isinstance(parameter, ScalarParameter):
        return fragment("void*")
    spelled = _NUMBERS.get(parameter.dtype)
    if spelled is None:
        raise DiagnosticError(
            Diagnostic(
                code=Code.UNSUPPORTED_FEATURE,
                message=f"a number of type {parameter.dtype} cannot be passed to a kernel",
                subject=f"@{line.name}",
            )
        )
    return fragment(spelled)


def _adapted_source(
    line: KernelDefinitionLine, function: Fragment, types: Sequence[Fragment]
) -> str:
    """Return the source with its entry under the name of the kernel."""
    includes = _INCLUDES.match(line.source)
    assert includes is not None
    head, body = line.source[: includes.end()], line.source[includes.end() :]
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


def build_kernels(files: Mapping[str, str | bytes]) -> list[Path]:
    """Return the objects of an artifact's C++ kernels, in the user's cache.

    Raises:
        DiagnosticError: WIR709, a kernel does not compile; WIR710, there is no place to
            keep what is built.
    """
    kernels = {
        path: text
        for path, text in sorted(files.items())
        if path.startswith(KERNELS) and path.endswith(".cpp") and isinstance(text, str)
    }
    if not kernels:
        return []
    compiler = _kernel_compiler()
    alone = [{path: text} for path, text in kernels.items() if not _is_joinable(text)]
    joinable = [path for path, text in kernels.items() if _is_joinable(text)]
    count = max(min(os.cpu_count() or 1, len(joinable)), -(-len(joinable) // _LARGEST_UNIT))
    units = [{path: kernels[path] for path in joinable[i::count]} for i in range(count)]
    built = side_by_side(lambda unit: _build_unit(compiler, unit), [*units, *alone])
    return [path for paths in built for path in paths]


def _kernel_compiler() -> Compiler:
    # Inductor takes a second to import, and only kernels need it.
    from wrapperir.frontend.inductor.cpp_build import CppBuildError, object_command

    try:
        command = object_command()
    except CppBuildError as error:
        raise failed(str(error)) from None
    return Compiler(command, compiler_version(command[:1]))


def _build_unit(compiler: Compiler, unit: Mapping[str, str]) -> list[Path]:
    if len(unit) > 1:
        try:
            return [_build_object(compiler, "kernels.cpp", _joined_source(unit))]
        except DiagnosticError:
            pass  # which it is and why shows when each is compiled alone
    return [_build_object(compiler, path, text) for path, text in unit.items()]


def _is_joinable(text: str) -> bool:
    """Say whether nothing in the file is to stay outside a namespace but the header."""
    directives = _DIRECTIVE.findall(text)
    return text.startswith(_HEADER) and [
        words.partition(" ")[0] for words in directives
    ] == ["include", "define", "undef"]


def _joined_source(unit: Mapping[str, str]) -> str:
    parts = [
        f"namespace of_{index} {{\n{text.removeprefix(_HEADER)}}}\n"
        for index, text in enumerate(unit.values())
    ]
    return _HEADER + "".join(parts)


def _build_object(compiler: Compiler, path: str, text: str) -> Path:
    from wrapperir.frontend.inductor.cpp_build import CppBuildError, precompiled_prefix

    def compile_to(output: Path) -> None:
        source = output.parent / path
        source.parent.mkdir(exist_ok=True)
        source.write_text(text, encoding="utf-8")
        try:
            header = precompiled_prefix()
        except CppBuildError as error:
            raise failed(str(error)) from None
        # Of a header's warnings there are thousands, and printing them takes time.
        arguments = [path, *header, "-w", "-c", "-o", str(output)]
        compiler.run(arguments, output.parent, path)

    key = digest_of(compiler.command, compiler.version, torch_facts(), path, text)
    return built_once("objects", key, compile_to)
