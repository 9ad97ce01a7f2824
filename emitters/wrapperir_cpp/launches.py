"""Launches of kernels in C++: of one, or of the choice that a call decides on."""

from typing import TYPE_CHECKING

from wrapperir.emit.fragment import Fragment, fragment, joined
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.runnable_kernels import Candidate, Runnable, runnable_kernels
from wrapperir.ir.kernel import Language, ScalarParameter, runtime_parameters
from wrapperir.ir.line import BufferRef, KernelCallLine, MultiKernelLine
from wrapperir_cpp.choice_switch import emit_switch
from wrapperir_cpp.choices import format_choice
from wrapperir_cpp.launch_arguments import Addresses, launch_arguments
from wrapperir_cpp.triton_kernels import format_triton_launch

if TYPE_CHECKING:
    from wrapperir_cpp.lines import CppLines


def emit_kernel_call(lines: "CppLines", line: KernelCallLine) -> None:
    """Append ``cpp_fused_0(c.p[x], c.arena + 256, 64);``, or a ``switch`` of such."""
    survey = lines.survey
    runnable = runnable_kernels(survey.definitions, line, survey.types)

    def address(position: int) -> Fragment:
        argument = line.arguments[position]
        assert isinstance(argument, BufferRef)  # verified
        return lines.address(argument.name)

    launches = _format_launches(lines, line, runnable, address)
    if launches is None:
        return
    with lines.streams.on_device(line.device):
        if len(launches) == 1:
            lines.writer.emit_line("{};", *launches.values())
            return
        definition = survey.definitions[line.kernel]
        assert isinstance(definition, MultiKernelLine)  # there is a choice

        def launches_at(addresses: Addresses) -> dict[int, Fragment]:
            return _format_launches(lines, line, runnable, addresses) or {}

        choice = format_choice(lines, definition, line, runnable.dispatch, launches_at)
        emit_switch(lines.writer, choice, launches)


def _format_launches(
    lines: "CppLines", line: KernelCallLine, runnable: Runnable, addresses: Addresses
) -> dict[int, Fragment] | None:
    """Return the launch of each choice; ``None`` where one's definition was reported."""
    launches: dict[int, Fragment] = {}
    for number, candidate in runnable.kernels.items():
        launch = _format_launch(lines, line, candidate, addresses)
        if launch is None:
            return None
        launches[number] = launch
    return launches


def _format_launch(
    lines: "CppLines", line: KernelCallLine, candidate: Candidate, addresses: Addresses
) -> Fragment | None:
    kernel = candidate.kernel
    arguments = launch_arguments(line, candidate, addresses)
    if kernel.language is Language.TRITON:
        return format_triton_launch(lines, line, kernel, arguments)
    if kernel.language is not Language.CPP:
        return None
    if line.device.kind != "cpu":
        lines.report(f"a C++ kernel does not run on {line.device}", str(line.device))
    given: list[Fragment] = []
    for argument, parameter in zip(
        arguments, runtime_parameters(kernel.parameters), strict=True
    ):
        if argument.address is not None:
            given.append(argument.address)
            continue
        assert not isinstance(argument.value, BufferRef)  # it would have an address
        dtype = parameter.dtype if isinstance(parameter, ScalarParameter) else None
        given.append(lines.expressions.format_number(argument.value, kind_of(dtype)))
    function = lines.module.kernels[kernel.name]
    return fragment("{}({})", function, joined(", ", given))
