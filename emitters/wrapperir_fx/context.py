"""The context of functions that append nodes: one graph, and its program."""

from collections.abc import Callable, Sequence

from attrs import Factory, define, field
from torch.fx.node import Argument

from wrapperir.diagnostics import Diagnostic, LinePath
from wrapperir.emit import NameTable
from wrapperir.emit.context import Emission, ProgramFacts
from wrapperir.fx import Attributes
from wrapperir.ir import BodyLine, TensorType, ValueType
from wrapperir_fx.arguments import Arguments
from wrapperir_fx.block_facts import BlockNeeds
from wrapperir_fx.callees import Callees
from wrapperir_fx.fake_values import FakeValues
from wrapperir_fx.nodes import GraphNodes, Number
from wrapperir_fx.number_nodes import NumberNodes
from wrapperir_fx.pool_dtypes import PoolDtypes
from wrapperir_fx.streams import GpuStreams, Streams
from wrapperir_fx.values import Value


@define(eq=False)
class ProgramContext:
    """What all graphs of one program share.

    ``emit_lines`` appends lines to a graph; its path is the place of their tuple.
    """

    facts: ProgramFacts
    streams: GpuStreams
    emit_lines: Callable[["GraphContext", Sequence[BodyLine], LinePath], None]
    fakes: FakeValues = field(
        default=Factory(lambda self: FakeValues(self.facts), takes_self=True)
    )
    needs: BlockNeeds = field(
        default=Factory(lambda self: BlockNeeds(self.facts), takes_self=True)
    )
    callees: Callees = field(
        default=Factory(lambda self: Callees(self.facts.definitions), takes_self=True)
    )
    problems: list[Diagnostic] = field(factory=list[Diagnostic])
    identifiers: NameTable = field(factory=lambda: NameTable(()))


class GraphContext(Emission):
    """One graph that nodes are appended to, of a program or of a nested block.

    ``values`` maps each name of the program to its node, ``attributes`` holds what the
    graph's module must have.
    """

    def __init__(self, context: ProgramContext) -> None:
        """Start with an empty graph."""
        super().__init__(context.facts, context.problems)
        self.context = context
        self.fakes = context.fakes
        self.nodes = GraphNodes()
        self.values: dict[str, Value] = {}
        self.layouts: dict[TensorType, tuple[Argument, Argument]] = {}
        self.pools = PoolDtypes(())
        self.attributes = Attributes()
        self.numbers = NumberNodes(self.nodes, self.fakes, self.facts.kinds)
        self.arguments = Arguments(self.values, self.numbers, self.report)
        self.streams = Streams(
            self.nodes, self.values, self.facts, context.streams, self.report
        )

    def give(self, name: str, type: ValueType, target: Number) -> None:
        """Bind ``name`` to a node that is an input or an operator's result."""
        assert not isinstance(target, int | float)
        self.values[name] = Value(target, type, frozenset((name,)))
