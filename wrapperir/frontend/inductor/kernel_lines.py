"""Lowering of kernel definitions and calls."""

import ast
import itertools
from collections.abc import Sequence
from typing import Any

import sympy
from attrs import evolve
from torch._inductor.codegen.wrapper import (
    KernelCallLine,
    SymbolicCallArg,
)
from torch._inductor.codegen.wrapper import (
    KernelDefinitionLine as InductorDefinitionLine,
)

from wrapperir.diagnostics import Code
from wrapperir.frontend.inductor.cpp_kernel import lower_cpp_kernel
from wrapperir.frontend.inductor.layouts import lower_device
from wrapperir.frontend.inductor.operands import described, lower_operand
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.frontend.inductor.triton_kernel import (
    launch_grid,
    lower_triton_kernel,
    runtime_values,
)
from wrapperir.frontend.provenance import origins_provenance
from wrapperir.ir import Access, Expr, Language, Symbol, TensorParameter, runtime_parameters
from wrapperir.ir import line as wir
from wrapperir.symbolic import lower_sympy

_MAX_NAME = 200


def kernel_name(name: str) -> str:
    """Return a kernel's name within an identifier's length, unique by its number."""
    if len(name) <= _MAX_NAME:
        return name
    stem, _, number = name.rpartition("_")
    return f"{stem[: _MAX_NAME - len(number)]}_{number}"


def lower_definition(
    scope: Scope, line: InductorDefinitionLine, call: KernelCallLine | None
) -> None:
    """Lower a kernel's definition; ``call`` is its first call, which has its metadata.

    Raises:
        DiagnosticError: WIR654, the definition is of no known form.
    """
    name = kernel_name(line.kernel_name)
    if name in scope.session.definitions or call is None:
        return
    expression = ast.parse(line.kernel_body.strip(), mode="eval").body
    match expression:
        case ast.Call(
            func=ast.Attribute(attr="cpp_pybinding"),
            args=[_, ast.Constant(value=str(source)), *_],
        ):
            definition = lower_cpp_kernel(name, source, line.cpp_definition or "")
        case ast.Call(
            func=ast.Attribute(attr="triton"),
            args=[_, ast.Constant(value=str(source)), *_],
        ):
            written = scope.session.user_kernels.get(line.kernel_name)
            definition = lower_triton_kernel(name, source, call, written)
        case _:
            raise Code.INDUCTOR_KERNEL.error(
                f"kernel {name} is neither C++ nor Triton of Inductor's form"
            )
    scope.session.definitions[name] = definition


def lower_call(scope: Scope, line: KernelCallLine) -> None:
    """Lower a kernel call; its grid and constants are the definition's.

    Raises:
        DiagnosticError: WIR654, the kernel's definition was not seen, or its grid depends
            on a size that it is not given.
    """
    definition = launched(scope, line)
    values = runtime_values(line, dict(definition.constants))
    append_call(scope, line, definition.name, [definition], values)


def append_call(
    scope: Scope,
    line: KernelCallLine,
    name: str,
    kernels: Sequence[wir.KernelDefinitionLine],
    values: Sequence[Any],
) -> None:
    """Append a call of ``name``, which runs one of ``kernels``, with these arguments.

    All kernels take the same arguments.  Access modes that the call shows are noted.
    """
    arguments: list[wir.KernelArgument] = []
    written: list[str] = []
    temporaries: list[str] = []
    of_kernels = [runtime_parameters(kernel.parameters) for kernel in kernels]
    for position, (value, *parameters) in enumerate(zip(values, *of_kernels, strict=True)):
        if not isinstance(parameters[0], TensorParameter):
            arguments.append(_scalar(scope, value))
            continue
        buffer = _buffer(scope, value, temporaries)
        arguments.append(wir.BufferRef(buffer))
        writes = False
        for kernel, parameter in zip(kernels, parameters, strict=True):
            assert isinstance(parameter, TensorParameter)
            _note_access(scope, kernel.name, position, parameter, buffer)
            writes = writes or parameter.access.writes
        if writes:
            written.append(buffer)
    for buffer in written:
        scope.write(buffer)
    scope.append(
        wir.KernelCallLine(
            kernel=name,
            arguments=tuple(arguments),
            device=lower_device(line.device),
            stream=scope.stream,
            provenance=_provenance(scope, written),
        )
    )
    scope.free_all(temporaries)


def _note_access(
    scope: Scope, kernel: str, position: int, parameter: TensorParameter, buffer: str
) -> None:
    if parameter.access is Access.WRITE and scope.has_contents(buffer):
        # The kernel may leave a part as it was.
        scope.session.accesses[kernel, position] = Access.READ_WRITE
    elif parameter.access is Access.READ_WRITE and not scope.is_initialized(buffer):
        # It reads only what it wrote itself.
        scope.session.accesses[kernel, position] = Access.WRITE


def launched(scope: Scope, line: KernelCallLine) -> wir.KernelDefinitionLine:
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
    if definition.language is not Language.TRITON:
        return definition
    grid = launch_grid(line, definition.parameters, dict(definition.constants))
    found = definition
    for number in itertools.count(2):
        if found.grid == grid:
            break
        other = evolve(definition, name=f"{definition.name}_grid{number}", grid=grid)
        known = definitions.setdefault(other.name, other)
        assert isinstance(known, wir.KernelDefinitionLine)
        found = known
    return found


def _buffer(scope: Scope, value: Any, temporaries: list[str]) -> str:
    if isinstance(value, str):
        return scope.name(value)
    operand = lower_operand(scope, described(value), temporaries, None)
    assert isinstance(operand, wir.BufferRef)
    return operand.name


def _scalar(scope: Scope, value: Any) -> Expr:
    if isinstance(value, SymbolicCallArg):
        return scope.resolve(Symbol(value.inner.name))
    if isinstance(value, str):
        if scope.name(value) in scope.types:
            return _item(scope, scope.name(value))
        return scope.resolve(Symbol(value))
    if isinstance(value, sympy.Expr):
        return scope.resolve(lower_sympy(scope.graph.sizevars.simplify(value)))
    if isinstance(value, bool):
        return int(value)
    assert isinstance(value, int | float), value
    return value


def _item(scope: Scope, name: str) -> Expr:
    """Read the number that a kernel is to be given out of a one-element CPU tensor."""
    symbol = scope.session.temporary("item")
    type = scope.tensor(name)
    kind = wir.SymbolKind.FLOAT if type.dtype.value[0] in "fb" else wir.SymbolKind.INT
    scope.append(
        wir.SymbolDefinitionLine(symbol=symbol, kind=kind, source=wir.ItemOf(name))
    )
    return Symbol(symbol)


def _provenance(scope: Scope, written: list[str]) -> wir.Provenance | None:
    """Return the provenance of the buffers that a kernel computes."""
    origins: dict[Any, None] = {}
    for name in written:
        buffer: Any = scope.graph.name_to_buffer.get(name)
        if buffer is not None:
            origins.update(dict.fromkeys(buffer.origins))
    return origins_provenance(origins, scope.session.facts)
