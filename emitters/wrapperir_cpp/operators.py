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
from wrapperir.emit import Fragment, fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import (
    Argument,
    BufferRef,
    DType,
    ExternKernelLine,
    OpaqueType,
    ScalarType,
    SymbolKind,
    TensorType,
    TupleType,
    ValueType,
    contiguous_stride,
)
from wrapperir.ir.effects import uses
from wrapperir.ir.mentions import type_symbols
from wrapperir.operators import Kind, Schema, SchemaType
from wrapperir_cpp.blas import (
    format_c_type,
    format_copy,
    format_product,
    plan_operands,
    static_scale,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.dispatcher import (
    format_dispatched_call,
    format_results,
    is_carried,
    name_nothing,
)
from wrapperir_cpp.layout import BRIDGE_SOURCE
from wrapperir_cpp.memory import allocate, define_scalar, result_slot, tensor_pointer
from wrapperir_cpp.module_text import CppModule
from wrapperir_cpp.operator_values import OperatorValue, TensorValue, value_of
from wrapperir_cpp.schemas import bind_arguments, called_schema, refused
from wrapperir_cpp.shims import find_shim, format_shim_call, returns_nothing
from wrapperir_cpp.value_storage import Indices, leaves

_BRIDGE = Path(__file__).with_name("runtime") / "bridge.cpp"


_PRODUCTS = frozenset(f"aten.{name}.default" for name in ("mm", "addmm", "bmm", "baddbmm"))


def emit_operator(context: Context, line: ExternKernelLine) -> None:
    """Append the call of an operator.

    What has no form in C++ is reported: an operator that PyTorch has not, or an argument or
    result that it cannot have.
    """
    try:
        written = _with_out(context, line)
        if not _emit_product(context, written):
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
    results = format_results(context, schema, line.result, line.type)
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
    if not returns_nothing(schema):
        results = _returned(context, schema, line.result, line.type)
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


def _returned(
    context: Context, schema: Schema, name: str | None, type: ValueType | None
) -> list[Fragment]:
    """Return where a C function writes each result."""
    if name is None or type is None:
        return [_nowhere(found) for found in schema.results]
    if len(schema.results) == 1:
        return [_where(context, schema.results[0], name, type, ())]
    if not isinstance(type, TupleType) or len(type.elements) != len(schema.results):
        raise refused(f"{schema.name} returns {len(schema.results)} values")
    return [
        _where(context, found, name, element, (position,))
        for position, (found, element) in enumerate(
            zip(schema.results, type.elements, strict=True)
        )
    ]


def _where(
    context: Context, found: SchemaType, name: str, type: ValueType, indices: Indices
) -> Fragment:
    match type:
        case OpaqueType():
            name_nothing(context, type, name, indices)
            return _nowhere(found)
        case TensorType() if found.kind is Kind.TENSOR:
            return fragment("{}.out()", result_slot(context, name, indices))
        case ScalarType(dtype) if found.kind is Kind.INT and not dtype.is_float:
            return fragment("&{}", define_scalar(context, name, SymbolKind.INT, indices))
        case ScalarType(dtype) if found.kind is Kind.FLOAT and dtype.is_float:
            return fragment("&{}", define_scalar(context, name, SymbolKind.FLOAT, indices))
        case _:
            raise refused(f"a result of type {found.kind.value} has no form in C++ here")


def _nowhere(found: SchemaType) -> Fragment:
    match found.kind:
        case Kind.INT:
            return fragment("op::Some<int64_t>{{0}}")
        case Kind.FLOAT:
            return fragment("op::Some<double>{{0}}")
        case _:
            return fragment("Tensor().out()")


def _emit_product(context: Context, line: ExternKernelLine) -> bool:
    """Append a call of BLAS, where the line is a small product of matrices."""
    keywords = dict(line.keywords)
    out = keywords.pop("out", None)
    if line.result is not None or not isinstance(out, BufferRef):
        return False
    if line.operator == "aten.mm.out" and not keywords:
        return _emit_gemm(context, out, line.arguments, 1, 0)
    if line.operator == "aten.addmm.out" and keywords.keys() <= {"alpha", "beta"}:
        source, *factors = line.arguments
        scales = keywords.get("alpha", 1), keywords.get("beta", 1)
        return _emit_gemm(context, out, factors, *scales, source)
    return False


def _emit_gemm(
    context: Context,
    out: BufferRef,
    factors: Sequence[Argument],
    alpha: Argument,
    beta: Argument,
    source: Argument = None,
) -> bool:
    names = [a.name for a in (out, *factors) if isinstance(a, BufferRef)]
    if len(names) != 3 or not context.layouts.exact.issuperset(names):
        return False
    types = [type for n in names if isinstance(type := context.facts.types[n], TensorType)]
    product = plan_operands(types) if len(types) == 3 else None
    if product is None:
        return False
    dtype = types[0].dtype
    first, second = _scale(alpha, dtype), _scale(beta, dtype)
    if first is None or second is None:
        return False
    c_type = format_c_type(dtype)
    pointers = [tensor_pointer(context, name, c_type) for name in names]
    if second != 0 and source != out:
        copy = _format_source(context, source, types[0], pointers[0])
        if copy is None:
            return False
        context.writer.emit_line("{}", copy)
    where = pointers[0], pointers[1], pointers[2]
    context.writer.emit_line("{}", format_product(product, where, (first, second)))
    return True


def _scale(value: Argument, dtype: DType) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return static_scale(value, dtype)


def _format_source(
    context: Context, source: Argument, out: TensorType, pointer: Fragment
) -> Fragment | None:
    if not isinstance(source, BufferRef) or source.name not in context.layouts.exact:
        return None
    type = context.facts.types[source.name]
    if not isinstance(type, TensorType) or type.dtype is not out.dtype:
        return None
    if type.device.kind != "cpu":
        return None
    return format_copy(
        out,
        type,
        (pointer, tensor_pointer(context, source.name, format_c_type(type.dtype))),
    )
