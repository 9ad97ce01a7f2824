"""The values of symbols at which a call is timed."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from wrapperir import ir as wir
from wrapperir.report import SymbolValueError, check_values
from wrapperir.tuning.calls import Call

DEFAULT_UPPER = 1 << 16
"""The largest value of a size that declares no upper bound."""

_UNREACHED = 1 << 40
"""An upper bound from here on counts as no bound: no memory holds so many elements."""

MOST_GIVEN = 10_000
"""The maximum number of combinations of given values."""

_TRIES = 20
"""Points drawn for each wanted sample: some are too large, or repeat others."""

Values = dict[str, wir.Number]
"""The values of a call's symbols, by name, in the order of ``call.symbols``."""


class NotTunableError(Exception):
    """A call cannot be timed; the message says why, for the report."""


@frozen
class Sampling:
    """How values of symbols are sampled.

    ``given`` values are taken in every combination, regardless of ``count``.
    ``largest_bytes`` is the most bytes of a call's tensors together.
    """

    given: Mapping[str, Sequence[int]]
    count: int
    seed: int
    largest_bytes: int


def check_given(
    symbols: Sequence[wir.SymbolDefinitionLine], given: Mapping[str, Sequence[int]]
) -> None:
    """Check values that a user gives against the symbols of a program.

    Raises:
        SymbolValueError: there is no such symbol, it is computed from others, a value is
            not in its range, or there are too many combinations.
    """
    check_values(symbols, given)
    for line in symbols:
        if line.symbol in given and _is_computed(line):
            raise SymbolValueError(f"{line.symbol} is computed from other symbols")
    if math.prod(len(values) for values in given.values()) > MOST_GIVEN:
        raise SymbolValueError(f"there are more than {MOST_GIVEN} combinations of values")


def samples_of(call: Call, sampling: Sampling) -> tuple[Values, ...]:
    """Return values for a call's symbols: ``count`` different ones, or as many as exist.

    Values of sizes and other integers are spread evenly over the logarithm of their ranges,
    by the additive recurrence of M. Roberts, "The unreasonable effectiveness of quasirandom
    sequences", begun at ``seed``; every second point is at a power of two or beside one,
    every fourth has a number at an end of its range or beside it.  Zero is left out.
    Computed symbols follow from the others.  Without symbols there is one sample, an empty
    one.

    Raises:
        NotTunableError: a symbol that is read while the program runs has no upper bound,
            or no values keep the call's tensors within the limit.
    """
    free = [line for line in call.symbols if not _is_computed(line)]
    given = [line.symbol for line in free if line.symbol in sampling.given]
    drawn = [line for line in free if line.symbol not in sampling.given]
    combinations = itertools.product(*(sampling.given[name] for name in given))
    bases = [dict(zip(given, values, strict=True)) for values in combinations]
    found: dict[tuple[wir.Number, ...], Values] = {}
    if not any(line.kind is wir.SymbolKind.INT for line in drawn):
        fixed = [{**base, **_typical(drawn)} for base in bases]
        _keep(found, call, fixed, sampling.largest_bytes, len(fixed))
    else:
        wanted = max(sampling.count, len(bases))
        for index, base in enumerate(bases):
            share = wanted // len(bases) + (index < wanted % len(bases))
            points = _points(call, base, drawn, evolve(sampling, count=share))
            _keep(found, call, points, sampling.largest_bytes, len(found) + share)
    if not found:
        limit = sampling.largest_bytes
        raise NotTunableError(f"its tensors take more than the limit of {limit:,} bytes")
    return tuple(found.values())


def tensor_bytes(call: Call, values: Mapping[str, wir.Number]) -> int | None:
    """Return the bytes of a call's tensors; ``None`` where a size has no such value."""
    total = 0
    try:
        for type in call.arguments:
            if isinstance(type, wir.TensorType):
                size = [wir.evaluate_int(extent, values) for extent in type.size]
                offset = wir.evaluate_int(type.offset, values)
                extent = wir.evaluate_int(wir.storage_extent(type), values)
                if min([offset, *size]) < 0 or (extent < 0 and 0 not in size):
                    return None
                total += (offset + max(extent, 0)) * type.dtype.itemsize
    except wir.EvaluationError:
        return None
    return total


def _is_computed(line: wir.SymbolDefinitionLine) -> bool:
    return isinstance(line.source, wir.Symbol | wir.Operation | int | float)


def _keep(
    found: dict[tuple[wir.Number, ...], Values],
    call: Call,
    points: Iterable[Values],
    largest_bytes: int,
    wanted: int,
) -> None:
    """Append valid points until there are as many as wanted."""
    for point in points:
        values = _completed(call, point)
        taken = None if values is None else tensor_bytes(call, values)
        if values is not None and taken is not None and taken <= largest_bytes:
            found.setdefault(tuple(values.values()), values)
        if len(found) >= wanted:
            return


