"""Operator calls in C++: each in the first of four ways that can pass its arguments.

1. A product of matrices goes to cuBLAS (``products``), a small one on the CPU to BLAS
   (``blas``).
2. PyTorch's C function for the operator is called, if it has one (``shims``).
3. The operator is called by name, through PyTorch's stable C interface (``dispatcher``).
4. Other operators are called through ``operators.so``, which is compiled with PyTorch's C++
   headers: they have numbers of the schema's type ``Scalar``, complex numbers and the like.
"""

from pathlib import Path

from attrs import evolve

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.arena import plain_device
from wrapperir.ir import (
    BufferRef,
    ExternKernelLine,
    TensorType,
    contiguous_stride,
)
from wrapperir.ir.line_effects import uses
from wrapperir.ir.mentions import type_symbols
from wrapperir.operators import Schema
from wrapperir_cpp.blas import emit_gemm
from wrapperir_cpp.context import Context
from wrapperir_cpp.dispatcher import format_dispatched_call, is_carried
from wrapperir_cpp.layout import BRIDGE_SOURCE
from wrapperir_cpp.memory import allocate, define_value
from wrapperir_cpp.operator_values import (
    OperatorValue,
    TensorHandle,
    bind_arguments,
    bind_results,
    called_schema,
    value_of,
)
from wrapperir_cpp.products import (
    emit_cuda_product,
    format_products,
    parse_product,
)
from wrapperir_cpp.shims import find_shim, format_shim_call, writes_arguments
from wrapperir_cpp.surveys import PRODUCTS
from wrapperir_cpp.value_storage import leaves

_BRIDGE = Path(__file__).with_name("runtime") / "bridge.cpp"


def emit_operator(context: Context, line: ExternKernelLine) -> None:
    """Append the call of an operator.

    An operator that PyTorch lacks, and an argument or result without a form in C++, is
    reported.
    """
    try:
        written = _with_out(context, line)
        if not _emit_product(context, written):
            _emit_call(context, written)
            if plain_device(line.device) in context.product_states:
                context.writer.emit_line(
                    "{}.forget();", format_products(context, line.device)
                )
    except DiagnosticError as error:
        for diagnostic in error.diagnostics:
            context.report(diagnostic.message, line.operator)
        _define_result(context, line)


def _emit_product(context: Context, line: ExternKernelLine) -> bool:
    """Append a direct call of a BLAS, and return whether the line allows one."""
    product = parse_product(context, line)
    if product is None:
        return False
    if line.device.kind == "cuda":
        return emit_cuda_product(context, line, product)
    return emit_gemm(context, product)


def _with_out(context: Context, line: ExternKernelLine) -> ExternKernelLine:
    """Return a matrix product as one that writes to a tensor, which is allocated here.

    PyTorch has C functions only for these.  Other lines are returned unchanged.
    """
    result, type = line.result, line.type
    if (
        line.operator.removesuffix(".default") not in PRODUCTS
        or result is None
        or not isinstance(type, TensorType)
        or (type.stride, type.offset) != (contiguous_stride(type.size), 0)
        or not context.layouts.special.isdisjoint((result, *uses(line)))
    ):
        return line
    known = {s for name in uses(line) for s in type_symbols(context.facts.types[name])}
    if not known.issuperset(type_symbols(type)):
        return line  # later lines define symbols of the type
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
    schema, module = called_schema(line), context.module
    values = [
        value_of(context, parameter.type, argument, f"{parameter.name} of {line.operator}")
        for parameter, argument in bind_arguments(schema, line)
    ]
    if _emit_shim_call(context, line, schema, values):
        return
    results = bind_results(context, schema, line.result, line.type)
    if not is_carried(schema, values) and BRIDGE_SOURCE not in module.files:
        module.files[BRIDGE_SOURCE] = _BRIDGE.read_text("utf-8")
    call = format_dispatched_call(module, schema, values, results, context.line_number())
    context.writer.emit_line("{}", call)


def _define_result(context: Context, line: ExternKernelLine) -> None:
    """Define the result of a reported line for the lines after it."""
    if line.result is None or line.type is None:
        return
    for indices, _ in leaves(line.type):
        define_value(context, line.result, indices)


def _emit_shim_call(
    context: Context, line: ExternKernelLine, schema: Schema, values: list[OperatorValue]
) -> bool:
    """Append the call of a C function, and return whether there is one."""
    function = find_shim(schema, values, line.device)
    if function is None or not context.layouts.special.isdisjoint(uses(line)):
        return False
    number, in_place = context.line_number(), writes_arguments(schema)
    handles = {
        parameter.name: value.text
        for parameter, value in zip(schema.parameters, values, strict=True)
        if isinstance(value, TensorHandle)
    }
    aliases = [handles[name] for name in schema.returned if name in handles]
    if in_place and line.result is not None and len(aliases) != len(schema.results):
        return False
    results = [] if in_place else bind_results(context, schema, line.result, line.type)
    call = format_shim_call(context.module, function, schema, values, results, number)
    if call is None:
        return False
    context.writer.emit_line("{}", call)
    if in_place and line.result is not None:
        for position, alias in enumerate(aliases):
            indices = (position,) if len(aliases) > 1 else ()
            slot = define_value(context, line.result, indices)
            context.writer.emit_line("{}.reset(new_handle({}, {}));", slot, alias, number)
    return True
