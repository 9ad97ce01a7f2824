"""The text of an emitted Python module."""

from collections.abc import Mapping, Sequence

from attrs import frozen

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Fragment, SourceWriter, joined
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.python.expressions import format_int, format_string, format_tuple
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.ir import SCHEMA_VERSION, MultiKernelLine, Program
from wrapperir_python.checks import emit_inputs, emit_layout_checks
from wrapperir_python.lines import PythonLines
from wrapperir_python.memory_checks import checked
from wrapperir_python.streams import emit_actions, emit_begin


@frozen
class EmittedModule:
    """An emitted module's text, its other files, and whether Triton runs on the CPU."""

    text: str
    files: Mapping[str, str | bytes]
    is_interpreted: bool


def emit_module(
    program: Program,
    emitter: str,
    kind: type[PythonLines] | None,
    *,
    check_memory: bool,
    trusts_inputs: bool,
) -> EmittedModule:
    """Return the module of a program, by a kind of lines, for the emitter of that name.

    Raises:
        DiagnosticError: the program holds something the emitter lacks.
    """
    program = _with_configs_as_choices(program)
    module = ModuleText(emitter)
    facts = ProgramFacts(program)
    kind = kind or PythonLines
    lines = (checked(kind) if check_memory else kind)(module, facts)
    lines.emit_definitions(program.definitions)
    inputs = SourceWriter()
    emit_inputs(lines, inputs, program, trusted=trusts_inputs)
    lines.emit_begin(program)
    lines.emit_lines(program.symbols, ("symbols",))
    if not trusts_inputs:
        emit_layout_checks(lines, program)
    lines.emit_lines(program.lines, ("lines",))
    lines.emit_end(program)
    interpreted = "cpu" in facts.triton_calls
    if lines.problems:
        raise DiagnosticError(*lines.problems)
    remarks = [
        f"Program {program.name}; emitter {emitter} of wrapperir.",
        f"IR schema {SCHEMA_VERSION}; runs without wrapperir.",
    ]
    if interpreted:
        remarks.append("Its Triton kernels are for the CPU: set TRITON_INTERPRET=1.")
    text = _format_module(program, module, inputs, lines, remarks)
    return EmittedModule(text, module.files, interpreted)


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
