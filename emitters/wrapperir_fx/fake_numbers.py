"""The numbers of a program as PyTorch's symbolic ints, floats and bools.

A symbol that the caller's inputs decide has a *hint*, as a value that PyTorch met while
it traced would be; one that only the run knows has none.  No two have one hint, where
their ranges let them, so that a reader that compares hints finds none equal.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import chain, count

import torch
from attrs import define, field
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.numbers import int_oo

from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.walking import walk_lines
from wrapperir.ir.expr import Expr, Operation, Symbol
from wrapperir.ir.line import (
    ItemOf,
    OffsetOf,
    SizeOf,
    StrideOf,
    SymbolDefinitionLine,
    SymbolKind,
    ValueOf,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import DType, ScalarType, TensorType, ValueType
from wrapperir.ir.uses import blocks_of, definitions, source_buffer
from wrapperir_fx.fake_arithmetic import FakeNumber, apply, convert, kind_of_result

_FIRST_HINT = 16
"""Hints begin here where the range lets them: no number that is a case of its own."""
_SMALL_HINT = 2
"""Hints begin here in a range of small numbers."""


@define
class _Facts:
    """What a program says of its symbols: their definitions, and the types of values.

    ``readers`` has the symbol that is the value of a scalar.
    """

    definitions: dict[str, SymbolDefinitionLine] = field(factory=dict)
    types: dict[str, ValueType] = field(factory=dict)
    readers: dict[str, SymbolDefinitionLine] = field(factory=dict)


class FakeNumbers:
    """Gives what stands for each number of one program, always the same."""

    def __init__(self, program: Program) -> None:
        """Find nothing yet: a program without symbols is never searched."""
        self.shape_env = ShapeEnv(duck_shape=False)
        self._program = program
        self._found: _Facts | None = None
        self._given = {item.name for item in program.inputs}
        self._given.update(item.name for item in program.constants)
        self._symbols: dict[str, FakeNumber] = {}
        self._scalars: dict[str, FakeNumber] = {}
        self._operations: dict[object, FakeNumber] = {}
        self._resolving: set[str] = set()
        self._hints: set[int] = set()

    def number(self, expr: Expr) -> FakeNumber:
        """Return the value of an expression.

        What PyTorch cannot compute without deciding something for all runs is a fresh
        number that only the run knows.
        """
        if isinstance(expr, Symbol):
            return self._symbol(expr.name)
        if not isinstance(expr, Operation):
            return expr
        key = _exact(expr)
        known = self._operations.get(key)
        if known is None:
            args = [self.number(arg) for arg in expr.args]
            known = self._decided(
                lambda: apply(expr.op, args), kind_of_result(expr.op, args)
            )
            self._operations[key] = known
        return known

    def converted(self, expr: Expr, kind: SymbolKind) -> FakeNumber:
        """Return the value of an expression as a number of a kind."""
        number = self.number(expr)
        return self._decided(lambda: convert(number, kind), kind)

    def scalar(self, name: str, dtype: DType) -> FakeNumber:
        """Return the value that a name of scalar type has."""
        known = self._scalars.get(name)
        if known is None:
            kind = kind_of(dtype)
            reader = self._facts.readers.get(name)
            if reader is None or reader.kind is not kind:
                reader = SymbolDefinitionLine(symbol=name, kind=kind, source=ValueOf(name))
            known = self._scalars[name] = self._fresh(reader, name in self._given)
        return known

    def unknown(self, kind: SymbolKind) -> FakeNumber:
        """Return a fresh number that only the run knows."""
        env = self.shape_env
        with env.ignore_fresh_unbacked_symbols():
            match kind:
                case SymbolKind.INT:
                    return env.create_unbacked_symint()
                case SymbolKind.FLOAT:
                    return env.create_unbacked_symfloat()
                case SymbolKind.BOOL:
                    return env.create_unbacked_symbool()

    def _decided(self, compute: Callable[[], FakeNumber], kind: SymbolKind) -> FakeNumber:
        try:
            with _deciding_nothing(self.shape_env):
                return compute()
        except Exception:  # torch and sympy raise what they like
            return self.unknown(kind)

    def _symbol(self, name: str) -> FakeNumber:
        known = self._symbols.get(name)
        if known is not None:
            return known
        line = self._facts.definitions.get(name)
        if line is None:
            line = SymbolDefinitionLine(symbol=name, source=Symbol(name))
        if name in self._resolving:  # a type that its own symbol is read from
            number = self._fresh(line, self._is_given(line))
        else:
            self._resolving.add(name)
            number = self._resolved(line)
            self._resolving.discard(name)
        return self._symbols.setdefault(name, number)

    def _resolved(self, line: SymbolDefinitionLine) -> FakeNumber:
        """Return the value of a symbol, from where it is read."""
        source, types = line.source, self._facts.types
        match source:
            case ItemOf():
                return self._fresh(line, False)
            case ValueOf(name):
                type = types.get(name)
                if not isinstance(type, ScalarType):
                    return self._fresh(line, False)
                number = self.scalar(name, type.dtype)
            case SizeOf(name) | StrideOf(name) | OffsetOf(name):
                number = self._of_layout(line, types.get(name))
            case _:
                number = self.number(source)
        return self._decided(lambda: convert(number, line.kind), line.kind)

    def _of_layout(self, line: SymbolDefinitionLine, type: ValueType | None) -> FakeNumber:
        match line.source, type:
            case SizeOf(_, dim), TensorType(size=entries) if dim < len(entries):
                return self.number(entries[dim])
            case StrideOf(_, dim), TensorType(stride=entries) if dim < len(entries):
                return self.number(entries[dim])
            case OffsetOf(), TensorType(offset=offset):
                return self.number(offset)
            case _:
                return self._fresh(line, self._is_given(line))

    def _is_given(self, line: SymbolDefinitionLine) -> bool:
        source = line.source
        return (
            isinstance(source, SizeOf | StrideOf | OffsetOf)
            and source.buffer in self._given
        )

    def _fresh(self, line: SymbolDefinitionLine, given: bool) -> FakeNumber:
        """Return a number of its own in the range of a symbol."""
        lower, upper = line.lower, line.upper
        if isinstance(line.source, SizeOf | StrideOf | OffsetOf):
            lower = max(lower or 0, 0)
        if given:
            match line.kind:
                case SymbolKind.INT:
                    return self._given_int(line.symbol, lower, upper)
                case SymbolKind.FLOAT:
                    return self._given_float(line.symbol)
                case SymbolKind.BOOL:
                    return self._given_int(line.symbol, 0, 1) == 1
        number = self.unknown(line.kind)
        if isinstance(number, torch.SymInt):
            self._constrain(number, lower, upper)
        return number

    def _given_int(self, name: str, lower: int | None, upper: int | None) -> torch.SymInt:
        hint = self._hint(lower, upper)
        env = self.shape_env
        symbol = env.create_symbol(
            hint,
            ConstantSource(name),
            DimDynamic.DYNAMIC,
            positive=None,  # or it would be taken for at least one
            do_not_specialize_zero_one=True,
        )
        number = env.create_symintnode(symbol, hint=hint)
        assert isinstance(number, torch.SymInt)
        self._constrain(number, lower, upper)
        return number

    def _given_float(self, name: str) -> FakeNumber:
        hint = self._hint(None, None) + 0.5
        env = self.shape_env
        symbol = env.create_symbol(
            hint, ConstantSource(name), DimDynamic.DYNAMIC, positive=None
        )
        return env.create_symfloatnode(symbol, hint=hint)

    def _constrain(
        self, number: torch.SymInt, lower: int | None, upper: int | None
    ) -> None:
        self.shape_env.constrain_symbol_range(
            number.node.expr,
            -int_oo if lower is None else lower,
            int_oo if upper is None else upper,
        )

    def _hint(self, lower: int | None, upper: int | None) -> int:
        """Return a number in a range that is no other symbol's hint, if there is one."""
        low = -_FIRST_HINT if lower is None else lower
        low = low if upper is None else min(low, upper)
        first = max(low, _FIRST_HINT)
        if upper is not None and upper < first:
            first = max(low, min(_SMALL_HINT, upper))
        used = self._hints
        above = count(first) if upper is None else range(first, upper + 1)
        hint = next((n for n in chain(above, range(low, first)) if n not in used), first)
        used.add(hint)
        return hint

    @property
    def _facts(self) -> _Facts:
        if self._found is None:
            self._found = _search(self._program)
        return self._found


