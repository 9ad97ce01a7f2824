"""State of one block under construction: lines, names, types, live and written names."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import sympy

from wrapperir.ir import (
    BodyLine,
    Expr,
    FreeLine,
    Provenance,
    ReinterpretLine,
    ReuseLine,
    TensorType,
    ValueType,
    substitute,
)

if TYPE_CHECKING:
    from torch._inductor.graph import GraphLowering

    from wrapperir.frontend.inductor.session import Session


class Scope:
    """One block under construction.

    ``borrowed`` names may not be given away: inputs, constants, parameters of a block.
    ``freeable`` are the borrowed names that ``free`` may drop: a program's inputs.
    """

    def __init__(
        self,
        session: "Session",
        graph: "GraphLowering",
        *,
        nested: bool,
        suffix: str = "",
    ) -> None:
        """Start an empty block of ``graph``; ``suffix`` is put to its names."""
        self.session = session
        self.graph = graph
        self.nested = nested
        self._suffix = suffix
        self.lines: list[BodyLine] = []
        self.types: dict[str, ValueType] = {}
        self.live: dict[str, None] = {}
        self.borrowed: set[str] = set()
        self.freeable: set[str] = set()
        self.merged: set[str] = set()
        self.results: dict[str, tuple[str, ...]] = {}
        self.precomputed: dict[str, Expr] = {}
        self.symbols: set[str] = set()
        self.stream = 0
        self.written: set[str] = set()
        self.mutated: set[str] = set()
        self._names: dict[str, str] = {}
        self._bases: dict[str, str] = {}
        self._begun: set[str] = set()
        self._initialized: set[str] = set()

    def name(self, inductor: str) -> str:
        """Return the program's name for one of Inductor's."""
        known = self._names.get(inductor)
        return f"{inductor}{self._suffix}" if known is None else known

    def rename(self, inductor: str, name: str) -> None:
        """Have a name of Inductor's stand for another in the program."""
        self._names[inductor] = name

    def borrow(self, name: str, type: ValueType, *, freeable: bool = False) -> None:
        """Add a name that the block is given; its memory has contents."""
        self.types[name] = type
        self.borrowed.add(name)
        self.written.add(name)
        if freeable:
            self.freeable.add(name)

    def define(self, name: str, type: ValueType) -> None:
        """Note that the line appended next or last defines a name."""
        self.types[name] = type
        self.live[name] = None

    def tensor(self, name: str) -> TensorType:
        """Return the type of a tensor that is in scope."""
        type = self.types[name]
        assert isinstance(type, TensorType), name
        return type

    def reinterpret(
        self, result: str, source: str, type: TensorType, at: Provenance | None
    ) -> None:
        """Append a view."""
        self.lines.append(
            ReinterpretLine(result=result, source=source, type=type, provenance=at)
        )
        self.define(result, type)
        self._bases[result] = source
        if source in self.written:
            self.written.add(result)
        elif self.is_initialized(source):
            self._initialized.add(result)

    def view(self, source: str, type: TensorType, at: Provenance | None) -> str:
        """Append a view under a new name and return the name."""
        name = self.session.temporary("view")
        self.reinterpret(name, source, type, at)
        return name

    def reuse(self, result: str, source: str, type: TensorType) -> None:
        """Append a reuse; a view and a free if the source is borrowed."""
        if source in self.borrowed:
            self.reinterpret(result, source, type, None)
            self.mutated.add(source)
            self.written.discard(result)
            self.free(source)
            return
        self.lines.append(ReuseLine(result=result, source=source, type=type))
        self.live.pop(source, None)
        self.define(result, type)
        if source in self._bases:
            self._bases[result] = self._bases[source]
        if self.is_initialized(source):
            self._initialized.add(result)

    def free(self, name: str) -> None:
        """Append a free, unless the name was dropped before or is borrowed."""
        if name in self.live:
            del self.live[name]
        elif name in self.freeable:
            self.freeable.discard(name)
        else:
            return
        self.lines.append(FreeLine(buffer=name))

    def free_all(self, names: Iterable[str]) -> None:
        """Free the temporaries of one line."""
        for name in names:
            self.free(name)

    def write(self, name: str) -> None:
        """Note that a line wrote to a name, and so to a part of what it views."""
        self.written.add(name)
        while name in self._bases:
            name = self._bases[name]
            self._begun.add(name)
        if name in self.borrowed:
            self.mutated.add(name)

    def has_contents(self, name: str) -> bool:
        """Say whether something of the memory under a name was written before."""
        return name in self.written or name in self._begun

    def is_initialized(self, name: str) -> bool:
        """Say whether anything was ever written to the memory under a name."""
        return self.has_contents(name) or name in self._initialized

    def is_view_of_borrowed(self, name: str) -> bool:
        """Say whether a name is borrowed or a view of what is."""
        while name in self._bases:
            name = self._bases[name]
        return name in self.borrowed

    def append(self, line: BodyLine) -> None:
        """Append a line that neither defines nor drops a value."""
        self.lines.append(line)

    def resolve(self, expr: Expr) -> Expr:
        """Return an expression with this block's precomputed sizes put in."""
        return substitute(expr, self.precomputed) if self.precomputed else expr


def symbol_range(
    graph: "GraphLowering", symbol: sympy.Symbol
) -> tuple[int | None, int | None]:
    """Return the inclusive bounds of an integer symbol; ``None`` where there is none."""
    bounds = graph.sizevars.shape_env.var_to_range.get(symbol)
    if bounds is None:
        return None, None
    return _whole(bounds.lower), _whole(bounds.upper)


def _whole(bound: object) -> int | None:
    return int(bound) if isinstance(bound, sympy.Integer) else None
