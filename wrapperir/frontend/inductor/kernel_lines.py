"""Lowering of kernel definitions and calls."""

import ast
import itertools
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import sympy
from attrs import evolve
from torch._inductor.codegen import wrapper as inductor
from torch._inductor.codegen.cpp_utils import DTYPE_TO_CPP
from torch._inductor.cpu_vec_isa import pick_vec_isa

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.aten.values import lower_device
from wrapperir.frontend.inductor.early_kernels import begin_compiling
from wrapperir.frontend.inductor.kernel_copies import kernel_copies
from wrapperir.frontend.inductor.kernel_origins import parts_of_values
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.frontend.inductor.triton_kernel import (
    lower_triton_kernel,
    runtime_values,
    with_launch_grid,
)
from wrapperir.frontend.inductor.values import described, lower_buffer, lower_dtype
from wrapperir.symbolic import lower_sympy

if TYPE_CHECKING:
    from wrapperir.frontend.inductor.session import Session

_MAX_NAME = 200


def kernel_name(name: str) -> str:
    """Return a kernel's name within an identifier's length, unique by its number."""
    if len(name) <= _MAX_NAME:
        return name
    stem, _, number = name.rpartition("_")
    return f"{stem[: _MAX_NAME - len(number)]}_{number}"


def lower_definition(
    scope: BlockScope,
    line: inductor.KernelDefinitionLine,
    call: inductor.KernelCallLine | None,
) -> None:
    """Lower a kernel's definition; ``call`` is its first call, which has its metadata.

    Raises:
        DiagnosticError: WIR654, the definition is of no known form.
    """
    name = kernel_name(line.kernel_name)
    if name in scope.session.definitions or call is None:
        return
    definition = scope.session.early.get(name)
    if definition is None:
        language, source = _written(line.kernel_body)
        if language == _CPP:
            definition = lower_cpp_kernel(name, source, line.cpp_definition or "")
        elif language == _TRITON:
            written = scope.session.user_kernels.get(line.kernel_name)
            definition = lower_triton_kernel(name, source, call, written)
        else:
            raise Code.INDUCTOR_KERNEL.error(
                f"kernel {name} is neither C++ nor Triton of Inductor's form",
                hint="leave only ATEN and TRITON in max_autotune_gemm_backends",
            )
    scope.session.definitions[name] = definition


def define_early(session: "Session", call: inductor.KernelCallLine) -> None:
    """Lower a Triton kernel's definition at its first call, and begin to compile it."""
    name = kernel_name(call.kernel_name)
    body = session.bodies.get(call.kernel_name)
    if body is None or name in session.early or not call.triton:
        return
    language, source = _written(body)
    if language == _TRITON:
        written = session.user_kernels.get(call.kernel_name)
        with suppress(DiagnosticError):  # it is raised where the definition comes
            definition = lower_triton_kernel(name, source, call, written)
            session.early[name] = definition
            begin_compiling(definition, call)


_CPP, _TRITON = "cpp_pybinding", "triton"


def _written(body: str) -> tuple[str, str]:
    """Return the language of a definition that Inductor has written, and the source."""
    match ast.parse(body.strip(), mode="eval").body:
        case ast.Call(
            func=ast.Attribute(attr=language),
            args=[_, ast.Constant(value=str(source)), *_],
        ):
            return language, source
        case _:
            return "", ""


_CPP_DTYPES = {name: lower_dtype(dtype) for dtype, name in DTYPE_TO_CPP.items()}
_ENTRY_HEAD = re.compile(r'extern "C"[^(;{]*\bvoid\b[^(;{]*\bkernel\s*\(')
_PARAMETER = re.compile(r"(const\s+)?([\w:<>]+)\s*(\*?)\s*(\w+)")
_PREFIX = re.compile(r'#include\s+"[^"]*/[^"/]*\.h"')
# Without \b at the start the search is far faster.
_UPDATED = re.compile(r"atomic_add\w*\(\s*&?\s*(\w+)")
_VECTOR = "at::vec::"
_CAPABILITY = "CPU_CAPABILITY_"
PREFIX = "#include <torch/csrc/inductor/cpp_prefix.h>"