@contextmanager
def _deciding_nothing(env: ShapeEnv) -> Generator[None]:
    """Make it an error to decide something for all runs.

    Raises:
        Exception: something was, or would have been, decided.
    """
    if hasattr(env, "error_on_new_guards"):
        with env.error_on_new_guards():
            yield
        return
    guards = len(env.guards)  # torch 2.11 only says afterwards
    yield
    if len(env.guards) != guards:
        raise RuntimeError("a guard was made")


def _exact(expr: Expr) -> object:
    """Return what is equal only for expressions of the same numbers: 1.0 is not 1."""
    if isinstance(expr, Operation):
        return expr.op, *map(_exact, expr.args)
    return expr if isinstance(expr, Symbol) else (type(expr), expr)


def _search(program: Program) -> _Facts:
    facts = _Facts()
    for line in chain(program.symbols, walk_lines(program.lines)):
        if isinstance(line, SymbolDefinitionLine):
            facts.definitions[line.symbol] = line
            if isinstance(line.source, ValueOf):
                facts.readers.setdefault(line.source.name, line)
    facts.types.update((item.name, item.type) for item in program.inputs)
    facts.types.update((item.name, item.type) for item in program.constants)
    read = {source_buffer(line.source) for line in facts.definitions.values()} - {None}
    if not read <= facts.types.keys():
        for line in walk_lines(program.lines):
            facts.types.update(definitions(line))
            for block in blocks_of(line):
                facts.types.update((item.name, item.type) for item in block.parameters)
    return facts
