"""The context of functions that append nodes: one graph, and its program."""

from collections.abc import Callable, Sequence

from attrs import Factory, define, field
from torch.fx.node import Argument

from wrapperir.diagnostics import Code, Diagnostic, LinePath
from wrapperir.emit.names import NameTable
from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.fx.attributes import Attributes
from wrapperir.ir.line import BodyLine
from wrapperir.ir.program import Program
from wrapperir.ir.types import TensorType, ValueType
from wrapperir_fx.arguments import Arguments
from wrapperir_fx.block_needs import BlockNeeds
from wrapperir_fx.callees import Callees
from wrapperir_fx.fake_values import FakeValues
from wrapperir_fx.nodes import GraphNodes, Number
from wrapperir_fx.number_nodes import NumberNodes
from wrapperir_fx.pool_dtypes import PoolDtypes
from wrapperir_fx.streams import Streams, StreamSurvey
from wrapperir_fx.values import Value


@define(eq=False)
class ProgramContext:
    """What all graphs of one program share.

    ``emit_lines`` appends lines to a graph; their tuple's place in the program is the path.
    """

    program: Program
    streams: StreamSurvey
    emit_lines: Callable[["GraphContext", Sequence[BodyLine], LinePath], None]
    fakes: FakeValues = field(
        default=Factory(lambda self: FakeValues(self.program), takes_self=True)
    )
    needs: BlockNeeds = field(
        default=Factory(lambda self: BlockNeeds(self.program), takes_self=True)
    )
    callees: Callees = field(
        default=Factory(lambda self: Callees(self.program), takes_self=True)
    )
    kinds: NumberKinds = field(factory=NumberKinds)
    problems: list[Diagnostic] = field(factory=list[Diagnostic])
    identifiers: NameTable = field(factory=lambda: NameTable(()))


class GraphContext:
    """One graph that nodes are appended to, of a program or of a nested block.

    ``values`` maps each name of the program to its node, ``attributes`` holds what the
    graph's module must have, and ``path`` is the place of the line being emitted.
    """

    def __init__(self, context: ProgramContext) -> None:
        """Start with an empty graph."""
        self.context = context
        self.fakes = context.fakes
        self.kinds = context.kinds
        self.path: LinePath = ()
        self.nodes = GraphNodes()
        self.values: dict[str, Value] = {}
        self.layouts: dict[TensorType, tuple[Argument, Argument]] = {}
        self.pools = PoolDtypes(())
        self.attributes = Attributes()
        self.numbers = NumberNodes(self.nodes, self.fakes, self.kinds)
        self.arguments = Arguments(self.values, self.numbers, self.report)
        self.streams = Streams(
            self.nodes, self.values, context.program, context.streams, self.report
        )

    def report(self, message: str, subject: str | None = None) -> None:
        """Record that the current line needs something that this emitter lacks."""
        self.context.problems.append(
            Diagnostic(
                code=Code.UNSUPPORTED_FEATURE,
                message=message,
                path=self.path,
                subject=subject,
            )
        )

    def give(self, name: str, type: ValueType, target: Number) -> None:
        """Bind ``name`` to a node that is an input or an operator's result."""
        assert not isinstance(target, int | float)
        self.values[name] = Value(target, type, frozenset((name,)))
