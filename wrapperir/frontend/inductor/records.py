"""Lines that we add to Inductor's where it would write text for its target.

They hold what the text would have been made from.  Like Inductor's own lines they live
only until the program is built.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import sympy
from torch._inductor import ir
from torch._inductor.codegen.wrapper import WrapperLine

from wrapperir.ir import Expr


@dataclasses.dataclass
class NodeLine(WrapperLine):
    """An operation whose ``codegen`` writes text: an in-place copy, a scalar assert."""

    node: Any


@dataclasses.dataclass
class SizeStrideLine(WrapperLine):
    """A check of a tensor's size and stride, given as expressions."""

    name: str
    size: Sequence[Any]
    stride: Sequence[Any]
    op_name: str


@dataclasses.dataclass
class AlignmentLine(WrapperLine):
    """A check of a tensor's alignment in bytes."""

    name: str
    bytes: int
    op_name: str


@dataclasses.dataclass
class NotNanLine(WrapperLine):
    """A check that a tensor holds no NaN and no infinity."""

    name: str


@dataclasses.dataclass
class SymbolLine(WrapperLine):
    """A symbol with the value of an expression."""

    symbol: sympy.Symbol
    expr: Expr


@dataclasses.dataclass
class BranchLine(WrapperLine):
    """A ``torch.cond``."""

    node: ir.Conditional


@dataclasses.dataclass
class LoopLine(WrapperLine):
    """A ``while_loop``."""

    node: ir.WhileLoop
    stack_output: bool


@dataclasses.dataclass
class InvokeLine(WrapperLine):
    """A call of a subgraph."""

    node: ir.InvokeSubgraph
