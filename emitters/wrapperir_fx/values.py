"""What a name of a program stands for in a graph."""

from attrs import define
from torch.fx import Node

from wrapperir.ir.expr import Expr, add, maximum, mul
from wrapperir.ir.types import DType, PoolType, TensorType, ValueType, storage_extent


@define(eq=False)
class Storage:
    """Memory that several values may view.

    ``roots`` are the names of the values it may have begun as; two storages without a
    common root share no byte.  ``type`` is that of what fills it.
    """

    roots: frozenset[str]
    type: ValueType

    @property
    def bytes(self) -> Expr:
        """The bytes from where types' offsets count; none of what is no memory."""
        if isinstance(self.type, TensorType):
            return mul(extent_of(self.type), self.type.dtype.itemsize)
        return self.type.size if isinstance(self.type, PoolType) else 0


@define(eq=False)
class Value:
    """A node and its type; ``storage`` is that of a tensor or pool.

    ``origin`` is what PyTorch's storage offset is more than the type's, in elements (of a
    pool: in bytes); ``None`` where only the run knows, as for an input, which may begin
    anywhere in the caller's memory.  There, ``offset`` is the node of PyTorch's storage
    offset, once it was needed.
    """

    node: Node
    type: ValueType
    storage: Storage | None = None
    origin: Expr | None = None
    offset: Node | None = None

    @property
    def tensor_type(self) -> TensorType:
        """The type of what a verified program says is a tensor; of a pool, its bytes'."""
        if isinstance(self.type, PoolType):
            return bytes_of(self.type)
        assert isinstance(self.type, TensorType)
        return self.type

    @property
    def tensor_storage(self) -> Storage:
        """The storage, which tensors and pools have."""
        assert self.storage is not None
        return self.storage


def extent_of(type: TensorType) -> Expr:
    """Return the elements of a tensor's storage, also where symbols make a size zero."""
    extent = storage_extent(type)
    if not isinstance(extent, int) and type.stride != (1,):
        extent = maximum(extent, 0)
    return add(type.offset, extent)


def bytes_of(pool: PoolType) -> TensorType:
    """Return the type of the tensor that a pool is."""
    return TensorType(
        dtype=DType.U8,
        size=(pool.size,),
        stride=(1,),
        device=pool.device,
        space=pool.space,
        pinned=pool.pinned,
        alignment=pool.alignment,
    )
