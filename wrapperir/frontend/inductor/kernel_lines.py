# Inductor says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false
"""Lowering of kernel definitions and calls."""

import ast
import itertools
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

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.frontend.inductor.cpp_kernel import lower_cpp_kernel
from wrapperir.frontend.inductor.layouts import lower_device
from wrapperir.frontend.inductor.operands import lower_operand
from wrapperir.frontend.inductor.provenance import provenance_of
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.frontend.inductor.tensor_descriptors import described
from wrapperir.frontend.inductor.triton_kernel import (
    launch_grid,
    lower_triton_kernel,
    runtime_values,
)
from wrapperir.ir import line as wir
from wrapperir.ir.expr import Expr, Symbol
from wrapperir.ir.kernel import Access, Language, TensorParameter, runtime_parameters
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
            raise DiagnosticError(
                Diagnostic(
                    code=Code.INDUCTOR_KERNEL,
                    message=f"kernel {name} is neither C++ nor Triton of Inductor's form",
                )
            )
    scope.session.definitions[name] = definition


def lower_call(scope: Scope, line: KernelCallLine) -> None:
    """Lower a kernel call; its grid and constants are the definition's.

    Raises:
        DiagnosticError: WIR654, the kernel's definition was not seen, or its grid depends
            on a size that it is not given.
    """
    name = kernel_name(line.kernel_name)
    definition = scope.session.definitions.get(name)
    if not isinstance(definition, wir.KernelDefinitionLine):
        raise DiagnosticError(
            Diagnostic(
                code=Code.INDUCTOR_KERNEL, message=f"kernel {name} has no definition"
            )
        )
    definition = _launched(scope, definition, line)
    name = definition.name
    parameters = runtime_parameters(definition.parameters)
    arguments: list[wir.KernelArgument] = []
    written: list[str] = []
    temporaries: list[str] = []
    for position, (parameter, value) in enumerate(
        zip(parameters, runtime_values(line, dict(definition.constants)), strict=True)
    ):
        if not isinstance(parameter, TensorParameter):
            arguments.append(_scalar(scope, value))
            continue
        buffer = _buffer(scope, value, temporaries)
        arguments.append(wir.BufferRef(buffer))
        if parameter.access is Access.WRITE and scope.has_contents(buffer):
            # The kernel may leave a part as it was.
            scope.session.accesses[name, position] = Access.READ_WRITE
        elif parameter.access is Access.READ_WRITE and not scope.is_initialized(buffer):
            # It reads only what it wrote itself.
            scope.session.accesses[name, position] = Access.WRITE
        if parameter.access.writes:
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


def _launched(
    scope: Scope, definition: wir.KernelDefinitionLine, line: KernelCallLine
) -> wir.KernelDefinitionLine:
    """Return the definition with the grid of a call.

    Calls of one kernel of the user's may each have another grid.
    """
    if definition.language is not Language.TRITON:
        return definition
    grid = launch_grid(line, definition.parameters, dict(definition.constants))
    definitions, found = scope.session.definitions, definition
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
    return provenance_of(origins, scope.session.facts)
