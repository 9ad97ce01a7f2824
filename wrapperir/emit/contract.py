"""The contract of emitters: they declare their support and turn programs into files."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import field, frozen

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    LINES,
    CollectiveLine,
    KernelDefinitionLine,
    Language,
    Line,
    Program,
    WaitCollectiveLine,
    ZeroMode,
)

if TYPE_CHECKING:
    from pathlib import Path

    import torch

Value: TypeAlias = "torch.Tensor | int | float | bool | None"
"""An input or output of a loaded program."""

Loaded: TypeAlias = Callable[[list["Value"]], tuple["Value", ...]]
"""A loaded program: takes the inputs as a list, which it empties, and returns outputs.

Emptying the list lets the program release an input's memory where it frees it.
"""

DebugSource: TypeAlias = Literal["code", "program"]
"""What a debugger steps through: the emitted code, or the text of the program."""

GraphCompiler: TypeAlias = Callable[
    ["torch.fx.GraphModule"], Callable[..., Sequence["Value"]]
]
"""Compiles a program's graph: a function that takes the inputs one by one.

That function returns the outputs as a tuple or a list.
"""


@frozen
class Artifact:
    """Files, by relative path with ``/``, that stand alone; ``entry`` is the one to load.

    ``metadata`` is what the emitter's own ``load`` needs to know and the files do not
    say; keys are the emitter's own.  ``folder`` is the directory that people read the files
    in, if there is one: debuggers and tracebacks name its files.
    """

    emitter: str
    files: Mapping[str, str | bytes]
    entry: str
    metadata: Mapping[str, str] = field(factory=dict[str, str])
    folder: "Path | None" = field(default=None, eq=False)


@frozen(kw_only=True)
class OutputCode:
    """A program after its passes, its artifact, and the code that people read of that.

    ``suffix`` is the suffix of a file that holds ``text``, such as ``.py``.
    """

    program: Program
    artifact: Artifact
    text: str
    suffix: str


_WITHOUT_COLLECTIVES = frozenset(LINES) - {CollectiveLine, WaitCollectiveLine}


@frozen(kw_only=True)
class Support:
    """The programs that an emitter can express.

    ``lines`` are by default all kinds but collectives, which are operator calls then.
    ``devices`` of ``None`` is every device kind.  ``zero_modes`` are those of workspaces.
    ``streams`` are the device kinds on which it keeps the order of streams other than 0;
    what runs in the order of the program, as on the CPU, keeps it without doing anything.
    ``descriptors`` says whether its kernels are given tensors behind descriptors.
    ``choosing`` says whether its code picks between the kernels of a multi-kernel while it
    runs; unless it says so, it is given programs without multi-kernels, whose calls name
    what they run.
    ``branching`` says whether a conditional on a number costs as little as a branch of a
    language, so that passes may decide by sizes while the program runs.
    ``operators`` are the operators that lines may call, with their
    overloads (``aten.mm.default``); ``None`` is every operator.  ``hosted`` are the device
    kinds whose tensors callers have in memory of the host: a loaded program takes and
    returns CPU tensors for them, and copies at its borders.  ``graphs`` are the device
    kinds that record graph regions and replay them, and ``recorded`` the operators that may
    be called in one; ``None`` is every operator.
    ``greatest_alignment`` is the most bytes that memory which a program allocates may be
    aligned to, a power of two, and that of tensors on ``hosted`` devices; ``None`` is any.
    ``limits`` are parts of the messages with which the emitter refuses programs that the
    other fields allow; the conformance kit takes any other refusal (WIR702 to WIR705) of
    such a program for a failure.
    """

    lines: frozenset[type[Line]] = field(default=_WITHOUT_COLLECTIVES)
    languages: frozenset[Language] = field(
        default=frozenset({Language.TRITON, Language.CPP})
    )
    devices: frozenset[str] | None = None
    streams: frozenset[str] = frozenset({"cpu"})
    zero_modes: frozenset[ZeroMode] = frozenset(ZeroMode)
    descriptors: bool = False
    choosing: bool = False
    branching: bool = False
    operators: frozenset[str] | None = None
    hosted: frozenset[str] = frozenset()
    graphs: frozenset[str] = frozenset({"cuda"})
    recorded: frozenset[str] | None = None
    greatest_alignment: int | None = None
    limits: tuple[str, ...] = ()


@frozen(kw_only=True)
class ComingPrograms:
    """Facts of programs that are about to be made of a graph.

    ``devices`` are the kinds of device that the graph uses.  With ``is_new`` no cache has
    the graph's program; without, one may have it, and all that is built should be kept for
    other processes.  ``graphs`` says that programs are to have graph regions, and
    ``own_kernels`` that kernels are those of our own lowering, not Inductor's.
    """

    devices: frozenset[str]
    is_new: bool
    graphs: bool = False
    own_kernels: bool = False


class Emitter(ABC):
    """Turns programs into artifacts, and artifacts into callables."""

    name: str
    """The name users select it by; unique among installed emitters."""

    support: Support

    def checking_memory(self) -> "Emitter":
        """Return this emitter, made to emit code that checks its own memory as it runs.

        Raises:
            DiagnosticError: WIR705, it has no such checks.
        """
        message = f"the {self.name} emitter has no checks of memory"
        hint = "the python emitter has; without an emitter the interpreter always checks"
        raise Code.UNSUPPORTED_FEATURE.error(message, hint=hint)

    def trusting_inputs(self) -> "Emitter":
        """Return this emitter, made for callers whose guards have checked the inputs.

        By default it is the same emitter: its code checks its inputs all the same.
        """
        return self

    def compiling_graphs(self, compile_graph: GraphCompiler) -> "Emitter":
        """Return this emitter, made to run each graph as ``compile_graph`` compiles it.

        Raises:
            DiagnosticError: WIR705, it makes no graphs.
        """
        message = f"the {self.name} emitter makes no graphs that could be compiled"
        hint = "the fx emitter does"
        raise Code.UNSUPPORTED_FEATURE.error(message, hint=hint)

    def debugging(self, source: DebugSource) -> "Emitter":
        """Return this emitter, made to build code that debuggers step through.

        Raises:
            DiagnosticError: WIR705, it has no debug information, or none of the source.
        """
        message = f"the {self.name} emitter has no debug information"
        hint = "the cpp emitter has, and emitted Python is stepped through with pdb"
        raise Code.UNSUPPORTED_FEATURE.error(message, hint=hint)

    def cache_facts(self) -> str | None:
        """Return what decides what is emitted, beside the program and the plugin's files.

        That is, for instance, the version of a compiler that emits code.  ``None`` keeps no
        artifact for later processes.
        """
        return ""

    def live_bytes(self, device: str) -> int | None:
        """Return the bytes that programs hold now on a kind of device.

        ``None``, the default, says that the emitter does not count them.  The leak probe of
        the conformance kit asks for it, and needs no answer for the CPU and for CUDA.
        """
        return None

    def peak_bytes(self, device: str) -> int | None:
        """Return the most bytes that programs held at once since this was asked last.

        They are those on a kind of device that :meth:`live_bytes` counts.  ``None``, the
        default, says that the emitter does not count them.  The peak probe of the
        conformance kit asks for it, and needs no answer for the CPU and for CUDA.
        """
        return None

    def own_kernel(self, kernel: KernelDefinitionLine) -> KernelDefinitionLine | None:
        """Return a C++ kernel of the conformance kit in a language of the emitter's own.

        ``entry`` of ``kernel`` says what it computes.  The result has its name, and takes
        the same arguments.  ``None``, the default, leaves the kernel to a renderer of the
        device's kernels; cases whose kernels nobody writes are skipped.
        """
        return None

    def preparations(self, coming: ComingPrograms) -> Sequence[Callable[[], object]]:
        """Return functions that begin what loading coming programs needs.

        They build what programs share, or start processes, and run in the background
        while a graph is lowered.  What they raise is ignored: loading raises it again.  By
        default there are none.
        """
        return ()

    @abstractmethod
    def emit(self, program: Program) -> Artifact:
        """Return the files for a verified program that is within ``support``.

        Emitting executes nothing of the program.

        Raises:
            DiagnosticError: the program holds something the emitter cannot express.
        """

    def shown_files(self, artifact: Artifact) -> Sequence[str]:
        """Return the paths of the text files that people read, the main one first.

        By default they are the entry and the sources in ``kernels/``.
        """
        kernels = (path for path in artifact.files if path.startswith("kernels/"))
        return (artifact.entry, *(path for path in kernels if not path.endswith(".json")))

    def build(
        self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]
    ) -> Artifact:
        """Return the artifact, with the code that ``load`` compiles compiled ahead.

        This may run compilers, but nothing of the program.  By default there is nothing
        to compile.

        Raises:
            DiagnosticError: a constant is missing, or something does not compile.
        """
        return artifact

    def package(self, directory: "Path", path: "Path") -> None:
        """Write the built artifact in ``directory`` to the single file ``path``.

        By default there are no packages.  :func:`~wrapperir.emit.package.write_package`
        writes what :func:`~wrapperir.emit.package.read_package` reads.

        Raises:
            DiagnosticError: WIR705, the emitter has no packages; WIR710, the directory
                holds no artifact, or one that was changed or is not built.
            OSError: a file cannot be read or written.
        """
        message = f"the {self.name} emitter has no packages"
        hint = "the cpp emitter has: compile the program with `--emitter cpp`"
        raise Code.UNSUPPORTED_FEATURE.error(message, hint=hint)

    @abstractmethod
    def load(self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]) -> Loaded:
        """Load an artifact; this compiles and executes its code.

        ``constants`` maps each constant's key to its tensor.

        Raises:
            DiagnosticError: a constant is missing, or a kernel does not compile.
        """
