"""Launches of kernels in C++, and of choices of multi-kernels.

A call decides on a choice by the nearest hint, by a decision tree, or by timing.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from wrapperir import ir as wir
from wrapperir.emit import Fragment, SourceWriter, fragment, joined
from wrapperir.emit.runnable_kernels import ComputedAt, NearestAt
from wrapperir.text import format_expr, format_type
from wrapperir_cpp.context import Context
from wrapperir_cpp.kernels import Addresses, KernelLanguages, LaunchArgument
from wrapperir_cpp.literals import format_int, format_string
from wrapperir_cpp.memory import tensor_address
from wrapperir_cpp.module_text import emit_rows, source_writer
from wrapperir_cpp.streams import format_stream, on_stream

LaunchesAt: TypeAlias = Callable[[Addresses], Mapping[int, Fragment]]
"""Returns the launch of each choice of a call, with tensors at other addresses."""


def declare_kernel(
    context: Context, line: wir.KernelDefinitionLine, languages: KernelLanguages
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
    context: Context, line: wir.KernelCallLine, languages: KernelLanguages
) -> None:
    """Append ``cpp_fused_0(c.p[x], c.arena + 256, 64);``, or a ``switch`` of such."""
    runnable = context.facts.runnable(line)

    def address(position: int) -> Fragment:
        argument = line.arguments[position]
        assert isinstance(argument, wir.BufferRef)  # verified
        return tensor_address(context, argument.name)

    def launches_at(addresses: Addresses) -> dict[int, Fragment]:
        launches: dict[int, Fragment] = {}
        for number, candidate in runnable.kernels.items():
            kernel, positions = candidate.kernel, candidate.positions
            if positions is None:
                positions = tuple(range(len(line.arguments)))
            arguments: list[LaunchArgument] = []
            for position in positions:
                value = line.arguments[position]
                is_tensor = isinstance(value, wir.BufferRef)
                found = addresses(position) if is_tensor else None
                arguments.append(LaunchArgument(value, found))
            language = languages[line.device.kind, kernel.language]
            launches[number] = language.format_launch(context, line, kernel, arguments)
        return launches

    kernels = {candidate.kernel.name for candidate in runnable.kernels.values()}
    if not context.module.kernels.keys() >= kernels:
        return  # a definition was reported
    launches = launches_at(address)
    with on_stream(context, line.device):
        if len(launches) == 1:
            context.writer.emit_line("{};", *launches.values())
            return
        definition = context.facts.definitions[line.kernel]
        assert isinstance(definition, wir.MultiKernelLine)  # there is a choice
        match runnable.dispatch:
            case int():
                choice = format_int(runnable.dispatch)
            case NearestAt(hints, sizes):
                choice = _format_nearest(context, definition.name, hints, sizes)
            case ComputedAt(index):
                function = _format_computed(context, definition.name, index)
                choice = fragment("{}(c)", function)
            case wir.BenchmarkChoice():
                choice = _format_timed_choice(context, definition, line, launches_at)
        _emit_switch(context.writer, choice, launches)


def _emit_switch(
    writer: SourceWriter, choice: Fragment, launches: Mapping[int, Fragment]
) -> None:
    """Append a ``switch`` that runs the launch of a choice; the last is the default."""
    *others, (number, last) = launches.items()
    writer.emit_line("switch ({}) {{", choice)
    with writer.indented():
        for each, launch in others:
            writer.emit_line("case {}: {}; break;", format_int(each), launch)
        writer.emit_line("default: {};  // {}", last, format_int(number))
    writer.emit_line("}}")


def _format_nearest(
    context: Context, name: str, hints: tuple[wir.Hint, ...], sizes: tuple[wir.Expr, ...]
) -> Fragment:
    """Return ``nearest(hints_mm, {c.s0, 512}, c.recent + 3)``."""
    choices = context.choices
    if name not in choices.hints:
        choices.hints[name] = _define_hints(context, name, hints)
    place = choices.recent
    choices.recent += len(sizes) + 1
    given = [context.expressions.format_index(size) for size in sizes]
    return fragment(
        "nearest({}, {{{}}}, c.recent + {})",
        *(choices.hints[name], joined(", ", given), format_int(place)),
    )


def _define_hints(context: Context, name: str, hints: tuple[wir.Hint, ...]) -> Fragment:
    table = context.module.names.claim(f"hints_{name}")
    statics = context.module.statics
    statics.emit_comment(f"The sizes that each choice of {name} is for.")
    rank = format_int(len(hints[0].sizes))
    rows: list[Fragment] = []
    for hint in hints:
        hinted = joined(", ", map(_format_size, hint.sizes))
        rows.append(fragment("{}, {{{}}}", format_int(hint.choice), hinted))
    emit_rows(statics, fragment("constexpr Hint<{}> {}[]", rank, table), rows)
    return table


def _format_size(size: int) -> Fragment:
    """Return a size as a double; 0 counts as a half."""
    return Fragment(repr(float(size) or 0.5))


def _format_computed(context: Context, name: str, index: wir.Operation) -> Fragment:
    """Return the name of the function of a decision tree; it takes the call."""
    body = source_writer()
    with body.indented():
        _emit_tree(context, body, index)
    key = name, body.format_text()
    known = context.choices.functions.get(key)
    if known is not None:
        return known
    function = context.choices.functions[key] = context.module.names.claim(f"choose_{name}")
    writer = context.module.functions
    writer.emit_line("int32_t {}(const Call& c) {{", function)
    writer.emit_writer(body)
    writer.emit_line("}}")
    writer.emit_blank()
    return function


def _emit_tree(context: Context, writer: SourceWriter, tree: wir.Expr) -> None:
    """Append a decision tree: each condition is evaluated where it decides, alone."""
    while isinstance(tree, wir.Operation):
        condition, yes, tree = tree.args
        test = context.expressions.format_condition(condition)
        if isinstance(yes, wir.Operation):
            writer.emit_line("if ({}) {{", test)
            with writer.indented():
                _emit_tree(context, writer, yes)
            writer.emit_line("}}")
        else:
            assert isinstance(yes, int)  # verified
            writer.emit_line("if ({}) return {};", test, format_int(yes))
    assert isinstance(tree, int)  # verified
    writer.emit_line("return {};", format_int(tree))


def _format_timed_choice(
    context: Context,
    definition: wir.MultiKernelLine,
    line: wir.KernelCallLine,
    launches_at: LaunchesAt,
) -> Fragment:
    """Return the choice of a call, and append a function that times all choices once.

    The result is ``choice_of(fastest_mm, time_mm, c)``.
    """
    fastest = _define_choice(context, definition, line)
    places: dict[int, Fragment] = {}
    given: list[Fragment] = []
    for position, (parameter, argument) in enumerate(
        zip(definition.parameters, line.arguments, strict=True)
    ):
        if not isinstance(argument, wir.BufferRef):
            continue
        assert isinstance(parameter, wir.TensorParameter)  # verified
        type = context.facts.tensor_type(argument.name)
        places[position] = fragment("p[{}]", format_int(len(places)))
        begin = tensor_address(context, argument.name)
        use = fragment("Use::{}", Fragment(parameter.access.value))
        given.append(joined(", ", (begin, _format_bytes(context, type), use)))
    launches = launches_at(places.__getitem__)
    function = context.module.names.claim(f"time_{definition.name}")
    writer = context.module.functions
    writer.emit_comment(f"Times the choices of {definition.name} for one kind of call.")
    writer.emit_line("[[gnu::cold, gnu::noinline]] int32_t {}(Call& c) {{", function)
    with writer.indented():
        emit_rows(writer, fragment("const Argument given[]"), given)
        writer.emit_line("auto run_choice = [&](int32_t choice, char* const* p) {{")
        with writer.indented():
            _emit_switch(writer, fragment("choice"), launches)
        writer.emit_line("}};")
        on = format_stream(context, line)
        parts = [fastest, fragment("given"), fragment("run_choice"), *on]
        writer.emit_line("return time_choices({});", joined(", ", parts))
    writer.emit_line("}}")
    writer.emit_blank()
    return fragment("choice_of({}, {}, c)", fastest, function)


def _define_choice(
    context: Context, definition: wir.MultiKernelLine, line: wir.KernelCallLine
) -> Fragment:
    arguments = [
        format_type(context.facts.types[argument.name])
        if isinstance(argument, wir.BufferRef)
        else format_expr(argument)
        for argument in line.arguments
    ]
    kind = definition.name, tuple(arguments), line.device
    choices = context.choices.fastest
    known = choices.get(kind)
    if known is not None:
        return known
    module, count = context.module, format_int(len(definition.choices))
    names = context.choices.names.get(definition.name)
    if names is None:
        names = module.names.claim(f"names_{definition.name}")
        context.choices.names[definition.name] = names
        kernels = joined(", ", [format_string(c.kernel) for c in definition.choices])
        module.statics.emit_line("constexpr const char* {}[] = {{{}}};", names, kernels)
    fastest = choices[kind] = module.names.claim(f"fastest_{definition.name}")
    name = format_string(definition.name)
    module.statics.emit_line("Fastest {} = {{{}, {}, {}}};", fastest, name, count, names)
    return fastest


def _format_bytes(context: Context, type: wir.TensorType) -> Fragment:
    """Return the bytes from the first element of a tensor to the end of its last."""
    item = type.dtype.itemsize
    if all(isinstance(number, int) for number in (*type.size, *type.stride)):
        empty = 0 in type.size
        extent = 0 if empty else wir.evaluate_int(wir.storage_extent(type), {})
        return format_int(extent * item)
    sizes, strides = map(context.format_ints, (type.size, type.stride))
    return fragment("spanned_bytes({}, {}, {})", sizes, strides, format_int(item))
