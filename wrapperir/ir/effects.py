"""The effects of a line as data: definitions, byte accesses, streams, nested blocks.

:class:`~wrapperir.ir.line_effects.LineEffects` finds the :class:`Effects` of each line.
"""

from enum import StrEnum

from attrs import define

from wrapperir.ir.arguments import KernelArgument
from wrapperir.ir.expr import Expr
from wrapperir.ir.kernel import ZeroMode
from wrapperir.ir.line import Block
from wrapperir.ir.types import Device, Stream, ValueType


class Origin(StrEnum):
    """Where the memory of a value that a line defines comes from."""

    ALLOCATED = "allocated"
    """New memory."""
    PROGRAM = "program"
    """New memory that the program keeps between calls: a ``zero_per_program`` workspace."""
    POOL = "pool"
    """New raw memory."""
    PLACED = "placed"
    """A part of the pool that is the ``source``."""
    OPERATOR = "operator"
    """New memory, or the memory of a value in ``may_alias``."""
    BLOCK = "block"
    """Memory that a nested block returned; results of one line may share it."""
    VIEW = "view"
    """The storage of the ``source``."""
    MOVED = "moved"
    """The storage of the ``source``, whose name the line drops."""
    ELEMENT = "element"
    """The storage of the element at ``indices`` of the tuple that is the ``source``."""
    NONE = "none"
    """No memory: an event."""


@define
class ValueDefinition:
    """A value that a line defines.

    ``offset`` is the byte offset of a placed value in its pool, ``workspace`` the zero mode
    of a workspace.
    """

    name: str
    type: ValueType
    origin: Origin
    source: str | None = None
    may_alias: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()
    offset: Expr = 0
    workspace: ZeroMode | None = None


class Actor(StrEnum):
    """The actor of an access that is not on a stream of the line."""

    HOST = "host"
    """The host, which waits for all streams."""
    STREAM_0 = "stream 0"
    """Stream 0 of the device that the bytes are on."""


@define
class ByteAccess:
    """An access to the bytes of a value.

    A write that ``covers`` the value certainly writes each byte that the value's type
    addresses.  Another write may leave some of these bytes as they were.
    """

    name: str
    reads: bool
    writes: bool
    by: Stream | Actor
    covers: bool = False


@define
class NestedBlock:
    """A block of a line: the field that holds it, and the operands of its parameters.

    ``returns`` says that its results are, or may be, the line's results.  A block that
    ``repeats`` runs any number of times: without an iteration, the line's results are
    copies of its operands; during one, the results of the previous iteration are alive.
    ``host_reads_result`` says that the host reads its result from a tensor, so that it
    waits for all streams when the block has run.
    """

    field: str
    block: Block
    operands: tuple[KernelArgument, ...]
    returns: bool = True
    repeats: bool = False
    host_reads_result: bool = False


@define(kw_only=True, eq=False)
class Effects:
    """The effects of a line in its own block; lines of nested blocks have their own.

    Attributes:
        uses: Names that must be alive, repeats included.  Constants are among them.
        definitions: Values that the line defines.
        drops: The name that the line drops.
        accesses: Bytes that it reads and writes: one access an argument of a kernel, one
            a name for others.  Nested blocks may read and write their operands.
        blocks: Nested blocks.
        device: The device that it allocates on or gives work to.
        stream: The stream that it gives work to, or orders.
        launches: Whether it gives ``stream`` work.
        records: The event that it defines: all work given to ``stream`` before it.
        awaits: The event that later work on ``stream`` comes after.
        starts: The handle of the collective that it starts, which may still access what
            the line accesses until a line ``completes`` it.
        completes: The handle of the collective that it waits for.
        host_waits: Whether the host waits for all streams before the line has run.
        reads_address: Whether the host looks at the address of memory.
        symbol: The symbol that it defines.
        may_fail: Whether it checks something or calls something that may fail.  Any line
            fails where an expression has no value or no memory is left.
    """

    uses: tuple[str, ...] = ()
    definitions: tuple[ValueDefinition, ...] = ()
    drops: str | None = None
    accesses: tuple[ByteAccess, ...] = ()
    blocks: tuple[NestedBlock, ...] = ()
    device: Device | None = None
    stream: Stream | None = None
    launches: bool = False
    records: str | None = None
    awaits: str | None = None
    starts: str | None = None
    completes: str | None = None
    host_waits: bool = False
    reads_address: bool = False
    symbol: str | None = None
    may_fail: bool = False

    @property
    def leaves_types_open(self) -> bool:
        """Whether the next lines may still define symbols of an earlier result's type.

        Lines that allocate, launch, order streams, run blocks or check anything else than
        a symbol need all types to be known.
        """
        is_check = self.may_fail and self.symbol is None
        return not (self.blocks or is_check or self.device is not None)
