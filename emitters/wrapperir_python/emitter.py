"""The Python emitter: a stand-alone module with a function ``call(args)``."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, ClassVar, Self, cast

from attrs import define

from wrapperir.diagnostics import Code
from wrapperir.emit import (
    Artifact,
    ComingPrograms,
    DebugSource,
    Emitter,
    Loaded,
    Support,
)
from wrapperir.ir import Program

# Others are imported late: finding or loading anything imports this module.
if TYPE_CHECKING:
    import torch

    from wrapperir_python.lines import PythonLines

ENTRY = "program.py"
INTERPRETED = ("triton", "interpreted")
"""Metadata of an artifact whose Triton kernels run on the CPU."""
CHECKED = ("memory", "checked")
"""Metadata of an artifact that checks its memory."""


@define(kw_only=True, eq=False, slots=False)
class PythonEmitter(Emitter):
    """Emits Python that imports torch, and triton where there are Triton kernels.

    With ``check_memory``, the code checks its own memory; with ``trusts_inputs``, it does
    not check its inputs.  A third party subclasses this and sets ``name`` and ``lines``,
    its own subclass of :class:`~wrapperir_python.lines.PythonLines`, which ``None`` is.
    """

    name = "python"
    support = Support(
        streams=frozenset({"cpu", "cuda"}),
        limits=("a C++ kernel does not run on cuda",),
        descriptors=True,
        choosing=True,
        branching=True,
    )
    lines: "ClassVar[type[PythonLines] | None]" = None
    check_memory: bool = False
    trusts_inputs: bool = False

    def checking_memory(self) -> Self:
        """Return this emitter, made to emit code that checks its own memory."""
        changed = copy(self)
        changed.check_memory = True
        return changed

    def trusting_inputs(self) -> Self:
        """Return this emitter, made to emit code that does not check its inputs."""
        changed = copy(self)
        changed.trusts_inputs = True
        return changed

    def debugging(self, source: DebugSource) -> Emitter:
        """Return this emitter: Python is stepped through as it is.

        Raises:
            DiagnosticError: WIR705, the source is the text of the program.
        """
        if source == "code":
            return self
        message = f"code of the {self.name} emitter has no lines of the program's text"
        hint = "ask for 'code', or for another emitter, such as cpp"
        raise Code.UNSUPPORTED_FEATURE.error(message, hint=hint)

    def preparations(self, coming: ComingPrograms) -> Sequence[Callable[[], object]]:
        """Return the builds of extension modules, and the start of Triton's compiler."""
        from wrapperir_python.preparation import preparations  # it imports torch

        return preparations(coming)

    def emit(self, program: Program) -> Artifact:
        """Return ``program.py`` and, for Triton kernels, ``kernels/<name>.py``.

        Raises:
            DiagnosticError: the program holds something this emitter lacks; all such
                places are named.
        """
        from wrapperir_python.program_text import emit_module

        module = emit_module(
            program,
            self.name,
            self.lines,
            check_memory=self.check_memory,
            trusts_inputs=self.trusts_inputs,
        )
        files: dict[str, str | bytes] = {ENTRY: module.text, **module.files}
        marks = (INTERPRETED, module.is_interpreted), (CHECKED, self.check_memory)
        metadata: dict[str, str] = dict(mark for mark, holds in marks if holds)
        return Artifact(self.name, files, ENTRY, metadata)

    def load(self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]) -> Loaded:
        """Build the kernels, execute the module and return its ``call``.

        Raises:
            DiagnosticError: a constant is missing, or the module does not load: a kernel
                does not compile or an operator is not registered.
        """
        from wrapperir.emit.python.load_module import load_module  # it imports torch

        marks = artifact.metadata.items()
        module = load_module(artifact, constants, interpreted=INTERPRETED in marks)
        call = cast(Loaded, module.call)
        if CHECKED not in marks:
            return call
        from wrapperir_python.memory_checks import reporting_faults

        return reporting_faults(call, module.memory_check)