def _completed(call: Call, point: Mapping[str, wir.Number]) -> Values | None:
    """Return the point with computed symbols; ``None`` where one leaves its range."""
    values: Values = {}
    for line in call.symbols:
        value = point.get(line.symbol)
        if value is None:
            assert isinstance(line.source, wir.Symbol | wir.Operation | int | float)
            try:
                value = wir.evaluate(line.source, values)
            except wir.EvaluationError:
                return None
            if line.kind is wir.SymbolKind.INT:
                if value != value // 1:
                    return None
                value = int(value)
        low = -math.inf if line.lower is None else line.lower
        high = math.inf if line.upper is None else line.upper
        if not low <= value <= high:
            return None
        values[line.symbol] = value
    return values


def _typical(lines: Sequence[wir.SymbolDefinitionLine]) -> Values:
    """Return a value for numbers that are not sizes."""
    return {
        line.symbol: True if line.kind is wir.SymbolKind.BOOL else 1.0
        for line in lines
        if line.kind is not wir.SymbolKind.INT
    }


@frozen
class _Range:
    low: int
    high: int

    def at(self, fraction: float) -> int:
        """Return the number at a fraction of the range's logarithm."""
        if self.low < 1:
            return self.low + round((self.high - self.low) * fraction)
        ratio = math.log2(self.high) - math.log2(self.low)
        return self.clipped(round(self.low * 2 ** (ratio * fraction)))

    def clipped(self, value: int) -> int:
        return min(max(value, self.low), self.high)

    def ends(self) -> tuple[int, ...]:
        return tuple(
            self.clipped(end) for end in (self.low, self.high, self.low + 1, self.high - 1)
        )


def _range_of(line: wir.SymbolDefinitionLine) -> _Range:
    upper = line.upper
    if upper is None or upper >= _UNREACHED:
        if isinstance(line.source, wir.ItemOf):
            raise NotTunableError(
                f"the symbol {line.symbol} is read from a tensor and has no upper bound"
            )
        upper = max(DEFAULT_UPPER, 0 if line.lower is None else line.lower)
    lower = 1 if line.lower is None else max(line.lower, 1)
    return _Range(min(lower, upper), upper)


def _points(
    call: Call,
    base: Mapping[str, wir.Number],
    drawn: Sequence[wir.SymbolDefinitionLine],
    sampling: Sampling,
) -> Iterator[Values]:
    """Yield points of the symbols' ranges; some may repeat or be too large."""
    fixed: Values = {**base, **_typical(drawn)}
    whole = [line for line in drawn if line.kind is wir.SymbolKind.INT]
    ranges = {line.symbol: _range_of(line) for line in whole}
    ranges = _within(call, fixed, ranges, sampling.largest_bytes)
    steps = _steps(len(ranges))
    begin = (sampling.seed * _GOLDEN + 0.5) % 1.0
    names = list(ranges)
    for index in range(max(sampling.count, 1) * _TRIES):
        point: Values = dict(fixed)
        for name, step in zip(names, steps, strict=True):
            value = ranges[name].at((begin + index * step) % 1.0)
            if index % 2:
                power = 1 << round(math.log2(max(value, 1)))
                value = ranges[name].clipped(power + index // 2 % 3 - 1)
            point[name] = value
        if index % 4 == 2:
            turn = index // 4
            name = names[turn % len(names)]
            ends = ranges[name].ends()
            point[name] = ends[turn // len(names) % len(ends)]
        yield point


def _within(
    call: Call, fixed: Values, ranges: Mapping[str, _Range], largest_bytes: int
) -> dict[str, _Range]:
    """Return ranges cut to the values that fit when the other symbols are least."""
    least = {**fixed, **{name: found.low for name, found in ranges.items()}}

    def fits(name: str, value: int) -> bool:
        values = _completed(call, {**least, name: value})
        taken = None if values is None else tensor_bytes(call, values)
        return taken is None or taken <= largest_bytes

    cut: dict[str, _Range] = {}
    for name, found in ranges.items():
        low, high = found.low, found.high
        if not fits(name, high):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if fits(name, middle) else (low, middle)
            high = low
        cut[name] = _Range(found.low, high)
    return cut


_GOLDEN = 0.6180339887498949


def _steps(count: int) -> tuple[float, ...]:
    """Return the steps of the recurrence in ``count`` dimensions."""
    root = 2.0
    for _ in range(40):
        root = (1 + root) ** (1 / (count + 1))
    return tuple((1 / root) ** (index + 1) % 1.0 for index in range(count))
