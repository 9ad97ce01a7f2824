"""Operator calls in C++: each in the first way of four that carries it.

1. A small product of matrices goes to BLAS (``blas``).
2. PyTorch's C function for the operator is called, where there is one (``shims``).
3. The operator is called by name, through PyTorch's stable C interface (``dispatcher``).
4. What that cannot carry goes through ``operators.so``, which is compiled with PyTorch's
   C++ headers: numbers of the schema's type ``Scalar``, complex numbers and the like.
"""

from collections.abc import Sequence
from pathlib import Path

from attrs import evolve

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import (
    BufferRef,
    ExternKernelLine,
    ScalarType,
    TensorType,
    contiguous_stride,
)
from wrapperir.ir.effects import uses
from wrapperir.ir.mentions import type_symbols
from wrapperir.operators import Schema
from wrapperir_cpp.blas import emit_product
from wrapperir_cpp.context import Context
from wrapperir_cpp.dispatcher import format_dispatched_call, is_carried
from wrapperir_cpp.layout import BRIDGE_SOURCE
from wrapperir_cpp.memory import allocate, define_scalar, result_slot
from wrapperir_cpp.module_text import CppModule
from wrapperir_cpp.operator_values import (
    OperatorValue,
    TensorValue,
    bind_arguments,
    bind_results,
    called_schema,
    value_of,
)
from wrapperir_cpp.shims import find_shim, format_shim_call, writes_arguments
from wrapperir_cpp.value_storage import leaves

_BRIDGE = Path(__file__).with_name("runtime") / "bridge.cpp"


_PRODUCTS = frozenset(f"aten.{name}.default" for name in ("mm", "addmm", "bmm", "baddbmm"))


def emit_operator(context: Context, line: ExternKernelLine) -> None:
    """Append the call of an operator.

    What has no form in C++ is reported: an operator that PyTorch has not, or an argument or
    result that it cannot have.
    """
    try:
        written = _with_out(context, line)
        if not emit_product(context, written):
            _emit_call(context, written)
    except DiagnosticError as error:
        for diagnostic in error.diagnostics:
            context.report(diagnostic.message, line.operator)
        _define_result(context, line)


def _with_out(context: Context, line: ExternKernelLine) -> ExternKernelLine:
    """Return a product of matrices as one that is written to a tensor that this allocates.

    PyTorch has C functions for those only.  Other lines are returned as they are.
    """
    result, type = line.result, line.type
    if (
        line.operator not in _PRODUCTS
        or result is None
        or not isinstance(type, TensorType)
        or (type.stride, type.offset) != (contiguous_stride(type.size), 0)
        or not context.layouts.special.isdisjoint((result, *uses(line)))
    ):
        return line
    known = {s for name in uses(line) for s in type_symbols(context.facts.types[name])}
    if not known.issuperset(type_symbols(type)):
        return line  # the lines after define what the type says
    allocate(context, result, type)
    context.layouts.exact.add(result)
    return evolve(
        line,
        operator=line.operator.replace(".default", ".out"),
        keywords=(*line.keywords, ("out", BufferRef(result))),
        result=None,
        type=None,
    )


def _emit_call(context: Context, line: ExternKernelLine) -> None:
    schema = called_schema(line)
    values = [
        value_of(context, parameter.type, argument, f"{parameter.name} of {line.operator}")
        for parameter, argument in bind_arguments(schema, line)
    ]
    if _emit_shim_call(context, line, schema, values):
        return
    results = bind_results(context, schema, line.result, line.type)
    if not is_carried(schema, values):
        _need_bridge(context.module)
    number = context.line_number()
    call = format_dispatched_call(context.module, schema, values, results, number)
    context.writer.emit_line("{}", call)


def _define_result(context: Context, line: ExternKernelLine) -> None:
    """Let the lines after one that was reported have its result."""
    if line.result is None or line.type is None:
        return
    for indices, type in leaves(line.type):
        if isinstance(type, ScalarType):
            define_scalar(context, line.result, kind_of(type.dtype), indices)
        else:
            result_slot(context, line.result, indices)


def _need_bridge(module: CppModule) -> None:
    if BRIDGE_SOURCE not in module.files:
        module.files[BRIDGE_SOURCE] = _BRIDGE.read_text("utf-8")


def _emit_shim_call(
    context: Context,
    line: ExternKernelLine,
    schema: Schema,
    values: Sequence[OperatorValue],
) -> bool:
    function = find_shim(schema, values, line.device)
    if function is None or not context.layouts.special.isdisjoint(uses(line)):
        return False
    number = context.line_number()
    if not writes_arguments(schema):
        results = bind_results(context, schema, line.result, line.type)
        call = format_shim_call(context.module, function, schema, values, results, number)
        if call is None:
            return False
        context.writer.emit_line("{}", call)
        return True
    aliases = _aliases(schema, values)
    if line.result is not None and len(aliases) != len(schema.results):
        return False
    call = format_shim_call(context.module, function, schema, values, (), number)
    if call is None:
        return False
    context.writer.emit_line("{}", call)
    if line.result is not None:
        for position, alias in enumerate(aliases):
            indices = (position,) if len(aliases) > 1 else ()
            slot = result_slot(context, line.result, indices)
            context.writer.emit_line("{}.reset(new_handle({}, {}));", slot, alias, number)
    return True


def _aliases(schema: Schema, values: Sequence[OperatorValue]) -> list[Fragment]:
    """Return the handles of the arguments that are the results."""
    handles = {
        parameter.name: value.text
        for parameter, value in zip(schema.parameters, values, strict=True)
        if isinstance(value, TensorValue)
    }
    return [handles[name] for name in schema.returned if name in handles]
