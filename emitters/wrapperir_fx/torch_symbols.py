"""PyTorch's symbols: backed ones, which inputs decide, and unbacked ones.

A backed symbol has a *hint*, the value that PyTorch would have met while it traced; an
unbacked one is known at run time only and has none.  Hints are distinct where the ranges
allow it, so that a reader that compares hints finds no two symbols equal.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from itertools import chain, count

import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.numbers import int_oo

from wrapperir.ir import SymbolKind
from wrapperir_fx.symbolic_arithmetic import SymbolicNumber

FIRST_HINT = 16
"""The first hint where the range allows it; PyTorch treats some smaller sizes apart."""
_SMALL_HINT = 2
"""The first hint in a range of small numbers."""


class TorchSymbols:
    """Creates the symbols of one shape environment."""

    def __init__(self, shape_env: ShapeEnv) -> None:
        """Start with no hint used."""
        self._env = shape_env
        self._hints: set[int] = set()

    def unbacked(
        self, kind: SymbolKind, lower: int | None = None, upper: int | None = None
    ) -> SymbolicNumber:
        """Return a number that is known at run time only; ints may have a range."""
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

    def backed(
        self, name: str, kind: SymbolKind, lower: int | None, upper: int | None
    ) -> SymbolicNumber:
        """Return a number that the caller's inputs decide; ints may have a range."""
        match kind:
            case SymbolKind.INT:
                return self._backed_int(name, lower, upper)
            case SymbolKind.FLOAT:
                hint = self._hint(None, None) + 0.5
                symbol = self._env.create_symbol(
                    hint, ConstantSource(name), DimDynamic.DYNAMIC, positive=None
                )
                return self._env.create_symfloatnode(symbol, hint=hint)
            case SymbolKind.BOOL:
                return self._backed_int(name, 0, 1) == 1

    def _backed_int(self, name: str, lower: int | None, upper: int | None) -> torch.SymInt:
        hint = self._hint(lower, upper)
        symbol = self._env.create_symbol(
            hint,
            ConstantSource(name),
            DimDynamic.DYNAMIC,
            positive=None,  # PyTorch's default assumes at least 1
            do_not_specialize_zero_one=True,
        )
        number = self._env.create_symintnode(symbol, hint=hint)
        assert isinstance(number, torch.SymInt)
        self._constrain(number, lower, upper)
        return number

    def _constrain(
        self, number: torch.SymInt, lower: int | None, upper: int | None
    ) -> None:
        self._env.constrain_symbol_range(
            number.node.expr,
            -int_oo if lower is None else lower,
            int_oo if upper is None else upper,
        )

    def _hint(self, lower: int | None, upper: int | None) -> int:
        """Return a number in a range that is no other hint, if one is left."""
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
