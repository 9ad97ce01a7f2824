"""What one compilation shares between a graph and its subgraphs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import define, field

from wrapperir.frontend.inductor import build
from wrapperir.frontend.inductor.module import CapturedModule
from wrapperir.frontend.inductor.provenance import Facts
from wrapperir.frontend.lowered import Lowered
from wrapperir.ir.line import Block, DefinitionLine

if TYPE_CHECKING:
    import torch

    from wrapperir.emit.contract import Loaded
    from wrapperir.frontend.inductor.wrapper import CaptureWrapper


@define
class LoweredBlock:
    """A nested block and what its caller must know of it.

    ``written`` are the positions of the parameters that it writes.
    """

    block: Block
    written: frozenset[int]
    times_used: int = 0


@define
class Session:
    """One graph with its subgraphs, from Inductor's lines to a callable.

    ``compile`` turns the program into what Inductor then calls.
    """

    compile: "Callable[[Lowered], Loaded]"
    alignment_asserts: bool
    definitions: dict[str, DefinitionLine] = field(factory=dict)
    blocks: dict[str, LoweredBlock] = field(factory=dict)
    constants: "dict[str, torch.Tensor]" = field(factory=dict)
    read_write: set[tuple[str, int]] = field(factory=set)
    """Kernel parameters that only a call shows to be written in part."""
    facts: Facts = field(factory=dict)
    temporaries: int = 0

    def temporary(self, prefix: str) -> str:
        """Return a name that no line of Inductor's has."""
        self.temporaries += 1
        return f"{prefix}{self.temporaries - 1}"

    def finish(self, wrapper: "CaptureWrapper") -> CapturedModule:
        """Build the program of the outermost graph and compile it."""
        lowered = build.build_program(wrapper)
        return CapturedModule(lowered.program, self.compile(lowered))