def lower_cpp_kernel(name: str, source: str, declaration: str) -> wir.KernelDefinitionLine:
    """Return the definition of a C++ kernel from its source and declaration.

    A pointer to const is read, one named ``in_out`` or added to is read and written, any
    other is written.  The include of the prefix by a path of this machine is replaced.

    Raises:
        DiagnosticError: WIR654, the declaration has no parameters that we know.
    """
    text = source.strip() + "\n"
    updated = set(_UPDATED.findall(text))
    head = _ENTRY_HEAD.search(declaration)
    if head is None:
        raise _unknown_parameters(name, declaration)
    inside = declaration[head.end() : declaration.rindex(")")]
    parts = [part.strip() for part in inside.split(",")]
    return wir.KernelDefinitionLine(
        name=name,
        language=wir.Language.CPP,
        parameters=tuple(_cpp_parameter(name, part, updated) for part in parts if part),
        entry="kernel",
        source=_PREFIX.sub(PREFIX, text),
        metadata=((wir.VECTORS, _vectors()),) if _VECTOR in text else (),
    )


def _vectors() -> str:
    """Return the vector instructions that Inductor writes kernels with."""
    macros = pick_vec_isa().build_macro()
    named = [macro for macro in macros if macro.startswith(_CAPABILITY)]
    return named[-1].removeprefix(_CAPABILITY) if named else "none"


def _cpp_parameter(kernel: str, text: str, updated: set[str]) -> wir.Parameter:
    match = _PARAMETER.fullmatch(text)
    dtype = _CPP_DTYPES.get(match[2]) if match else None
    if match is None or dtype is None:
        raise _unknown_parameters(kernel, text)
    constant, _, pointer, name = match.groups()
    if not pointer:
        return wir.ScalarParameter(name, dtype)
    if constant:
        access = wir.Access.READ
    elif name.startswith("in_out") or name in updated:
        access = wir.Access.READ_WRITE
    else:
        access = wir.Access.WRITE
    return wir.BufferParameter(name, dtype, access)


def _unknown_parameters(name: str, text: str) -> DiagnosticError:
    return Code.INDUCTOR_KERNEL.error(
        f"parameters of C++ kernel {name} are of an unknown form: {text!r}"
    )


def lower_call(scope: BlockScope, line: inductor.KernelCallLine) -> None:
    """Lower a kernel call; its grid and constants are the definition's.

    Raises:
        DiagnosticError: WIR654, the kernel's definition was not seen, or its grid depends
            on a size that it is not given.
    """
    definition = launched(scope, line)
    values = runtime_values(line, definition)
    append_call(scope, line, definition.name, [definition], values)


def append_call(
    scope: BlockScope,
    line: inductor.KernelCallLine,
    name: str,
    kernels: Sequence[wir.KernelDefinitionLine],
    values: Sequence[Any],
) -> None:
    """Append a call of ``name``, which runs one of ``kernels``, with these arguments.

    All kernels take the same arguments.  Access modes that the call shows are noted.
    """
    arguments: list[wir.KernelArgument] = []
    read: list[str] = []
    written: list[str] = []
    of_kernels = [wir.runtime_parameters(kernel.parameters) for kernel in kernels]
    for position, (value, *parameters) in enumerate(zip(values, *of_kernels, strict=True)):
        if not isinstance(parameters[0], wir.TensorParameter):
            arguments.append(_scalar(scope, value))
            continue
        named = isinstance(value, str)
        buffer = scope.name(value) if named else lower_buffer(scope, described(value))
        scope.tensor(buffer)
        arguments.append(wir.BufferRef(buffer))
        writes = False
        for kernel, parameter in zip(kernels, parameters, strict=True):
            assert isinstance(parameter, wir.TensorParameter)
            _note_access(scope, kernel.name, position, parameter, buffer)
            writes = writes or parameter.access.writes
        (written if writes else read).append(buffer)
    scope.fill_unwritten(read)
    for buffer in written:
        scope.write(buffer)
    computed = scope.session.computed.get(id(line), [])
    _note_copies(scope, kernels, values, computed)
    given = {value for value in values if isinstance(value, str)}
    for parts, names in parts_of_values(computed, given):
        provenance = scope.provenance(*parts)
        if provenance is not None:
            written_by = dict.fromkeys(map(scope.name, names), provenance)
            scope.session.memory_origins.update(written_by)
    device = lower_device(line.device)
    scope.append(
        wir.KernelCallLine(
            kernel=name,
            arguments=tuple(arguments),
            device=device,
            stream=scope.stream_on(device),
            provenance=scope.provenance(*computed),
        )
    )


