"""The Python emitter: a stand-alone module with a function ``call(args)``."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, ClassVar, Self, cast

from attrs import define

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import (
    Artifact,
    Emitter,
    Fragment,
    Loaded,
    SourceWriter,
    Support,
    joined,
)
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.python.expressions import format_int, format_string, format_tuple
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.ir import (
    SCHEMA_VERSION,
    MultiKernelLine,
    Program,
)
from wrapperir_python.checks import emit_inputs, emit_layout_checks
from wrapperir_python.lines import PythonLines
from wrapperir_python.memory_checks import checked, reporting_faults
from wrapperir_python.streams import emit_actions, emit_begin

if TYPE_CHECKING:
    import torch

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
    its own subclass of :class:`~wrapperir_python.lines.PythonLines`.
    """

    name = "python"
    support = Support(streams=frozenset({"cpu", "cuda"}), descriptors=True, choosing=True)
    lines: ClassVar[type[PythonLines]] = PythonLines
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

    def emit(self, program: Program) -> Artifact:
        """Return ``program.py`` and, for Triton kernels, ``kernels/<name>.py``.

        Raises:
            DiagnosticError: the program holds something this emitter lacks; all such
                places are named.
        """
        program = _with_configs_as_choices(program)
        module = ModuleText(self.name)
        facts = ProgramFacts(program)
        kind = checked(self.lines) if self.check_memory else self.lines
        lines = kind(module, facts)
        lines.emit_definitions(program.definitions)
        inputs = SourceWriter()
        emit_inputs(lines, inputs, program, trusted=self.trusts_inputs)
        lines.emit_begin(program)
        lines.emit_lines(program.symbols, ("symbols",))
        if not self.trusts_inputs:
            emit_layout_checks(lines, program)
        lines.emit_lines(program.lines, ("lines",))
        lines.emit_end(program)
        interpreted = "cpu" in facts.triton_calls
        if lines.problems:
            raise DiagnosticError(*lines.problems)
        remarks = [
            f"Program {program.name}; emitter {self.name} of wrapperir.",
            f"IR schema {SCHEMA_VERSION}; runs without wrapperir.",
        ]
        if interpreted:
            remarks.append("Its Triton kernels are for the CPU: set TRITON_INTERPRET=1.")
        text = _format_module(program, module, inputs, lines, remarks)
        files: dict[str, str | bytes] = {ENTRY: text, **module.files}
        marks = (INTERPRETED, interpreted), (CHECKED, self.check_memory)
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
        return reporting_faults(call, module.memory_check) if CHECKED in marks else call


def _with_configs_as_choices(program: Program) -> Program:
    """Return the program with its kernels' configs to pick from, where CUDA runs them.

    On the CPU Triton's interpreter runs them, where one config does as well as another.
    """
    several = {
        line.name
        for line in program.definitions
        if not isinstance(line, MultiKernelLine) and len(line.configs) > 1
    }
    if not several:
        return program
    devices = ProgramFacts(program).kernel_devices
    on_cuda = {name for name, kinds in devices.items() if "cuda" in kinds}
    if several.isdisjoint(on_cuda):
        return program
    from wrapperir.passes import split_configs_but  # late: all passes

    return split_configs_but(program, several - on_cuda)


def _format_module(
    program: Program,
    module: ModuleText,
    inputs: SourceWriter,
    lines: PythonLines,
    remarks: Sequence[str],
) -> str:
    body = SourceWriter()
    _emit_call(body, inputs, program, lines)
    writer = SourceWriter()
    # Two lines at the top, so that no remark of a program is read as an encoding.
    for remark in remarks:
        writer.emit_comment(remark)
    writer.emit_blank()
    module.emit_head(writer)
    if program.constants:
        _emit_bind_constants(writer, program, module)
    writer.emit_blank(2)
    writer.emit_writer(body)
    if module.choices.line_count:
        writer.emit_blank(2)
        writer.emit_line("call.choices = kernel_choices.choices")
    return writer.format_text()


def _emit_call(
    writer: SourceWriter, inputs: SourceWriter, program: Program, lines: PythonLines
) -> None:
    outputs = [lines.arguments.format_argument(output) for output in program.outputs]
    writer.emit_line("def call(args):")
    with writer.indented():
        writer.emit_line('"""Take the inputs as a list, empty it, return a tuple."""')
        writer.emit_writer(inputs)
        gpu = lines.facts.first_gpu
        if gpu is None:
            _emit_body(writer, lines, outputs)
            return
        index = format_int(gpu.index or 0)
        writer.emit_line("with torch.cuda._DeviceGuard({}):", index)
        with writer.indented():
            # The guard alone makes no context where there is none yet.
            writer.emit_line("torch.cuda.set_device({})", index)
            _emit_body(writer, lines, outputs)


def _emit_body(writer: SourceWriter, lines: PythonLines, outputs: list[Fragment]) -> None:
    emit_begin(lines, writer)
    writer.emit_writer(lines.writer)
    emit_actions(lines, lines.streams.join(), writer)
    writer.emit_line("return {}", format_tuple(outputs))


def _emit_bind_constants(
    writer: SourceWriter, program: Program, module: ModuleText
) -> None:
    names = [module.values[constant.name] for constant in program.constants]
    writer.emit_blank(2)
    writer.emit_line("def bind_constants(constants):")
    with writer.indented():
        writer.emit_line('"""Give the program its constants: tensors by key."""')
        writer.emit_line("global {}", joined(", ", names))
        for name, constant in zip(names, program.constants, strict=True):
            writer.emit_line("{} = constants[{}]", name, format_string(constant.key))
