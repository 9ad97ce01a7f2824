"""Launches of kernels in C++: of one, or of the choice that a call decides on."""

from wrapperir.emit import Fragment, fragment
from wrapperir.emit.runnable_kernels import ComputedAt, NearestAt, Runnable
from wrapperir.ir import (
    BenchmarkChoice,
    BufferRef,
    KernelCallLine,
    KernelDefinitionLine,
    MultiKernelLine,
)
from wrapperir_cpp.choices import (
    emit_switch,
    format_computed,
    format_nearest,
    format_timed_choice,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.kernels import Addresses, KernelLanguages, launch_arguments
from wrapperir_cpp.literals import format_int
from wrapperir_cpp.memory import tensor_address
from wrapperir_cpp.streams import on_stream


def declare_kernel(
    context: Context, line: KernelDefinitionLine, languages: KernelLanguages
) -> None:
    """Add a kernel's definition to the module, if it is called."""
    kinds = context.facts.kernel_devices.get(line.name)
    if kinds is None:
        context.module.statics.emit_comment(f"{line.name} is never called.")
        return
    found = [(kind, languages.get((kind, line.language))) for kind in sorted(kinds)]
    for kind, language in found:
        if language is None:
            message = f"kernels in {line.language.value} do not run on {kind}"
            context.report(message, line.name)
            return
    for declare in dict.fromkeys(language.declare for _, language in found if language):
        declare(context, line)


def emit_kernel_call(
    context: Context, line: KernelCallLine, languages: KernelLanguages
) -> None:
    """Append ``cpp_fused_0(c.p[x], c.arena + 256, 64);``, or a ``switch`` of such."""
    facts = context.facts
    runnable = facts.runnable(line)

    def address(position: int) -> Fragment:
        argument = line.arguments[position]
        assert isinstance(argument, BufferRef)  # verified
        return tensor_address(context, argument.name)

    def launches_at(addresses: Addresses) -> dict[int, Fragment]:
        return _format_launches(context, line, runnable, addresses, languages)

    launches = launches_at(address)
    if len(launches) < len(runnable.kernels):
        return  # a definition was reported
    with on_stream(context, line.device):
        if len(launches) == 1:
            context.writer.emit_line("{};", *launches.values())
            return
        definition = facts.definitions[line.kernel]
        assert isinstance(definition, MultiKernelLine)  # there is a choice
        match runnable.dispatch:
            case int():
                choice = format_int(runnable.dispatch)
            case NearestAt(hints, sizes):
                choice = format_nearest(context, definition.name, hints, sizes)
            case ComputedAt(index):
                function = format_computed(context, definition.name, index)
                choice = fragment("{}(c)", function)
            case BenchmarkChoice():
                choice = format_timed_choice(context, definition, line, launches_at)
        emit_switch(context.writer, choice, launches)


def _format_launches(
    context: Context,
    line: KernelCallLine,
    runnable: Runnable,
    addresses: Addresses,
    languages: KernelLanguages,
) -> dict[int, Fragment]:
    """Return the launch of each choice; those whose definition was reported are missing."""
    launches: dict[int, Fragment] = {}
    for number, candidate in runnable.kernels.items():
        kernel = candidate.kernel
        language = languages.get((line.device.kind, kernel.language))
        if language is None or kernel.name not in context.module.kernels:
            return launches
        arguments = launch_arguments(line, candidate, addresses)
        launch = language.format_launch(context, line, kernel, arguments)
        if launch is None:
            return launches
        launches[number] = launch
    return launches
