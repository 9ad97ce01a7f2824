"""State of one graph while its nodes are lowered."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, Union

import torch
from attrs import define, field

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, Diagnostic
from wrapperir.frontend.aten.values import expr_of, is_symbolic, lower_type
from wrapperir.frontend.provenance import TracedOrigins
from wrapperir.ir.mentions import type_symbols
from wrapperir.ir.renaming import replace_cpu
from wrapperir.ir.rewriting import rewrite_expressions
from wrapperir.symbolic import lower_sympy


@define(eq=False)
class Elements:
    """Several results of a call; each is named, by ``make``, when it is asked for."""

    count: int
    make: Callable[[int], wir.BufferRef]
    _named: dict[int, wir.BufferRef] = field(factory=dict[int, wir.BufferRef], init=False)

    def __getitem__(self, index: int) -> wir.BufferRef:
        """Return one of the results."""
        if index not in self._named:
            self._named[index] = self.make(index)
        return self._named[index]


class Poison:
    """Value of a node that was reported and not lowered."""


Lowering: TypeAlias = Union[wir.Argument, Elements, Poison]
"""Result of lowering a node."""


@define(eq=False)
class Shared:
    """State that all graphs of a program share: names, inputs, constants, diagnostics.

    ``ranges`` maps sympy symbols to torch's value ranges.  ``dialect``, if
    given, is asked first to lower each node, and returns whether it did.  Tensors of the
    CPU are on a device of ``kernel_device``, if it is given.
    """

    ranges: Mapping[Any, Any]
    dialect: "Callable[[GraphScope, torch.fx.Node], bool] | None" = None
    kernel_device: str | None = None
    origins: TracedOrigins = field(factory=TracedOrigins)
    names: set[str] = field(factory=set[str])
    symbols: set[str] = field(factory=set[str])
    inputs: list[wir.Input] = field(factory=list[wir.Input])
    input_symbols: list[wir.SymbolDefinitionLine] = field(
        factory=list[wir.SymbolDefinitionLine]
    )
    constants: list[wir.ConstantInput] = field(factory=list[wir.ConstantInput])
    tensors: dict[str, torch.Tensor] = field(factory=dict[str, torch.Tensor])
    diagnostics: list[Diagnostic] = field(factory=list[Diagnostic])


def take(taken: set[str], name: str) -> str:
    """Add ``name`` to the taken names, with a number appended if needed, and return it."""
    chosen, number = name, 0
    while chosen in taken:
        number += 1
        chosen = f"{name}_{number}"
    taken.add(chosen)
    return chosen


@define(eq=False)
class GraphScope:
    """State of one graph.

    Attributes:
        values: result of each node that was lowered.
        types: type of each name.
        roots: inputs, constants and block parameters whose memory a name may alias.
        written: roots that are written.
        laid_out: names whose size and stride are known to be as declared.
        visible: symbols that are defined.
        renamed: expression of each symbol that has another name in the graph.
    """

    shared: Shared
    owner: torch.nn.Module
    lines: list[wir.BodyLine] = field(factory=list[wir.BodyLine])
    values: dict[torch.fx.Node, Lowering] = field(factory=dict[torch.fx.Node, Lowering])
    types: dict[str, wir.ValueType] = field(factory=dict[str, wir.ValueType])
    roots: dict[str, frozenset[str]] = field(factory=dict[str, frozenset[str]])
    written: set[str] = field(factory=set[str])
    laid_out: set[str] = field(factory=set[str])
    visible: set[str] = field(factory=set[str])
    renamed: dict[str, wir.Expr] = field(factory=dict[str, wir.Expr])

    def nested(self, owner: torch.nn.Module) -> "GraphScope":
        """Return the scope of a block, which sees the symbols but no names."""
        return GraphScope(
            self.shared, owner, visible=set(self.visible), renamed=dict(self.renamed)
        )

    def declare(self, name: str, type: wir.ValueType, sources: Iterable[str] = ()) -> None:
        """Note a value's type, and that it may alias ``sources``."""
        self.types[name] = type
        self.roots[name] = frozenset().union(*(self.roots[s] for s in sources))

    def declare_root(self, name: str, type: wir.ValueType) -> None:
        """Note an input, constant or block parameter."""
        self.types[name] = type
        self.roots[name] = frozenset({name})

    def held(self, node: torch.fx.Node) -> Any:
        """Return the attribute of the graph's module that a node names, or ``None``."""
        held: Any = self.owner
        for part in str(node.target).split("."):
            held = getattr(held, part, None)
        return held

    def provenance(self, node: torch.fx.Node) -> wir.Provenance:
        """Return the provenance of the lines of a node."""
        return self.shared.origins.provenance(node)

    def poison(self, node: torch.fx.Node, *found: Diagnostic) -> None:
        """Report why a node is not lowered; nodes that depend on it are left out."""
        self.shared.diagnostics.extend(found)
        self.values[node] = Poison()

    def new_name(self, name: str) -> str:
        """Return a new name for a value."""
        return take(self.shared.names, name)

    def write(self, name: str) -> None:
        """Note that the memory of ``name`` is written."""
        self.written |= self.roots[name]

    def lower_type(self, value: Any) -> wir.ValueType:
        """Return the type of an example value.

        Raises:
            DiagnosticError: WIR604, no type expresses it or a symbol is not defined.
        """
        type = replace_cpu(lower_type(value), self.shared.kernel_device)
        if not any(True for _ in type_symbols(type)):
            return type
        if self.renamed:
            type = rewrite_expressions(type, self._rename)
        self._check_symbols(type_symbols(type))
        return type

    def lower_scalar(self, value: Any) -> wir.Expr:
        """Return the expression of a plain or symbolic number.

        Raises:
            DiagnosticError: WIR604, a symbol is not defined; WIR600.
        """
        if is_symbolic(value):
            return self.resolve(lower_sympy(expr_of(value)))
        return int(value) if isinstance(value, bool) else value

    def resolve(self, expr: wir.Expr) -> wir.Expr:
        """Return an expression of the graph with the names that symbols have here."""
        if isinstance(expr, int | float):
            return expr
        expr = self._rename(expr)
        self._check_symbols(wir.symbols_in(expr))
        return expr

    def is_defined(self, symbol: str) -> bool:
        """Say whether a symbol of the graph has a definition here."""
        return symbol in self.renamed or symbol in self.visible

    def are_defined(self, expr: Any) -> bool:
        """Say whether all symbols of a sympy expression have a definition here."""
        return all(self.is_defined(symbol.name) for symbol in expr.free_symbols)

    def _rename(self, expr: wir.Symbol | wir.Operation) -> wir.Expr:
        return wir.substitute(expr, self.renamed) if self.renamed else expr

    def _check_symbols(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.visible:
                raise Code.UNSUPPORTED_VALUE.error(
                    f"no size tells the symbol {name}",
                    hint="give some dimension of an input just this size",
                )
