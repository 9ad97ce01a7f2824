"""What a name of a program stands for in a graph."""

# The factory is plain ``dict``: to call ``dict[...]`` takes many times as long.
# pyright: reportUnknownVariableType=false

from attrs import define, field
from torch.fx import Node

from wrapperir.ir.expr import Expr
from wrapperir.ir.types import DType, PoolType, TensorType, ValueType
from wrapperir_fx.layouts import bytes_of


@define(eq=False)
class Root:
    """A node of which all views of its memory are made; ``type`` is what it looks like.

    ``origin`` is what PyTorch's storage offset is more than the type's; ``None`` where only
    the run knows, as for an input, which may begin anywhere in the caller's memory.  There,
    ``offsets`` has the nodes of PyTorch's offsets of places that count from the storage's
    start.  ``rows`` is the same memory as a list, ``retyped`` as elements of other types.
    """

    node: Node
    type: TensorType
    origin: Expr | None = None
    offsets: dict[Expr, Node] = field(factory=dict)
    rows: Node | None = None
    retyped: "dict[DType, Root]" = field(factory=dict)


@define(eq=False)
class Value:
    """A node and its type.

    ``roots`` are the names of the values that its memory may have begun as: two values
    without a common one share no byte.  ``root`` is what the node is a view of, once it
    is known that there are views: where its type's offset counts is ``begin`` bytes after
    where that of the root's counts.
    """

    node: Node
    type: ValueType
    roots: frozenset[str] = frozenset()
    root: Root | None = None
    begin: Expr = 0

    @property
    def tensor_type(self) -> TensorType:
        """The type of what a verified program says is a tensor; of a pool, its bytes'."""
        if isinstance(self.type, PoolType):
            return bytes_of(self.type)
        assert isinstance(self.type, TensorType)
        return self.type
