"""The loop level: loop nests over buffers, as typed frozen data.

A nest runs its body for each point of its parallel axes.  The body is a sequence of
instructions and inner loops; an inner loop runs its own instructions for each point of its
axes, and what it reduces is defined after it::

    nest i0 < 64:
        for r0 < 256:
            v0 = load x[i0, r0] : f32
            v1 = reduce sum v0
        v2 = literal 256.0 : f32
        v3 = div v1 v2 : f32
        store mean[i0] = v3

Values are in static single assignment form: a name is defined once in a nest, before it is
used.  A value of an inner loop's body is not visible outside the loop, unless a reduction
returns it.  Points of the parallel axes may run in any order and at once, so that no point
reads what another writes.

The ``origins`` of an instruction are the nodes that it is computed for; those of loads and
stores are also the views that they go through.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias, Union

from attrs import field, frozen

from wrapperir.ir import DType, Expr, NodeOrigin, TensorType
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp


@frozen
class Axis:
    """A loop variable, which counts from 0 to ``extent - 1``.

    The extent is an expression over the program's size symbols.  Indices use the name as
    a symbol.  Inner loops may use one name if they have the same extent.
    """

    name: str
    extent: Expr


@frozen(kw_only=True)
class Literal:
    """Define a constant."""

    result: str
    dtype: DType
    value: int | float | bool
    origins: tuple[NodeOrigin, ...] = field(default=(), eq=False)


@frozen(kw_only=True)
class IndexValue:
    """Define the value of an index expression, as a whole number or ``f32``/``f64``."""

    result: str
    dtype: DType
    expr: Expr
    origins: tuple[NodeOrigin, ...] = field(default=(), eq=False)


@frozen(kw_only=True)
class Load:
    """Read an element of a buffer.

    ``index`` has one expression for each dimension of the buffer, over axes, size symbols
    and the names of whole-number values (indirect indices).  Where ``mask``, the name of a
    bool, is false, nothing is read and the value is ``other``.
    """

    result: str
    dtype: DType
    buffer: str
    index: tuple[Expr, ...]
    mask: str | None = None
    other: int | float | bool = 0
    origins: tuple[NodeOrigin, ...] = field(default=(), eq=False)


@frozen(kw_only=True)
class Apply:
    """Define the result of an operator on elements."""

    result: str
    dtype: DType
    op: ScalarOp
    operands: tuple[str, ...]
    origins: tuple[NodeOrigin, ...] = field(default=(), eq=False)


class StoreMode(StrEnum):
    """The way a store changes memory.

    ``ADD``, ``MUL``, ``MIN`` and ``MAX`` combine with the element there, atomically:
    several points may write the same element.  With ``OVERWRITE`` no two points write the
    same element, except where eager does not define the result.
    """

    OVERWRITE = "overwrite"
    ADD = "add"
    MUL = "mul"
    MIN = "min"
    MAX = "max"


@frozen(kw_only=True)
class Store:
    """Write a value to an element of a buffer, unless ``mask`` is false."""

    buffer: str
    index: tuple[Expr, ...]
    value: str
    mask: str | None = None
    mode: StoreMode = StoreMode.OVERWRITE
    origins: tuple[NodeOrigin, ...] = field(default=(), eq=False)


@frozen(kw_only=True)
class Reduce:
    """Reduce values over all axes of the inner loop; the results are defined after it.

    ``dtype`` is that of the values.  See :class:`ReduceOp` for results and their dtypes.
    """

    results: tuple[str, ...]
    dtype: DType
    op: ReduceOp
    operands: tuple[str, ...]
    origins: tuple[NodeOrigin, ...] = field(default=(), eq=False)


@frozen(kw_only=True)
class Scan:
    """Define the inclusive scan of values along the last axis of the inner loop.

    ``op`` is ``SUM``, ``PROD``, ``MIN``, ``MAX``, ``ARGMIN`` or ``ARGMAX``; the last two
    return the extreme value so far, and its position.
    """

    results: tuple[str, ...]
    dtype: DType
    op: ReduceOp
    operands: tuple[str, ...]
    origins: tuple[NodeOrigin, ...] = field(default=(), eq=False)


@frozen(kw_only=True)
class Check:
    """Raise an error with ``message`` if ``condition``, a bool, is false.

    Where ``mask`` is false, nothing is checked.
    """

    condition: str
    message: str
    mask: str | None = None
    origins: tuple[NodeOrigin, ...] = field(default=(), eq=False)


Instruction: TypeAlias = Union[Literal, IndexValue, Load, Apply, Store, Reduce, Scan, Check]


@frozen(kw_only=True)
class InnerLoop:
    """Run instructions for each point of ``axes``; only here are reductions and scans."""

    axes: tuple[Axis, ...]
    body: tuple[Instruction, ...]


Step: TypeAlias = Union[Instruction, InnerLoop]


@frozen(kw_only=True)
class Nest:
    """Loops that become one kernel: parallel axes, outermost first, around a body.

    ``name`` is unique in its graph.  ``origins`` has one entry for each node of the
    ATen graph that the nest computes, and ``stored`` those of what is stored to a buffer,
    where that is less.
    """

    name: str
    axes: tuple[Axis, ...]
    body: tuple[Step, ...]
    origins: tuple[NodeOrigin, ...] = ()
    stored: Mapping[str, tuple[NodeOrigin, ...]] = field(
        factory=dict[str, tuple[NodeOrigin, ...]], eq=False
    )


@frozen(kw_only=True)
class BufferView:
    """A strided view of a buffer, as an operator or a caller gets it."""

    buffer: str
    type: TensorType


@frozen(kw_only=True)
class ExternCall:
    """A call of an operator that has no loops here.

    ``name`` is the node of the ATen graph.  ``arguments`` are the tensors that it is
    given, by the name of the node that each is the value of.  ``writes`` are the buffers
    that it defines or overwrites.  ``symbols`` are the size symbols that it needs,
    ``defines`` those that it defines.  ``origins`` is the node of the graph that was given:
    that of a decomposition may have another name.
    """

    name: str
    arguments: tuple[tuple[str, BufferView], ...] = ()
    writes: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    origins: tuple[NodeOrigin, ...] = ()


Item: TypeAlias = Union[Nest, ExternCall]


@frozen(kw_only=True)
class LoopGraph:
    """Loop nests and operator calls, in the order they run, over named buffers.

    ``buffers`` has the type of each buffer; the index of a load or store has an expression
    for each dimension of it.  Buffers in ``inputs`` have their contents when the graph
    starts: inputs and constants.  The others are written by items before they are read.
    ``outputs`` are what is kept when the graph ends: the value of each output node, and
    inputs that are written.
    """

    buffers: Mapping[str, TensorType]
    inputs: tuple[str, ...]
    items: tuple[Item, ...]
    outputs: tuple[tuple[str, BufferView], ...] = field(default=())
