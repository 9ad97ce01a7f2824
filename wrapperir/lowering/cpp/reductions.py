"""Reductions and scans of one element after the other."""

from collections.abc import Sequence
from typing import assert_never

from attrs import frozen

from wrapperir.ir import DType
from wrapperir.lowering.cpp.elements import HALVES, identity_literals, scalar_type
from wrapperir.lowering.cpp.operators import format_cast
from wrapperir.lowering.scalar_op import ReduceOp


@frozen(kw_only=True)
class Accumulation:
    """The C++ of a reduction: statements before the loop, in it, and after it.

    ``results`` are expressions, valid after the loop, and in it after ``step`` (scans).
    """

    start: tuple[str, ...]
    step: tuple[str, ...]
    results: tuple[str, ...]


def result_dtypes(op: ReduceOp, dtype: DType) -> tuple[DType, ...]:
    """Return the dtypes of the results of a reduction of values of ``dtype``."""
    match op:
        case ReduceOp.ANY | ReduceOp.ALL:
            return (DType.BOOL,)
        case ReduceOp.ARGMIN | ReduceOp.ARGMAX:
            return (DType.I64,)
        case ReduceOp.WELFORD:
            return (dtype, dtype, dtype)
        case ReduceOp.ONLINE_SOFTMAX:
            return (dtype, dtype)
        case ReduceOp.SUM | ReduceOp.PROD | ReduceOp.MIN | ReduceOp.MAX:
            return (dtype,)
    assert_never(op)


def scan_dtypes(op: ReduceOp, dtype: DType) -> tuple[DType, ...]:
    """Return the dtypes of the results of a scan of values of ``dtype``."""
    return (dtype, DType.I64) if op in (ReduceOp.ARGMIN, ReduceOp.ARGMAX) else (dtype,)


def accumulate(
    op: ReduceOp, dtype: DType, operands: Sequence[str], name: str, position: str
) -> Accumulation:
    """Return a reduction of ``operands``, C++ values of ``dtype``.

    ``name`` begins the names of its variables; ``position`` is the row-major position in
    the loop.
    """
    if dtype in HALVES:
        wide = [format_cast(operand, dtype, DType.F32) for operand in operands]
        inner = accumulate(op, DType.F32, wide, name, position)
        dtypes = zip(inner.results, result_dtypes(op, DType.F32), strict=True)
        return Accumulation(
            start=inner.start,
            step=inner.step,
            results=tuple(
                format_cast(result, DType.F32, dtype) if given is DType.F32 else result
                for result, given in dtypes
            ),
        )
    kind, value = scalar_type(dtype), operands[0]
    least, most = identity_literals(dtype)
    match op:
        case ReduceOp.SUM | ReduceOp.PROD:
            return _folded(op, dtype, value, name)
        case ReduceOp.MIN | ReduceOp.MAX:
            start, function = (
                (most, "minimum") if op is ReduceOp.MIN else (least, "maximum")
            )
            step = f"{name} = {function}({name}, {value});"
            return _single(f"{kind} {name} = {start};", step, name)
        case ReduceOp.ANY:
            return _single(f"bool {name} = false;", f"{name} |= {value} != 0;", name)
        case ReduceOp.ALL:
            return _single(f"bool {name} = true;", f"{name} &= {value} != 0;", name)
        case ReduceOp.ARGMIN | ReduceOp.ARGMAX:
            start, test = (
                (most, "is_before") if op is ReduceOp.ARGMIN else (least, "is_after")
            )
            return Accumulation(
                start=(f"{kind} {name} = {start};", f"i64 {name}_at = 0;"),
                step=(
                    f"if ({test}({value}, {name})) "
                    f"{name} = {value}, {name}_at = {position};",
                ),
                results=(f"{name}_at",),
            )
        case ReduceOp.WELFORD:
            parts = (name, f"{name}_squares", f"{name}_count")
            return Accumulation(
                start=(f"{kind} {parts[0]} = 0, {parts[1]} = 0, {parts[2]} = 0;",),
                step=(f"welford({', '.join((*parts, *operands))});",),
                results=parts,
            )
        case ReduceOp.ONLINE_SOFTMAX:
            pair = (name, f"{name}_total")
            return Accumulation(
                start=(f"{kind} {pair[0]} = {least}, {pair[1]} = 0;",),
                step=(f"online_softmax({', '.join((*pair, value))});",),
                results=pair,
            )
    assert_never(op)


def _folded(op: ReduceOp, dtype: DType, value: str, name: str) -> Accumulation:
    """Return a sum or product; of ``f32`` in ``f64``, as a long sum's error would grow."""
    is_sum = op is ReduceOp.SUM
    if dtype is DType.BOOL:
        return _single(
            f"bool {name} = {'false' if is_sum else 'true'};",
            f"{name} {'|' if is_sum else '&'}= {value};",
            name,
        )
    kind = "f64" if dtype is DType.F32 else scalar_type(dtype)
    step = f"{name} = {name} {'+' if is_sum else '*'} {value};"
    result = f"f32({name})" if dtype is DType.F32 else name
    return _single(f"{kind} {name} = {0 if is_sum else 1};", step, result)


def _single(start: str, step: str, result: str) -> Accumulation:
    return Accumulation(start=(start,), step=(step,), results=(result,))


def accumulate_scan(
    op: ReduceOp, dtype: DType, operand: str, name: str, position: str
) -> Accumulation:
    """Return a scan; ``position`` is that along the scanned axis.

    Of equal values and of NaN the last is taken, as ``cummax`` and ``cummin`` do.
    """
    if op not in (ReduceOp.ARGMIN, ReduceOp.ARGMAX):
        return accumulate(op, dtype, (operand,), name, position)
    sign = "<=" if op is ReduceOp.ARGMIN else ">="
    least, most = identity_literals(dtype)
    value = format_cast(operand, dtype, DType.F32) if dtype in HALVES else operand
    best = format_cast(name, dtype, DType.F32) if dtype in HALVES else name
    test = f"{value} != {value} || {value} {sign} {best}"
    return Accumulation(
        start=(
            f"{scalar_type(dtype)} {name} = {most if op is ReduceOp.ARGMIN else least};",
            f"i64 {name}_at = 0;",
        ),
        step=(f"if ({test}) {name} = {operand}, {name}_at = {position};",),
        results=(name, f"{name}_at"),
    )
