"""Why a nest cannot be written in Triton."""

from wrapperir.ir import DType, Expr, Operation
from wrapperir.lowering.loops import (
    Apply,
    Check,
    IndexValue,
    Instruction,
    Literal,
    Load,
    Nest,
    Reduce,
    Scan,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import reduced_dtypes, scanned_dtypes
from wrapperir.lowering.substitution import index_of, instructions
from wrapperir.lowering.triton.dtypes import TYPES
from wrapperir.lowering.triton.index_code import WRITTEN
from wrapperir.lowering.triton.scalar_code import scalar_code
from wrapperir.lowering.triton.scans import SCANNED

_SUMMED = frozenset({DType.F64, DType.F32, DType.F16, DType.BF16, DType.I64, DType.I32})
_COMPARED = frozenset({DType.F64, DType.F32, DType.I64, DType.I32, DType.U64, DType.U32})
_ATOMIC = {StoreMode.ADD: _SUMMED, StoreMode.MIN: _COMPARED, StoreMode.MAX: _COMPARED}


def nest_refusal(nest: Nest) -> str | None:
    """Return why a nest cannot be written, or ``None``."""
    dtypes: dict[str, DType] = {}
    reasons = (_refusal(each, dtypes) for each in instructions(nest.body))
    return next((reason for reason in reasons if reason is not None), None)


def _refusal(step: Instruction, dtypes: dict[str, DType]) -> str | None:
    """Return why an instruction cannot be written; add the dtypes of its results."""
    match step:
        case Literal() | Load():
            dtypes[step.result] = step.dtype
        case IndexValue():
            dtypes[step.result] = step.dtype
        case Apply():
            dtypes[step.result] = step.dtype
            source = dtypes[step.operands[-1]]
            if source in TYPES and step.dtype in TYPES:
                names = ["x"] * len(step.operands)
                if scalar_code(step.op, names, source, step.dtype) is None:
                    return f"Triton kernels have no {step.op.value} of {source.value}"
        case Reduce():
            found = reduced_dtypes(step.op, step.dtype)
            dtypes.update(zip(step.results, found, strict=True))
        case Scan():
            found = scanned_dtypes(step.op, step.dtype)
            dtypes.update(zip(step.results, found, strict=True))
            if step.op not in SCANNED:
                return f"Triton kernels have no scan of {step.op.value}"
        case Store():
            return _store_refusal(step, dtypes)
        case Check():
            return None
    for dtype in dtypes.values():
        if dtype not in TYPES:
            return f"Triton kernels have no {dtype.value}"
    return _index_refusal(step)


def _store_refusal(step: Store, dtypes: dict[str, DType]) -> str | None:
    dtype = dtypes[step.value]
    if step.mode is not StoreMode.OVERWRITE and dtype not in _ATOMIC.get(step.mode, ()):
        return f"Triton kernels have no atomic {step.mode.value} of {dtype.value}"
    return _index_refusal(step)


def _index_refusal(step: Instruction) -> str | None:
    exprs: list[Expr] = [*index_of(step)]
    while exprs:
        expr = exprs.pop()
        if isinstance(expr, Operation):
            if expr.op not in WRITTEN:
                return f"Triton kernels have no {expr.op.value} in an index"
            exprs += expr.args
        elif isinstance(expr, float):
            return "Triton kernels have no real numbers in an index"
    return None
