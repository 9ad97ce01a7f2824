"""C++ kernels beside a program in C or C++: their declarations, files and objects."""

import re
from collections.abc import Callable

from wrapperir.emit.c.expressions import element_type
from wrapperir.emit.source_text import Fragment, fragment, joined
from wrapperir.ir import KernelDefinitionLine, ScalarParameter, runtime_parameters

FOLDER = "kernels/"
_INCLUDES = re.compile(r"(?:[ \t]*#[ \t]*include[ \t][^\n\\]*\n|[ \t]*\n)*")


def format_prototype(
    line: KernelDefinitionLine, function: Fragment, report: Callable[[str], object]
) -> Fragment:
    """Return the C declaration of a kernel: ``void cpp_add(void *, void *, int64_t)``.

    Buffers are ``void *``; C++ defines the function with pointers to their elements.
    ``report`` is called with a type that C does not have.
    """
    types: list[Fragment] = []
    for parameter in runtime_parameters(line.parameters):
        if not isinstance(parameter, ScalarParameter):
            types.append(fragment("void *"))
            continue
        spelled = element_type(parameter.dtype)
        if spelled is None:
            report(f"a kernel cannot take {parameter.name} as {parameter.dtype.value}")
        types.append(spelled or fragment("int64_t"))
    return fragment("void {}({})", function, joined(", ", types or [fragment("void")]))


def kernel_file(line: KernelDefinitionLine, function: Fragment) -> tuple[str, str]:
    """Return the path and text of a kernel's source, with its entry named ``function``.

    :func:`wrapperir.kernels.build_kernels` compiles such files.
    """
    includes = _INCLUDES.match(line.source)
    assert includes is not None  # it may be empty
    head, body = line.source[: includes.end()], line.source[includes.end() :]
    renamed = f"{head}#define {line.entry} {function}\n{body}\n#undef {line.entry}\n"
    return f"{FOLDER}{function}.cpp", renamed
