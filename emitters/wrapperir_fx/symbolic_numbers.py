"""The numbers of a program as PyTorch's symbolic ints, floats and bools.

A backed symbol is decided by inputs and has a *hint*, the value that PyTorch would have met
while it traced; an unbacked one is known at run time only and has none.  Hints are distinct
where the ranges allow it, so that a reader that compares hints finds no two symbols equal.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, count

import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.numbers import int_oo

from wrapperir import ir as wir
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.number_kinds import kind_of
from wrapperir_fx.symbolic_arithmetic import (
    SymbolicNumber,
    apply,
    convert,
    kind_of_result,
)

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
        self, kind: wir.SymbolKind, lower: int | None = None, upper: int | None = None
    ) -> SymbolicNumber:
        """Return a number that is known at run time only; ints may have a range."""
        env = self._env
        with env.ignore_fresh_unbacked_symbols():
            match kind:
                case wir.SymbolKind.INT:
                    number = env.create_unbacked_symint()
                    self._constrain(number, lower, upper)
                    return number
                case wir.SymbolKind.FLOAT:
                    return env.create_unbacked_symfloat()
                case wir.SymbolKind.BOOL:
                    return env.create_unbacked_symbool()

    def backed(
        self, name: str, kind: wir.SymbolKind, lower: int | None, upper: int | None
    ) -> SymbolicNumber:
        """Return a number that the caller's inputs decide; ints may have a range."""
        match kind:
            case wir.SymbolKind.INT:
                return self._backed_int(name, lower, upper)
            case wir.SymbolKind.FLOAT:
                hint = self._hint(None, None) + 0.5
                symbol = self._env.create_symbol(
                    hint, ConstantSource(name), DimDynamic.DYNAMIC, positive=None
                )
                return self._env.create_symfloatnode(symbol, hint=hint)
            case wir.SymbolKind.BOOL:
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
        """Return a number in a range that is not used as a hint, if one is left."""
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


_HEAVIEST = 32
"""Symbols and operators, sums excepted, that a number may have: sympy is slow for more."""
_WEIGHT_OF_BOOL = 4
"""The additional weight of a bool that is computed with."""


_OF_SUMS = frozenset({wir.ExprOp.ADD, wir.ExprOp.SUB, wir.ExprOp.MUL, wir.ExprOp.NEG})
_OF_BOOLS = frozenset({wir.ExprOp.AND, wir.ExprOp.OR})


