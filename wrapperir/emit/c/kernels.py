"""C++ kernels beside a program in C or C++: their declarations, files and objects."""

from collections.abc import Callable

from wrapperir.emit.c.expressions import element_type
from wrapperir.emit.source_text import Fragment, fragment, joined
from wrapperir.ir import KernelDefinitionLine, ScalarParameter, runtime_parameters
from wrapperir.kernels.emitted.kernel_sources import split_includes, with_vectors

FOLDER = "kernels/"


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
    head, body = split_includes(line.source)
    renamed = f"{head}#define {line.entry} {function}\n{body}\n#undef {line.entry}\n"
    return f"{FOLDER}{function}.cpp", with_vectors(renamed, line.vectors)
