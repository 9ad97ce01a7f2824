"""Rules of special functions: forms for parts of the numbers, each with a series.

The forms are those of the Digital Library of Mathematical Functions (https://dlmf.nist.gov),
chapters 5 (gamma), 7 (error functions) and 10 (Bessel functions).
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import factorial, inf, nan, pi, sqrt
from typing import Any, TypeAlias

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND

from wrapperir.frontend.lowering.elementwise import Compute, map_elements
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.pointwise import Pointwise
from wrapperir.frontend.lowering.real_values import Real, mp, series, where
from wrapperir.frontend.lowering.rules import RULES, NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import NodeValue
from wrapperir.ir import DType
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten

OfReal: TypeAlias = Callable[[Real], Real]


# Modified Bessel functions: of the first kind I, and of the second kind K.


def _near_i(x: Any, order: int) -> Any:
    return mp.besseli(order, x) * mp.exp(-x) / x**order


def _far_i(u: Any, order: int) -> Any:
    return mp.besseli(order, 1 / u) * mp.exp(-1 / u) / mp.sqrt(u)


def _scaled_i(order: int, x: Real) -> Real:
    """Return ``exp(-|x|) I(x)``."""
    size = abs(x)
    near = series(size, _near_i, 0, 8, order)
    far = series(1 / size, _far_i, 0, 1 / 8, order) / size.apply(Op.SQRT)
    result = where(size.is_at_most(8), near * size if order else near, far)
    return where(x.is_below(0), -result, result) if order else result


def _i(order: int, x: Real) -> Real:
    return abs(x).apply(Op.EXP) * _scaled_i(order, x)


def _near_k(square: Any, order: int) -> Any:
    """Return what is left of K without its logarithm, by the square."""
    x = mp.sqrt(square)
    logarithm = (-1) ** order * mp.log(x / 2) * mp.besseli(order, x)
    return x**order * (mp.besselk(order, x) + logarithm)


def _far_k(u: Any, order: int) -> Any:
    return mp.besselk(order, 1 / u) * mp.exp(1 / u) / mp.sqrt(u)


def _scaled_k(order: int, x: Real) -> Real:
    """Return ``exp(x) K(x)``."""
    power = x.apply(Op.EXP)
    first = series(x, _near_i, 0, 8, order) * power
    rest = series(x * x, _near_k, 0, 4, order)
    logarithm = (x * 0.5).apply(Op.LOG)
    near = rest / x + logarithm * (first * x) if order else rest - logarithm * first
    near = where(x.is_equal(0), x.like(inf), near * power)
    return where(
        x.is_at_most(2), near, series(1 / x, _far_k, 0, 1 / 2, order) / x.apply(Op.SQRT)
    )


def _k(order: int, x: Real) -> Real:
    return _scaled_k(order, x) * (-x).apply(Op.EXP)


# Bessel functions: of the first kind J, and of the second kind Y.


def _near_j(square: Any, order: int) -> Any:
    return mp.besselj(order, mp.sqrt(square)) / mp.sqrt(square) ** order


def _near_y(square: Any, order: int) -> Any:
    """Return what is left of Y without its logarithm and its pole, by the square."""
    x = mp.sqrt(square)
    known = mp.log(x) * mp.besselj(order, x) - (1 / x if order else 0)
    return (mp.bessely(order, x) - 2 / mp.pi * known) / x**order


def _hankel(square: Any, order: int) -> Any:
    """Return ``H(x) / (sqrt(2 / (pi x)) exp(i (x - phase)))`` by ``(8 / x)²``."""
    x = 8 / mp.sqrt(square)
    phase = x - mp.pi * (2 * order + 1) / 4
    return mp.hankel1(order, x) * mp.sqrt(mp.pi * x / 2) * mp.expj(-phase)


def _even(square: Any, order: int) -> Any:
    return _hankel(square, order).real


def _odd(square: Any, order: int) -> Any:
    return _hankel(square, order).imag / mp.sqrt(square)


def _far(size: Real, order: int, *, is_second: bool) -> Real:
    """Return J or Y of numbers above 8."""
    part = 8 / size
    even = series(part * part, _even, 0, 1, order)
    odd = series(part * part, _odd, 0, 1, order) * part
    angle = size - pi * (2 * order + 1) / 4
    sine, cosine = angle.apply(Op.SIN), angle.apply(Op.COS)
    wave = even * sine + odd * cosine if is_second else even * cosine - odd * sine
    return wave * (2 / pi / size).apply(Op.SQRT)


def _j(order: int, x: Real) -> Real:
    size = abs(x)
    near, far = series(x * x, _near_j, 0, 64, order), _far(size, order, is_second=False)
    if order:
        near, far = near * x, where(x.is_below(0), -far, far)
    return where(size.is_at_most(8), near, far)


def _y(order: int, x: Real) -> Real:
    known = x.apply(Op.LOG) * _j(order, x)
    rest = series(x * x, _near_y, 0, 64, order)
    near = (known - 1 / x) * (2 / pi) + rest * x if order else known * (2 / pi) + rest
    near = where(x.is_equal(0), x.like(-inf), near)
    return where(x.is_at_most(8), near, _far(x, order, is_second=True))


def _spherical_j0(x: Real) -> Real:
    quotient = where(x.is_equal(0), x.like(1), x.apply(Op.SIN) / x)
    return where(x.apply(Op.ISINF), x.like(0), quotient)


# Derivatives of the logarithm of the gamma function.


def _psi(t: Any, order: int) -> Any:
    """Return the derivative at ``x + 1`` beside its limit, by ``(x - 1) / (x + 1)``."""
    x = (1 + t) / (1 - t)
    if order == 0:
        return mp.digamma(x + 1) - mp.log(x + 0.5)
    return mp.polygamma(order, x + 1) * (x + 0.5) ** order


def _cotangent_derivative(order: int, cotangent: Real) -> Real:
    """Return that of ``cot(pi x)``, a polynomial of ``cot(pi x)``."""
    powers = [0.0, 1.0]
    for _ in range(order):
        slope = [-pi * degree * factor for degree, factor in enumerate(powers)][1:]
        pairs = zip([*slope, 0, 0], [0, 0, *slope], strict=True)
        powers = [low + high for low, high in pairs]
    result = cotangent.like(powers.pop())
    for factor in reversed(powers):
        result = result * cotangent + factor
    return result


def _polygamma(order: int, given: Real) -> Real:
    sign = -1 if order % 2 else 1
    x = where(given.is_below(0), 1 - given, given)
    rest, half = series(1 - 2 / (x + 1), _psi, -1, 1, order), x + 0.5
    if order == 0:
        result = rest + half.apply(Op.LOG) - 1 / x
    else:
        pole = sign * factorial(order) / x.apply(Op.POW, order + 1)
        result = rest / half.apply(Op.POW, order) - pole
    part = given - given.apply(Op.TRUNC)
    slope = _cotangent_derivative(order, 1 / (part * pi).apply(Op.TAN)) * pi
    reflected = (result if sign > 0 else -result) - slope
    is_pole, limit = part.is_equal(0), given.like(nan if order == 0 else -sign * inf)
    return where(given.is_below(0), where(is_pole, limit, reflected), result)


# Error functions.


def _scaled_erfc(t: Any) -> Any:
    x = 3.75 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def _erfcx(x: Real) -> Real:
    """Return ``exp(x²) erfc(x)``, after M. M. Shepherd and J. G. Laframboise (1981)."""
    size = abs(x)
    positive = series(1 - 7.5 / (size + 3.75), _scaled_erfc, -1, 1) / (size * 2 + 1)
    return where(x.is_below(0), (x * x).apply(Op.EXP) * 2 - positive, positive)


def _inverse_by_log(logarithm: Any) -> Any:
    """Return ``erfinv(y) / y`` by ``-log(1 - y²)``."""

    def difference(x: Any) -> Any:
        return mp.log(mp.erfc(x) * (2 - mp.erfc(x))) + logarithm

    return mp.findroot(difference, mp.sqrt(logarithm)) / mp.sqrt(-mp.expm1(-logarithm))


def _inverse_by_root(root: Any) -> Any:
    return _inverse_by_log(root * root)


def _inverse_erf(y: Real, logarithm: Real, bounds: Sequence[float]) -> Real:
    """Return the inverse of erf, by ``-log(1 - y²)`` as M. B. Giles does (2010)."""
    root = logarithm.apply(Op.SQRT)
    result = series(logarithm, _inverse_by_log, 0, bounds[0] ** 2)
    for low, high in pairwise(bounds):
        result = where(
            root.is_at_most(low), result, series(root, _inverse_by_root, low, high)
        )
    return where(root.apply(Op.ISINF), y * inf, result * y)


def _erfinv(y: Real) -> Real:
    return _inverse_erf(y, -((1 - y) * (y + 1)).apply(Op.LOG), (2.5, 6.1))


def _ndtri(p: Real) -> Real:
    logarithm = -(p * (1 - p) * 4).apply(Op.LOG)
    bounds = (2.5, 6.1, 12) if p.dtype is DType.F32 else (2.5, 6.1, 12, 27)
    return _inverse_erf(p * 2 - 1, logarithm, bounds) * sqrt(2)


def _angle(x: Real) -> Real:
    return where(x.is_below(0), x.like(pi), where(x.apply(Op.ISNAN), x, 0))


def _of_element(function: OfReal) -> Compute:
    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        return function(Real(builder, values[0])).name

    return compute


_FUNCTIONS: dict[str, OfReal] = {
    "angle": _angle,
    "digamma": partial(_polygamma, 0),
    "erfinv": _erfinv,
    "i0": partial(_i, 0),
    "special_erfcx": _erfcx,
    "special_i0e": partial(_scaled_i, 0),
    "special_i1": partial(_i, 1),
    "special_i1e": partial(_scaled_i, 1),
    "special_ndtri": _ndtri,
    "special_spherical_bessel_j0": _spherical_j0,
}
for _order in (0, 1):
    _FUNCTIONS.update(
        {
            f"special_bessel_j{_order}": partial(_j, _order),
            f"special_bessel_y{_order}": partial(_y, _order),
            f"special_modified_bessel_i{_order}": partial(_i, _order),
            f"special_modified_bessel_k{_order}": partial(_k, _order),
            f"special_scaled_modified_bessel_k{_order}": partial(_scaled_k, _order),
        }
    )
for _name, _function in _FUNCTIONS.items():
    RULES[getattr(aten, _name).default] = Pointwise(
        _of_element(_function), KIND.INT_TO_FLOAT
    )


@rule(aten.polygamma.default)
def _lower_polygamma(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    order, x = node.args
    if not isinstance(order, int) or not 0 <= order <= 20:
        raise NotLoweredError("coefficients that f32 does not have")
    compute = _of_element(partial(_polygamma, order))
    return map_elements(scope, node, [x], KIND.INT_TO_FLOAT, compute)
