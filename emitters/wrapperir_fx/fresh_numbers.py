"""Symbols of PyTorch: numbers that the caller decides, and those that only the run knows.

A number that the caller's inputs decide has a *hint*, as a value that PyTorch met while
it traced would be; one that only the run knows has none.  No two have one hint, where
their ranges let them, so that a reader that compares hints finds none equal.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from itertools import chain, count

import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.numbers import int_oo

from wrapperir.ir.line import SymbolKind
from wrapperir_fx.fake_arithmetic import FakeNumber

FIRST_HINT = 16
"""Hints begin here where the range lets them: no number that is a case of its own."""
_SMALL_HINT = 2
"""Hints begin here in a range of small numbers."""


class FreshNumbers:
    """Makes numbers of one shape environment; each is like no other."""

    def __init__(self, shape_env: ShapeEnv) -> None:
        """Start with no hint used."""
        self._env = shape_env
        self._hints: set[int] = set()

    def unknown(
        self, kind: SymbolKind, lower: int | None = None, upper: int | None = None
    ) -> FakeNumber:
        """Return a number that only the run knows; the range is that of an int."""
        env = self._env
        with env.ignore_fresh_unbacked_symbols():
            match kind:
                case SymbolKind.INT:
                    number = env.create_unbacked_symint()
                    self._constrain(number, lower, upper)
                    return number
                case SymbolKind.FLOAT:
                    return env.create_unbacked_symfloat()
                case SymbolKind.BOOL:
                    return env.create_unbacked_symbool()

    def given(
        self, name: str, kind: SymbolKind, lower: int | None, upper: int | None
    ) -> FakeNumber:
        """Return a number that the caller decides; the range is that of an int."""
        match kind:
            case SymbolKind.INT:
                return self._given_int(name, lower, upper)
            case SymbolKind.FLOAT:
                return self._given_float(name)
            case SymbolKind.BOOL:
                return self._given_int(name, 0, 1) == 1

    def _given_int(self, name: str, lower: int | None, upper: int | None) -> torch.SymInt:
        hint = self._hint(lower, upper)
        symbol = self._env.create_symbol(
            hint,
            ConstantSource(name),
            DimDynamic.DYNAMIC,
            positive=None,  # or it would be taken for at least one
            do_not_specialize_zero_one=True,
        )
        number = self._env.create_symintnode(symbol, hint=hint)
        assert isinstance(number, torch.SymInt)
        self._constrain(number, lower, upper)
        return number

    def _given_float(self, name: str) -> FakeNumber:
        hint = self._hint(None, None) + 0.5
        symbol = self._env.create_symbol(
            hint, ConstantSource(name), DimDynamic.DYNAMIC, positive=None
        )
        return self._env.create_symfloatnode(symbol, hint=hint)

    def _constrain(
        self, number: torch.SymInt, lower: int | None, upper: int | None
    ) -> None:
        self._env.constrain_symbol_range(
            number.node.expr,
            -int_oo if lower is None else lower,
            int_oo if upper is None else upper,
        )

    def _hint(self, lower: int | None, upper: int | None) -> int:
        """Return a number in a range that is no other symbol's hint, if there is one."""
        low = -FIRST_HINT if lower is None else lower
        low = low if upper is None else min(low, upper)
        first = max(low, FIRST_HINT)
        if upper is not None and upper < first:
            first = max(low, min(_SMALL_HINT, upper))
        used = self._hints
        above = count(first) if upper is None else range(first, upper + 1)
        hint = next((n for n in chain(above, range(low, first)) if n not in used), first)
        used.add(hint)
        return hint