def _note_copies(
    scope: BlockScope,
    kernels: Sequence[wir.KernelDefinitionLine],
    values: Sequence[Any],
    computed: Sequence[Any],
) -> None:
    known = scope.session.copies
    for kernel in kernels:
        if kernel.name not in known:
            parameters = wir.runtime_parameters(kernel.parameters)
            pairs = zip(values, parameters, strict=True)
            names = {value: each.name for value, each in pairs if isinstance(value, str)}
            known[kernel.name] = kernel_copies(computed, names)


def _note_access(
    scope: BlockScope,
    kernel: str,
    position: int,
    parameter: wir.TensorParameter,
    buffer: str,
) -> None:
    if parameter.access is wir.Access.WRITE and scope.has_contents(buffer):
        # The kernel may leave a part as it was.
        scope.session.accesses[kernel, position] = wir.Access.READ_WRITE
    elif parameter.access is wir.Access.READ_WRITE and not scope.is_initialized(buffer):
        # It reads only elements that it wrote itself.
        scope.session.accesses[kernel, position] = wir.Access.WRITE


def launched(scope: BlockScope, line: inductor.KernelCallLine) -> wir.KernelDefinitionLine:
    """Return the definition of the kernel that a call launches, with the call's grid.

    Calls of one kernel of the user's may each have another grid.

    Raises:
        DiagnosticError: WIR654, the kernel's definition was not seen.
    """
    name = kernel_name(line.kernel_name)
    definitions = scope.session.definitions
    definition = definitions.get(name)
    if not isinstance(definition, wir.KernelDefinitionLine):
        raise Code.INDUCTOR_KERNEL.error(f"kernel {name} has no definition")
    if definition.language is not wir.Language.TRITON:
        return definition
    found = with_launch_grid(definition, line)
    if found == definition:
        return definition
    numbered = (
        evolve(found, name=f"{definition.name}_grid{number}")
        for number in itertools.count(2)
    )
    return next(new for new in numbered if definitions.setdefault(new.name, new) == new)


def _scalar(scope: BlockScope, value: Any) -> wir.Expr:
    if isinstance(value, inductor.SymbolicCallArg):
        return scope.resolve(wir.Symbol(value.inner.name))
    if isinstance(value, str):
        if scope.name(value) in scope.types:
            return _item(scope, scope.name(value))
        return scope.resolve(wir.Symbol(value))
    if isinstance(value, sympy.Expr):
        return scope.resolve(lower_sympy(scope.graph.sizevars.simplify(value)))
    if isinstance(value, bool):
        return int(value)
    assert isinstance(value, int | float), value
    return value


def _item(scope: BlockScope, name: str) -> wir.Expr:
    """Read a kernel's scalar argument from a one-element CPU tensor."""
    symbol = scope.session.temporary("item")
    is_float = scope.tensor(name).dtype.value[0] in "fb"
    kind = wir.SymbolKind.FLOAT if is_float else wir.SymbolKind.INT
    source = wir.ItemOf(name)
    scope.append(wir.SymbolDefinitionLine(symbol=symbol, kind=kind, source=source))
    return wir.Symbol(symbol)