class SymbolicNumbers:
    """PyTorch's number for each number of one program, always the same one.

    An unbacked symbol takes the place of a result that PyTorch could not compute without
    a guard, which would decide something for all runs, or not quickly.
    """

    def __init__(self, facts: ProgramFacts) -> None:
        """Start with no number asked for."""
        self.shape_env = ShapeEnv(duck_shape=False)
        self._torch_symbols = TorchSymbols(self.shape_env)
        self._facts = facts
        self._given: dict[str, wir.ValueType] = {
            **{item.name: item.type for item in facts.program.inputs},
            **{item.name: item.type for item in facts.program.constants},
        }
        self._symbols: dict[str, SymbolicNumber] = {}
        self._scalars: dict[str, SymbolicNumber] = {}
        # By the identities of the operands, which are kept alive.
        self._computed: dict[object, tuple[SymbolicNumber, Sequence[SymbolicNumber]]] = {}
        self._weights: dict[int, int] = {}
        self._resolving: set[str] = set()

    def number(self, expr: wir.Expr) -> SymbolicNumber:
        """Return the value of an expression."""
        if isinstance(expr, wir.Symbol):
            return self._symbol(expr.name)
        if not isinstance(expr, wir.Operation):
            return expr
        op = expr.op
        args = [self.number(arg) for arg in expr.args]
        if op in _OF_BOOLS:
            args = [self.converted(arg, wir.SymbolKind.BOOL) for arg in args]
        if op not in wir.VARIADIC:
            return self.computed(op, args)
        total = args[0]
        for arg in args[1:]:  # as a graph computes it, so that symbols are the same
            total = self.computed(op, (total, arg))
        return total

    def computed(self, op: wir.ExprOp, args: Sequence[SymbolicNumber]) -> SymbolicNumber:
        """Return the result of an operator; a variadic one is given two numbers."""
        key = (op, *map(_identity, args))
        known = self._computed.get(key)
        if known is None:
            weight = sum(map(self._weight, args)) + (op not in _OF_SUMS)
            weight += _WEIGHT_OF_BOOL * sum(isinstance(arg, torch.SymBool) for arg in args)
            kind = kind_of_result(op, args)
            result = self._decided(lambda: apply(op, args), kind, weight)
            known = self._computed[key] = result, args
        return known[0]

    def converted(self, number: SymbolicNumber, kind: wir.SymbolKind) -> SymbolicNumber:
        """Return a number converted to a kind."""
        key = (kind, _identity(number))
        known = self._computed.get(key)
        if known is None:
            truth = isinstance(number, torch.SymBool)
            weight = self._weight(number) + _WEIGHT_OF_BOOL * truth
            result = self._decided(lambda: convert(number, kind), kind, weight)
            known = self._computed[key] = result, (number,)
        return known[0]

    def scalar(self, name: str, dtype: wir.DType) -> SymbolicNumber:
        """Return the value of a name of scalar type."""
        known = self._scalars.get(name)
        if known is None:
            kind = kind_of(dtype)
            reader = self._readers.get(name)
            if reader is None or reader.kind is not kind:
                reader = wir.SymbolDefinitionLine(
                    symbol=name, kind=kind, source=wir.ValueOf(name)
                )
            known = self._scalars[name] = self._fresh(reader, name in self._given)
        return known

    def sample(self, symbol: str) -> int:
        """Return a possible value of an int symbol: its hint, if it has one."""
        number = self._symbol(symbol)
        if isinstance(number, int):
            return number
        assert isinstance(number, torch.SymInt)
        return number.node.hint if number.node.has_hint() else FIRST_HINT

    def unknown(self, kind: wir.SymbolKind = wir.SymbolKind.INT) -> SymbolicNumber:
        """Return a new number that is known at run time only."""
        return self._torch_symbols.unbacked(kind)

    def _weight(self, number: SymbolicNumber) -> int:
        """Return how many operands a number was computed from, repeats included."""
        known = isinstance(number, int | float)
        return 0 if known else self._weights.get(id(number), 1)

    def _decided(
        self, compute: Callable[[], SymbolicNumber], kind: wir.SymbolKind, weight: int
    ) -> SymbolicNumber:
        if weight > _HEAVIEST:
            return self.unknown(kind)
        try:
            with _without_guards(self.shape_env):
                result = compute()
        except Exception:  # torch and sympy raise what they like
            return self.unknown(kind)
        self._weights.setdefault(id(result), weight)
        return result

    def _symbol(self, name: str) -> SymbolicNumber:
        known = self._symbols.get(name)
        if known is not None:
            return known
        line = self._facts.symbols.get(name)
        if line is None:
            line = wir.SymbolDefinitionLine(symbol=name, source=wir.Symbol(name))
        if name in self._resolving:  # its type has the symbol that is read from it
            number = self._fresh(line, self._is_given(line))
        else:
            self._resolving.add(name)
            number = self._resolved(line)
            self._resolving.discard(name)
        return self._symbols.setdefault(name, number)

    def _resolved(self, line: wir.SymbolDefinitionLine) -> SymbolicNumber:
        """Return the value of a symbol, from where it is read."""
        match source := line.source:
            case wir.ItemOf():
                return self._fresh(line, False)
            case wir.ValueOf(name):
                type = self._type(name)
                if not isinstance(type, wir.ScalarType):
                    return self._fresh(line, False)
                number = self.scalar(name, type.dtype)
            case wir.SizeOf(name) | wir.StrideOf(name) | wir.OffsetOf(name):
                number = self._of_layout(line, self._type(name))
            case int() | float() | wir.Symbol() | wir.Operation():
                number = self.number(source)
        return self.converted(number, line.kind)

    def _of_layout(
        self, line: wir.SymbolDefinitionLine, type: wir.ValueType | None
    ) -> SymbolicNumber:
        match line.source, type:
            case wir.SizeOf(_, dim), wir.TensorType(size=entries) if dim < len(entries):
                return self.number(entries[dim])
            case wir.StrideOf(_, dim), wir.TensorType(stride=entries) if dim < len(entries):
                return self.number(entries[dim])
            case wir.OffsetOf(), wir.TensorType(offset=offset):
                return self.number(offset)
            case _:
                return self._fresh(line, self._is_given(line))

    def _is_given(self, line: wir.SymbolDefinitionLine) -> bool:
        source = line.source
        return (
            isinstance(source, wir.SizeOf | wir.StrideOf | wir.OffsetOf)
            and source.buffer in self._given
        )

    def _fresh(self, line: wir.SymbolDefinitionLine, given: bool) -> SymbolicNumber:
        """Return a new number in the range of a symbol."""
        lower, upper = line.lower, line.upper
        if isinstance(line.source, wir.SizeOf | wir.StrideOf | wir.OffsetOf):
            lower = max(lower or 0, 0)
        if given:
            return self._torch_symbols.backed(line.symbol, line.kind, lower, upper)
        return self._torch_symbols.unbacked(line.kind, lower, upper)

    def _type(self, name: str) -> wir.ValueType | None:
        known = self._given.get(name)
        return self._facts.types.get(name) if known is None else known

    @cached_property
    def _readers(self) -> Mapping[str, wir.SymbolDefinitionLine]:
        """The first symbol that is the value of each scalar."""
        readers: dict[str, wir.SymbolDefinitionLine] = {}
        for line in self._facts.symbols.values():
            if isinstance(line.source, wir.ValueOf):
                readers.setdefault(line.source.name, line)
        return readers


@contextmanager
def _without_guards(env: ShapeEnv) -> Generator[None]:
    """Make guards an error: they would decide something for all runs.

    Raises:
        Exception: a guard was, or would have been, made.
    """
    if hasattr(env, "error_on_new_guards"):
        with env.error_on_new_guards():
            yield
        return
    guards = len(env.guards)  # torch 2.11 has no way to refuse them
    yield
    if len(env.guards) != guards:
        raise RuntimeError("a guard was made")


def _identity(number: SymbolicNumber) -> object:
    """Return a key that differs for 1, 1.0 and True, and for 0.0 and -0.0."""
    known = isinstance(number, int | float)
    return (type(number), repr(number)) if known else id(number)
