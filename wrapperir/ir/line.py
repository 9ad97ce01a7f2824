"""The line kinds of a program, one class a kind: plain frozen data.

A name in a line is the bare name; text writes it ``%name`` (values) or ``@name``
(kernels).  Each kind's text keyword, JSON kind and visitor method come from the class
name: ``KernelCallLine`` is ``kernel_call`` and ``visit_kernel_call``.

Ownership: every name holds a reference to its storage.  ``free`` drops the name; the
memory goes when the last name of it is dropped.  See ``docs/reference/semantics.md``.
"""

import re
from typing import TypeAlias, Union, get_args

from attrs import frozen

from wrapperir.ir.arguments import Argument, KernelArgument, SymbolKind, SymbolSource
from wrapperir.ir.collective import CollectiveLine, WaitCollectiveLine
from wrapperir.ir.definition import DefinitionLine, Line
from wrapperir.ir.expr import Expr
from wrapperir.ir.kernel import ZeroMode
from wrapperir.ir.types import CPU, Device, PoolType, TensorType, ValueType

__all__ = [
    "BODY_LINES",
    "DEFINITION_LINES",
    "KEYWORDS",
    "LINES",
    "RECORDINGS",
    "AllocateLine",
    "AllocatePoolLine",
    "AnyLine",
    "AssertAlignmentLine",
    "AssertLine",
    "AssertNotNanLine",
    "AssertScalarLine",
    "AssertSizeStrideLine",
    "Block",
    "BlockParameter",
    "BodyLine",
    "CollectiveLine",
    "CommentLine",
    "ConditionalLine",
    "ExternKernelLine",
    "FreeLine",
    "GraphRegionLine",
    "KernelCallLine",
    "MultiOutputLine",
    "PlaceLine",
    "RecordEventLine",
    "ReinterpretLine",
    "Result",
    "ReuseLine",
    "SubgraphCallLine",
    "SymbolDefinitionLine",
    "WaitCollectiveLine",
    "WaitEventLine",
    "WhileLoopLine",
    "keyword",
]


@frozen(kw_only=True)
class AllocateLine(Line):
    """Allocate a buffer; ``workspace`` gives a workspace its zero mode.

    A ``zero_per_program`` workspace is zeroed once, kept between calls and never freed.
    """

    result: str
    type: TensorType
    workspace: ZeroMode | None = None


@frozen(kw_only=True)
class AllocatePoolLine(Line):
    """Allocate raw memory that ``place`` lines put buffers in."""

    result: str
    type: PoolType


@frozen(kw_only=True)
class PlaceLine(Line):
    """Begin a buffer, or a smaller pool, at byte ``offset`` of ``pool``.

    Its memory is the pool's, and no other live placement may overlap it.  The bytes are
    not initialised, unless ``workspace`` is ``zero_on_call``.
    """

    result: str
    type: TensorType | PoolType
    pool: str
    offset: Expr
    workspace: ZeroMode | None = None


@frozen(kw_only=True)
class FreeLine(Line):
    """Drop a name; its memory goes with the last name of it."""

    buffer: str


@frozen(kw_only=True)
class ReuseLine(Line):
    """Give the memory of ``source`` a new name and type; ``source`` is dropped."""

    result: str
    source: str
    type: TensorType


@frozen(kw_only=True)
class ReinterpretLine(Line):
    """Name a view: the storage of ``source`` read with another size, stride, offset.

    The view's offset counts from the start of the storage, in elements of its dtype.
    """

    result: str
    source: str
    type: TensorType


@frozen(kw_only=True)
class KernelCallLine(Line):
    """Launch a kernel or multi-kernel; one argument a runtime parameter.

    The launch grid and constants are the definition's.
    """

    kernel: str
    arguments: tuple[KernelArgument, ...]
    device: Device = CPU
    stream: int = 0


@frozen(kw_only=True)
class ExternKernelLine(Line):
    """Call an operator by its registered name, such as ``aten.mm.out``.

    ``writes`` names the arguments it changes, its ``out`` among them; ``aliases`` the
    arguments that its result may share storage with.
    """

    result: str | None = None
    type: ValueType | None = None
    operator: str
    arguments: tuple[Argument, ...] = ()
    keywords: tuple[tuple[str, Argument], ...] = ()
    writes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    device: Device = CPU
    stream: int = 0


@frozen(kw_only=True)
class MultiOutputLine(Line):
    """Name one result of an operator that returns several; ``indices`` walk nesting."""

    result: str
    source: str
    indices: tuple[int, ...]
    type: ValueType


@frozen(kw_only=True)
class SymbolDefinitionLine(Line):
    """Define a symbol and the range its value must be in.

    ``lower`` and ``upper`` are inclusive; ``None`` is unbounded.
    """

    symbol: str
    kind: SymbolKind = SymbolKind.INT
    lower: int | None = None
    upper: int | None = None
    source: SymbolSource


@frozen(kw_only=True)
class RecordEventLine(Line):
    """Name the point that a stream's work has reached."""

    result: str
    device: Device = CPU
    stream: int = 0


