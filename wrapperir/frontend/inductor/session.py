"""What one compilation shares between a graph and its subgraphs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from attrs import define, field, frozen

from wrapperir.frontend.inductor import build
from wrapperir.frontend.inductor.module import CapturedModule
from wrapperir.frontend.inductor.multi_kernels import MultiKernels
from wrapperir.frontend.lowered import Lowered
from wrapperir.frontend.provenance import Facts
from wrapperir.ir.kernel import Access
from wrapperir.ir.line import DefinitionLine

if TYPE_CHECKING:
    from torch._inductor.graph import GraphLowering

    from wrapperir.emit.contract import Loaded
    from wrapperir.frontend.inductor.wrapper import CaptureWrapper


@frozen
class Subgraph:
    """A subgraph that Inductor has generated: its lines, and the graph they are of."""

    lines: list[Any]
    graph: "GraphLowering"


@define
class Session:
    """One graph with its subgraphs, from Inductor's lines to a callable.

    ``compile`` turns the program into what Inductor then calls.
    """

    compile: "Callable[[Lowered], Loaded]"
    alignment_asserts: bool
    definitions: dict[str, DefinitionLine] = field(factory=dict[str, DefinitionLine])
    subgraphs: dict[str, Subgraph] = field(factory=dict[str, Subgraph])
    used: dict[str, int] = field(factory=dict[str, int])
    """How often each subgraph has become a block."""
    constants: dict[str, torch.Tensor] = field(factory=dict[str, torch.Tensor])
    mutated: set[str] = field(factory=set[str])
    """Constants that a nested block writes."""
    accesses: dict[tuple[str, int], Access] = field(factory=dict[tuple[str, int], Access])
    """What calls show of kernels: by kernel and position of the runtime parameter."""
    user_kernels: dict[str, frozenset[str]] = field(factory=dict[str, frozenset[str]])
    """The user's own Triton kernels, and the parameters that each writes."""
    multi_kernels: MultiKernels = field(factory=MultiKernels)
    """The multi-kernels of the graph and its subgraphs."""
    facts: Facts = field(factory=Facts)
    temporaries: int = 0

    def temporary(self, prefix: str) -> str:
        """Return a name that no line of Inductor's has."""
        self.temporaries += 1
        return f"{prefix}{self.temporaries - 1}"

    def finish(self, wrapper: "CaptureWrapper") -> CapturedModule:
        """Build the program of the outermost graph and compile it."""
        lowered = build.build_program(wrapper)
        return CapturedModule(lowered.program, self.compile(lowered))
