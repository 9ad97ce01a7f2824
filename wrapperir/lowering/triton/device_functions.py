"""Functions that kernels call, as text; a source has those that it needs."""

from collections.abc import Mapping


def _split(text: str) -> dict[str, str]:
    parts = text.strip("\n").split("\n\n\n")
    return {part.split("def ", 1)[1].split("(", 1)[0]: part for part in parts}


_WHOLE = _split("""
@triton.jit
def floor_quotient(a, b):
    quotient = a // b
    rest = a % b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def floor_remainder(a, b):
    rest = a % b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@triton.jit
def real_remainder(a, b):
    rest = libdevice.fmod(a, b)
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@triton.jit
def divided(a, b):
    if a.dtype.is_fp32():
        return tl.div_rn(a, b)
    return a / b


@triton.jit
def divisor_scale(b):
    size = tl.abs(b)
    small = tl.where(size < 7.888609052210118e-31, 1.8446744073709552e19, 1.0)
    return tl.where(size > 1.2676506002282294e30, 5.421010862427522e-20, small)


@triton.jit
def quotient_by(a, scale, divisor, inverse):
    dividend = a * scale
    quotient = dividend * inverse
    rest = tl.fma(-quotient, divisor, dividend)
    better = tl.fma(rest, inverse, quotient)
    # A zero keeps its sign, and an infinity has no rest.
    return tl.where((quotient != 0) & (better == better), better, quotient)


@triton.jit
def real_floor_quotient(a, b):
    rest = libdevice.fmod(a, b)
    quotient = divided(a - rest, b)
    quotient = tl.where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1.0, quotient)
    whole = tl.floor(quotient)
    whole = tl.where(quotient - whole > 0.5, whole + 1.0, whole)
    ratio = divided(a, b)
    # A zero has the sign of the ratio.
    whole = tl.where(quotient != 0, whole, ratio * 0.0)
    return tl.where(b == 0, ratio, whole)


@triton.jit
def whole_power(base, exponent):
    factor = base
    rest = exponent
    result = base * 0 + exponent * 0 + 1
    for _ in range(exponent.dtype.primitive_bitwidth):
        result = tl.where((rest & 1) != 0, result * factor, result)
        factor = factor * factor
        rest = rest >> 1
    return result


@triton.jit
def signed_power(base, exponent):
    result = whole_power(base, exponent)
    # Only the powers of 1 and -1 have whole inverses.
    inverse = tl.where(base == 1, 1, tl.where(base == -1, 1 - 2 * (exponent & 1), 0))
    return tl.where(exponent < 0, inverse.to(base.dtype), result)


@triton.jit
def added(a, b):
    return a + b


@triton.jit
def multiplied(a, b):
    return a * b


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def both(a, b):
    return a & b


@triton.jit
def minimum(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def first_minimum(a, a_place, b, b_place):
    is_better = (a < b) | ((a != a) & (b == b))
    is_equal = (a == b) | ((a != a) & (b != b))
    is_left = is_better | (is_equal & (a_place < b_place))
    return tl.where(is_left, a, b), tl.where(is_left, a_place, b_place)


@triton.jit
def first_maximum(a, a_place, b, b_place):
    is_better = (a > b) | ((a != a) & (b == b))
    is_equal = (a == b) | ((a != a) & (b != b))
    is_left = is_better | (is_equal & (a_place < b_place))
    return tl.where(is_left, a, b), tl.where(is_left, a_place, b_place)


@triton.jit
def last_minimum(a, a_place, b, b_place):
    is_right = (b != b) | ((a == a) & (b <= a))
    return tl.where(is_right, b, a), tl.where(is_right, b_place, a_place)


@triton.jit
def last_maximum(a, a_place, b, b_place):
    is_right = (b != b) | ((a == a) & (b >= a))
    return tl.where(is_right, b, a), tl.where(is_right, b_place, a_place)


@triton.jit
def merged_moments(mean, squares, count, other_mean, other_squares, other_count):
    delta = other_mean - mean
    total = count + other_count
    share = tl.where(total == 0, 0.0, divided(other_count, total))
    return (
        mean + delta * share,
        squares + other_squares + delta * delta * count * share,
        total,
    )


@triton.jit
def merged_softmax(peak, total, other_peak, other_total):
    is_right = other_peak > peak
    top = maximum(peak, other_peak)
    low = tl.where(is_right, peak, other_peak)
    # Only one of the totals is scaled; equal infinities have no difference.
    scale = libdevice.exp(tl.where(peak == other_peak, 0.0, low - top))
    kept = tl.where(is_right, other_total, total)
    return top, kept + tl.where(is_right, total, other_total) * scale
""")

_IN_PARTS = """
@triton.jit
def {name}_in_parts(a_starts, a, b_starts, b):
    result = {name}(a, b)
    return a_starts | b_starts, tl.where(b_starts != 0, b, result)
""".strip()
_PLACES_IN_PARTS = """
@triton.jit
def {name}_in_parts(a_starts, a, a_place, b_starts, b, b_place):
    result, place = {name}(a, a_place, b, b_place)
    is_start = b_starts != 0
    starts = a_starts | b_starts
    return starts, tl.where(is_start, b, result), tl.where(is_start, b_place, place)
""".strip()


def in_parts(name: str) -> str:
    """Return the function that scans by another one, but begins again at flags.

    A scan of flags and values is one of each part (Blelloch, "Prefix sums and their
    applications", 1990).
    """
    return f"{name}_in_parts"


FUNCTIONS: Mapping[str, str] = {
    **_WHOLE,
    **{
        in_parts(name): _IN_PARTS.format(name=name)
        for name in ("added", "multiplied", "minimum", "maximum")
    },
    **{
        in_parts(name): _PLACES_IN_PARTS.format(name=name)
        for name in ("last_minimum", "last_maximum")
    },
}
"""Functions by name; what a kernel uses is written with it."""
