"""State of one compilation, shared by a graph and its subgraphs."""

import os
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from attrs import define, field
from torch._inductor import config
from torch._inductor.codegen.common import FileBackedGraphModule
from torch._inductor.virtualized import V

from wrapperir.frontend import Lowered
from wrapperir.frontend.donation import keep_apart, retaining
from wrapperir.frontend.inductor import build
from wrapperir.frontend.inductor.multi_kernels import MultiKernels
from wrapperir.frontend.inductor.program_cache import keep_program
from wrapperir.frontend.inductor.user_streams import UserStreams
from wrapperir.frontend.named_program import ProgramNames, name_program
from wrapperir.frontend.output_code import ShownCode, show_output_code
from wrapperir.frontend.passed_objects import PassedObjects
from wrapperir.frontend.provenance import TracedOrigins
from wrapperir.ir import (
    Access,
    DefinitionLine,
    KernelCopy,
    KernelDefinitionLine,
    Program,
    Provenance,
)

if TYPE_CHECKING:
    from torch._inductor.graph import GraphLowering

    from wrapperir.emit import Loaded, OutputCode, Value
    from wrapperir.frontend.inductor.wrapper import CaptureWrapper


class CapturedModule(FileBackedGraphModule):
    """Replacement of the Python module that Inductor generates: ``call`` and a file.

    Inductor accepts only its own classes here, hence the unused base class.
    """

    def __init__(self, program: Program, loaded: "Loaded", shown: ShownCode | None) -> None:
        """Hold the callable that Inductor's compiled graph will call, and its code."""
        self.program = program
        self._loaded = loaded
        self._shown = shown
        self._file: str | None = None

    @property
    def __file__(self) -> str:
        """Path of the emitted code, or of a text that is written if Inductor copies it."""
        if self._shown is not None and self._shown.path is not None:
            return str(self._shown.path)
        if not config.trace.enabled:
            return f"<wrapperir program {self.program.name}>"
        if self._file is None:
            handle, self._file = tempfile.mkstemp(prefix="wrapperir-", suffix=".wir")
            with os.fdopen(handle, "w") as file:
                file.write(self.value)
        return self._file

    @property
    def value(self) -> str:
        """The emitted code; without, the program's text."""
        if self._shown is not None:
            return self._shown.text
        from wrapperir.text import format_program

        return format_program(self.program)

    def call(self, args: "list[Value]") -> Any:
        """Run the program; ``args`` is emptied."""
        return self._loaded(args)


@define
class Session:
    """One graph with its subgraphs, from Inductor's lines to a callable.

    ``compile`` turns the program into the callable that Inductor uses, and shows the code.
    """

    compile: "Callable[[Lowered, Callable[[OutputCode], None]], Loaded]"
    alignment_asserts: bool
    names: ProgramNames = field(factory=ProgramNames)
    """The user's names."""
    is_kept: bool = False
    """Whether PyTorch may keep what it compiles of the graph."""
    donated: frozenset[int] | None = None
    """Positions of the inputs that a backward is given for good; ``None`` in a forward."""
    definitions: dict[str, DefinitionLine] = field(factory=dict[str, DefinitionLine])
    bodies: dict[str, str] = field(factory=dict[str, str])
    """The text of each definition that Inductor has written."""
    early: dict[str, KernelDefinitionLine] = field(factory=dict[str, KernelDefinitionLine])
    """Triton kernels that were lowered at their first call, while Inductor goes on."""
    subgraphs: "dict[str, tuple[list[Any], GraphLowering]]" = field(factory=dict[str, Any])
    """Lines of each subgraph that Inductor has generated, and their graph."""
    used: dict[str, int] = field(factory=dict[str, int])
    """Number of blocks made from each subgraph."""
    constants: dict[str, torch.Tensor] = field(factory=dict[str, torch.Tensor])
    mutated: set[str] = field(factory=set[str])
    """Constants that a nested block writes."""
    accesses: dict[tuple[str, int], Access] = field(factory=dict[tuple[str, int], Access])
    """Access modes that calls show, by kernel and position of the runtime parameter."""
    copies: dict[str, tuple[KernelCopy, ...]] = field(
        factory=dict[str, tuple[KernelCopy, ...]]
    )
    """The copies that each kernel makes, by its name."""
    user_kernels: dict[str, frozenset[str]] = field(factory=dict[str, frozenset[str]])
    """The user's own Triton kernels, and the parameters that each writes."""
    multi_kernels: MultiKernels = field(factory=MultiKernels)
    """The multi-kernels of the graph and its subgraphs."""
    origins: TracedOrigins = field(factory=TracedOrigins)
    computed: dict[int, list[Any]] = field(factory=dict[int, list[Any]])
    """The Inductor nodes that each kernel call computes, by the identity of its line."""
    memory_origins: dict[str, Provenance] = field(factory=dict[str, Provenance])
    """What separate loops of one kernel compute, by the buffers that they write."""
    streams: UserStreams | None = None
    """The streams that the user enters or names in the outermost graph."""
    passed: PassedObjects = field(factory=PassedObjects)
    """The objects that are not in the program."""
    code: "OutputCode | None" = None
    """The emitted code, once there is some."""
    shown: ShownCode | None = None
    """The emitted code as PyTorch's debugging tools were given it."""
    temporaries: int = 0
    built: bool = False
    """Whether the program was built, so that what fails is its compilation."""

    def temporary(self, prefix: str) -> str:
        """Return a new name, which no line of Inductor has."""
        self.temporaries += 1
        return f"{prefix}{self.temporaries - 1}"

    def finish(self, wrapper: "CaptureWrapper") -> CapturedModule:
        """Build the program of the outermost graph and compile it."""
        lowered = build.build_program(wrapper)
        program = name_program(lowered.program, self.names)
        lowered = Lowered(program, lowered.constants)
        not_donated = keep_apart(program) if self.donated is None else ()
        self.built = True
        loaded = self.compile(lowered, self._show)
        donated = [i for i, given in enumerate(program.inputs) if given.donated]
        if self.is_kept and self.code is not None:
            keep_program(
                V.graph,
                self.code,
                self.constants,
                donated=donated,
                not_donated=not_donated,
            )
        loaded = retaining(loaded, donated) if donated else loaded
        return CapturedModule(program, self.passed.around(loaded), self.shown)

    def _show(self, code: "OutputCode") -> None:
        self.code = code
        self.shown = show_output_code(code)
