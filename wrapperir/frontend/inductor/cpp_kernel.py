"""C++ kernels: the source as Inductor wrote it, and the parameters of its entry."""

import re

from torch._inductor.codegen.cpp_utils import DTYPE_TO_CPP

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.inductor.layouts import lower_dtype
from wrapperir.ir import (
    Access,
    BufferParameter,
    KernelDefinitionLine,
    Language,
    Parameter,
    ScalarParameter,
)

ENTRY = "kernel"

_DTYPES = {name: lower_dtype(dtype) for dtype, name in DTYPE_TO_CPP.items()}

_ENTRY_HEAD = re.compile(r'extern "C"[^(;{]*\bvoid\b[^(;{]*\bkernel\s*\(')
_PARAMETER = re.compile(r"(const\s+)?([\w:<>]+)\s*(\*?)\s*(\w+)")
_PREFIX = re.compile(r'#include\s+"[^"]*/[^"/]*\.h"')
# No \b before it: the engine then looks for the word itself, which is far faster.
_UPDATED = re.compile(r"atomic_add\w*\(\s*&?\s*(\w+)")
PREFIX = "#include <torch/csrc/inductor/cpp_prefix.h>"


def lower_cpp_kernel(name: str, source: str, declaration: str) -> KernelDefinitionLine:
    """Return the definition of a C++ kernel from its source and declaration.

    A pointer to const is read, one named ``in_out`` or added to is read and written, any
    other is written.  The include of the prefix by a path of this machine is replaced.

    Raises:
        DiagnosticError: WIR654, the declaration has no parameters that we know.
    """
    text = source.strip() + "\n"
    updated = set(_UPDATED.findall(text))
    return KernelDefinitionLine(
        name=name,
        language=Language.CPP,
        parameters=_lower_parameters(name, declaration, updated),
        entry=ENTRY,
        source=_PREFIX.sub(PREFIX, text),
    )


def _lower_parameters(
    name: str, declaration: str, updated: set[str]
) -> tuple[Parameter, ...]:
    head = _ENTRY_HEAD.search(declaration)
    if head is None:
        raise _unknown(name, declaration)
    inside = declaration[head.end() : declaration.rindex(")")]
    parameters: list[Parameter] = []
    for part in inside.split(","):
        text = part.strip()
        if not text:
            continue
        match = _PARAMETER.fullmatch(text)
        dtype = _DTYPES.get(match[2]) if match else None
        if match is None or dtype is None:
            raise _unknown(name, text)
        if not match[3]:
            parameters.append(ScalarParameter(match[4], dtype))
            continue
        access = Access.READ if match[1] else Access.WRITE
        if access is Access.WRITE and (
            match[4].startswith("in_out") or match[4] in updated
        ):
            access = Access.READ_WRITE
        parameters.append(BufferParameter(match[4], dtype, access))
    return tuple(parameters)


def _unknown(name: str, text: str) -> DiagnosticError:
    return Code.INDUCTOR_KERNEL.error(
        f"parameters of C++ kernel {name} are of an unknown form: {text!r}"
    )
