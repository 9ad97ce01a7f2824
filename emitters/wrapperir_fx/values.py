"""The values of a graph: nodes, their types and the roots of their memory."""

# The factory is plain ``dict``: to call ``dict[...]`` takes many times as long.
# pyright: reportUnknownVariableType=false

from attrs import define, field
from torch.fx import Node

from wrapperir.ir import DType, Expr, PoolType, TensorType, ValueType, pool_bytes


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
    offsets: dict[Expr, Node] = field(factory=dict)
    rows: Node | None = None
    retyped: "dict[DType, Root]" = field(factory=dict)


@define(eq=False)
class Value:
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
