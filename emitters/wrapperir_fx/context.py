"""The context of functions that append nodes: one graph, its values, and its program."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from attrs import Factory, define, field, frozen
from torch.fx import Node
from torch.fx.node import Argument

from wrapperir.diagnostics import Diagnostic, LinePath
from wrapperir.emit import NameTable
from wrapperir.emit.context import Emission, ProgramFacts
from wrapperir.emit.stream_actions import StreamPlanner, StreamUses
from wrapperir.fx import Attributes
from wrapperir.ir import (
    BodyLine,
    Device,
    DType,
    Expr,
    PoolType,
    RuntimeParameter,
    TensorType,
    ValueType,
    pool_bytes,
)
from wrapperir_fx.block_facts import BlockNeeds
from wrapperir_fx.fake_values import FakeValues
from wrapperir_fx.nodes import GraphNodes
from wrapperir_fx.number_nodes import NumberNodes


@define(eq=False)
class Root:
    """The node that all views of a storage are made from, and its type.

    ``origin`` is the difference between PyTorch's storage offset and that of the type;
    ``None`` where it is known at run time only, as for an input, which may begin anywhere
    in the caller's memory.  ``offsets`` then has nodes for PyTorch's storage offsets.
    ``rows`` is the memory as a flat list, ``retyped`` as elements of other types.
    """

    node: Node
    type: TensorType
    origin: Expr | None = None
    # Plain ``dict``: to call ``dict[...]`` takes many times as long.
    offsets: dict[Expr, Node] = field(factory=dict)
    rows: Node | None = None
    retyped: "dict[DType, Root]" = field(factory=dict)


@define(eq=False)
class GraphValue:
    """A node and its type.

    ``roots`` are the names of the values that its memory may have begun as: two values
    without a common root share no byte.  ``root`` is the root of its views, once it has
    any; ``begin`` is the byte offset of the value from that root.
    """

    node: Node
    type: ValueType
    roots: frozenset[str] = frozenset()
    root: Root | None = None
    begin: Expr = 0

    @property
    def tensor_type(self) -> TensorType:
        """The type of a tensor, or of the bytes of a pool."""
        if isinstance(self.type, PoolType):
            return pool_bytes(self.type)
        assert isinstance(self.type, TensorType)
        return self.type


@frozen
class CallTarget:
    """The key and the runtime parameters of a kernel or multi-kernel that is called.

    ``index`` is its place among the program's definitions.  ``writes_all`` says that it
    only reads no tensor.
    """

    index: int
    key: str
    parameters: tuple[RuntimeParameter, ...]
    writes_all: bool


@define(eq=False)
class ProgramContext:
    """The state that all graphs of one program share.

    ``stream_uses`` are the uses of side streams of GPUs.  ``current_gpu`` is the index of
    the GPU that is current during the call; ``None`` where any may be.  ``targets`` are
    the kernels and multi-kernels called so far.
    """

    facts: ProgramFacts
    stream_uses: StreamUses
    current_gpu: int | None
    fakes: FakeValues = field(
        default=Factory(lambda self: FakeValues(self.facts), takes_self=True)
    )
    needs: BlockNeeds = field(
        default=Factory(lambda self: BlockNeeds(self.facts), takes_self=True)
    )
    targets: dict[str, CallTarget] = field(factory=dict[str, CallTarget])
    problems: list[Diagnostic] = field(factory=list[Diagnostic])
    identifiers: NameTable = field(factory=lambda: NameTable(()))


class GraphContext(Emission, ABC):
    """One graph that nodes are appended to, of a program or of a nested block.

    ``values`` maps each name of the program to its node, ``attributes`` holds what the
    graph's module must have.  ``streams`` plans for side streams, which nested graphs do
    not have; ``stream_nodes`` are the streams that have a node.
    """

    def __init__(self, context: ProgramContext) -> None:
        """Start with an empty graph."""
        super().__init__(context.facts, context.problems)
        self.context = context
        self.fakes = context.fakes
        self.nodes = GraphNodes(self.facts.origins)
        self.values: dict[str, GraphValue] = {}
        self.layouts: dict[TensorType, tuple[Argument, Argument]] = {}
        self.attributes = Attributes()
        self.numbers = NumberNodes(self.nodes, self.fakes, self.facts.kinds)
        self.streams = StreamPlanner(self.facts, StreamUses())
        self.stream_nodes: dict[tuple[Device, int], Node] = {}

    @abstractmethod
    def emit_lines(self, lines: Sequence[BodyLine], path: LinePath) -> None:
        """Append lines; ``path`` is the place of their tuple."""

    def give(self, name: str, type: ValueType, node: Node) -> None:
        """Bind ``name`` to a node that is an input or an operator's result."""
        self.values[name] = GraphValue(node, type, frozenset((name,)))