@frozen(kw_only=True)
class WaitEventLine(Line):
    """Have later work on a stream wait until an event is reached."""

    event: str
    device: Device = CPU
    stream: int = 0


@frozen(kw_only=True)
class AssertSizeStrideLine(Line):
    """Check the size and stride of a tensor."""

    buffer: str
    size: tuple[Expr, ...]
    stride: tuple[Expr, ...]
    message: str = ""


@frozen(kw_only=True)
class AssertAlignmentLine(Line):
    """Check that the address of a tensor's first element is a multiple of ``bytes``."""

    buffer: str
    bytes: int
    message: str = ""


@frozen(kw_only=True)
class AssertScalarLine(Line):
    """Check that ``condition`` is not zero."""

    condition: Expr
    message: str = ""


@frozen(kw_only=True)
class AssertNotNanLine(Line):
    """Check that a tensor holds no NaN and no infinity."""

    buffer: str
    message: str = ""


@frozen
class Result:
    """A name that a line with nested blocks defines, and its type."""

    name: str
    type: ValueType


@frozen
class BlockParameter:
    """A name a block is given, and its type."""

    name: str
    type: ValueType


@frozen(kw_only=True)
class Block:
    """A nested list of lines, isolated: it sees its parameters, constants and symbols.

    Parameters are borrowed.  ``results`` go to the caller, which then owns them; a
    result must not be a parameter or a view of one.
    """

    parameters: tuple[BlockParameter, ...] = ()
    lines: tuple["BodyLine", ...] = ()
    results: tuple[Argument, ...] = ()


@frozen(kw_only=True)
class ConditionalLine(Line):
    """Run one of two blocks on the same operands.

    ``predicate`` is a one-element bool tensor, or a condition.
    """

    results: tuple[Result, ...]
    predicate: KernelArgument
    operands: tuple[KernelArgument, ...]
    on_true: Block
    on_false: Block


@frozen(kw_only=True)
class WhileLoopLine(Line):
    """Run ``body`` while ``condition`` holds.

    Both blocks take ``carried`` then ``invariant``.  ``condition`` returns a one-element
    bool tensor or an expression; ``body`` returns the next carried values.  The results
    are fresh: with no iteration they are copies of ``carried``.

    If it is ``stacked``, all carried values are tensors, and as many further results have
    one dimension more, the first: the values of all iterations, or of ``carried`` alone.
    """

    results: tuple[Result, ...]
    carried: tuple[KernelArgument, ...]
    invariant: tuple[KernelArgument, ...] = ()
    stacked: bool = False
    condition: Block
    body: Block


@frozen(kw_only=True)
class SubgraphCallLine(Line):
    """Run a named block on operands."""

    results: tuple[Result, ...]
    name: str
    operands: tuple[KernelArgument, ...]
    body: Block


RECORDINGS = 8
"""The recordings of a graph region that are kept if the region says nothing."""


@frozen(kw_only=True)
class GraphRegionLine(Line):
    """Run a named block whose work a device may record in one run and replay in later ones.

    All of its work is on ``device``, and counts as work of ``stream``.  A recording is for
    one combination of the numbers that the block depends on.  At most ``recordings`` are
    kept: the least recently used one goes.
    """

    results: tuple[Result, ...]
    name: str
    operands: tuple[KernelArgument, ...]
    device: Device = CPU
    stream: int = 0
    recordings: int = RECORDINGS
    body: Block


@frozen(kw_only=True)
class CommentLine(Line):
    """A comment for readers of the program and of emitted code."""

    text: str


AssertLine: TypeAlias = Union[
    AssertSizeStrideLine, AssertAlignmentLine, AssertScalarLine, AssertNotNanLine
]
BodyLine: TypeAlias = Union[
    AllocateLine,
    AllocatePoolLine,
    PlaceLine,
    FreeLine,
    ReuseLine,
    ReinterpretLine,
    KernelCallLine,
    ExternKernelLine,
    MultiOutputLine,
    RecordEventLine,
    WaitEventLine,
    CollectiveLine,
    WaitCollectiveLine,
    SymbolDefinitionLine,
    AssertLine,
    ConditionalLine,
    WhileLoopLine,
    SubgraphCallLine,
    GraphRegionLine,
    CommentLine,
]
AnyLine: TypeAlias = Union[DefinitionLine, BodyLine]

DEFINITION_LINES: tuple[type[DefinitionLine], ...] = get_args(DefinitionLine)
BODY_LINES: tuple[type[BodyLine], ...] = get_args(BodyLine)
LINES: tuple[type[AnyLine], ...] = (*DEFINITION_LINES, *BODY_LINES)


def _keyword_of(kind: type[Line]) -> str:
    words = re.findall(r"[A-Z][a-z0-9]*", kind.__name__.removesuffix("Line"))
    return "_".join(words).lower()


KEYWORDS: dict[type[Line], str] = {kind: _keyword_of(kind) for kind in LINES}
"""Each line kind's text keyword, JSON kind and visitor suffix."""


def keyword(line: Line | type[Line]) -> str:
    """Return the keyword of a line or line kind: ``KernelCallLine`` → ``kernel_call``."""
    return KEYWORDS[line if isinstance(line, type) else type(line)]
