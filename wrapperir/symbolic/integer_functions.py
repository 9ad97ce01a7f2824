"""Integer functions for sympy whose simplifications hold for every integer.

They have the names of ``torch.utils._sympy.functions``, so that ``to_sympy`` and
``lower_sympy`` accept both, and need no torch.  A division by a value that may be zero is
not simplified, and no large number is computed: ``evaluate_int`` limits the bits.
"""
# pyright: reportMissingTypeStubs=false, reportIncompatibleMethodOverride=false
# sympy calls ``eval`` with a function's arguments and no keyword.
# mypy: disable-error-code="misc"

from typing import Any

import sympy

from wrapperir.ir import EvaluationError, ExprOp, Operation, evaluate_int

_LARGEST_EXPANDED_POWER = 4

Min: Any = sympy.Min
Max: Any = sympy.Max


def _folded(op: ExprOp, *args: Any) -> Any:
    """Return the value of ``op`` if the arguments are numbers and it has one."""
    if not all(arg.is_Integer for arg in args):
        return None
    try:
        return sympy.Integer(evaluate_int(Operation(op, tuple(map(int, args))), {}))
    except EvaluationError:
        return None


def _split_multiples(base: Any, divisor: int) -> tuple[Any, Any]:
    """Return (q, r) with ``base == divisor * q + r``, all of q that is plain to see."""
    quotient: list[Any] = []
    rest: list[Any] = []
    terms: tuple[Any, ...] = sympy.Add.make_args(base)
    for term in terms:
        coefficient, factor = term.as_coeff_Mul()
        if coefficient.is_Integer and int(coefficient) % divisor == 0:
            quotient.append(sympy.Integer(int(coefficient) // divisor) * factor)
        else:
            rest.append(term)
    return sympy.Add(*quotient), sympy.Add(*rest)


class _IntegerFunction(sympy.Function):
    is_integer = True


class _Division(_IntegerFunction):
    def _eval_is_nonnegative(self) -> bool | None:
        base, divisor = self.args
        return True if base.is_nonnegative and divisor.is_positive else None


class FloorDiv(_Division):
    """Division rounded toward minus infinity."""

    @classmethod
    def eval(cls, base: Any, divisor: Any) -> Any:
        """Fold constants; take out multiples; cancel what cannot be zero."""
        if (folded := _folded(ExprOp.FLOORDIV, base, divisor)) is not None:
            return folded
        if divisor.is_Integer and divisor > 0:
            if isinstance(base, FloorDiv) and base.args[1].is_positive:
                return FloorDiv(base.args[0], base.args[1] * divisor)
            quotient, rest = _split_multiples(base, int(divisor))
            if rest != base:
                return FloorDiv(rest, divisor) + quotient
        if base.is_Mul and divisor in base.args and divisor.is_nonzero:
            others: list[Any] = [arg for arg in base.args if arg != divisor]
            return sympy.Mul(*others)
        return sympy.S.One if base == divisor and divisor.is_nonzero else None


class CeilDiv(_Division):
    """Division rounded up."""

    @classmethod
    def eval(cls, base: Any, divisor: Any) -> Any:
        """Fold constants and take out multiples."""
        if (folded := _folded(ExprOp.CEILDIV, base, divisor)) is not None:
            return folded
        if divisor.is_Integer and divisor > 0:
            quotient, rest = _split_multiples(base, int(divisor))
            if rest != base:
                return CeilDiv(rest, divisor) + quotient
        return sympy.S.One if base == divisor and divisor.is_nonzero else None


class PythonMod(_IntegerFunction):
    """Remainder with the divisor's sign."""

    @classmethod
    def eval(cls, base: Any, divisor: Any) -> Any:
        """Fold constants and leave out multiples."""
        if (folded := _folded(ExprOp.MOD, base, divisor)) is not None:
            return folded
        if divisor.is_Integer and divisor > 0:
            _, rest = _split_multiples(base, int(divisor))
            if rest != base:
                return PythonMod(rest, divisor)
        zero = base == divisor or (base.is_Mul and divisor in base.args)
        return sympy.S.Zero if zero and divisor.is_nonzero else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.args[1].is_positive else None


Mod = PythonMod


class PowByNatural(_IntegerFunction):
    """Power with a whole, nonnegative exponent."""

    @classmethod
    def eval(cls, base: Any, exponent: Any) -> Any:
        """Fold small constants; multiply out small powers."""
        if (folded := _folded(ExprOp.POW, base, exponent)) is not None:
            return folded
        small = exponent.is_Integer and 0 <= exponent <= _LARGEST_EXPANDED_POWER
        return base**exponent if small and not base.is_Integer else None


class Where(sympy.Function):
    """The second argument where the first holds, else the third."""

    @classmethod
    def eval(cls, condition: Any, yes: Any, no: Any) -> Any:
        """Choose where the condition is known or makes no difference."""
        if condition in (sympy.true, sympy.false):
            return yes if condition == sympy.true else no
        return yes if yes == no else None

    def _eval_is_integer(self) -> bool | None:
        return True if self.args[1].is_integer and self.args[2].is_integer else None


def _opaque(name: str, op: ExprOp) -> Any:
    """Return a function that folds constants and knows nothing else."""

    def evaluated(cls: Any, *args: Any) -> Any:
        return _folded(op, *args)

    return type(name, (_IntegerFunction,), {"eval": classmethod(evaluated)})


LShift = _opaque("LShift", ExprOp.SHL)
RShift = _opaque("RShift", ExprOp.SHR)
BitwiseFn_bitwise_and = _opaque("BitwiseFn_bitwise_and", ExprOp.BITAND)
BitwiseFn_bitwise_or = _opaque("BitwiseFn_bitwise_or", ExprOp.BITOR)
BitwiseFn_bitwise_xor = _opaque("BitwiseFn_bitwise_xor", ExprOp.BITXOR)
