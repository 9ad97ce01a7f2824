"""Kernel calls in Python: the kernel, or an object that picks it while the program runs.

A multi-kernel whose kernel is known is that kernel.  Others are an object of
``wrapperir/tuning/kernel_choices.py``, which is copied beside the module: a table of
kernels by their sizes, or one that its first call replaces by the fastest kernel.
"""

from collections.abc import Mapping
from pathlib import Path

import wrapperir
from wrapperir import ir as wir
from wrapperir.emit import Fragment, Namespace, NameTable, SourceWriter, fragment, joined
from wrapperir.emit.python.compiled_launches import CACHE, emit_launcher
from wrapperir.emit.python.expressions import format_int, format_string, format_tuple
from wrapperir.emit.python.module_text import RESERVED, ModuleText
from wrapperir.emit.runnable_kernels import (
    Candidate,
    ComputedAt,
    NearestAt,
    Runnable,
    choice_reason,
    kernel_digest,
    taken_arguments,
    updated_arguments,
)
from wrapperir_python.context import Callee, PythonContext


def find_callee(context: PythonContext, line: wir.KernelCallLine) -> Callee:
    """Return the function that a call calls; all calls of a kernel share one."""
    callee = context.callees.get(line.kernel)
    if callee is None:
        callee = _make_callee(context, line)
        if isinstance(context.facts.definitions[line.kernel], wir.KernelDefinitionLine):
            context.callees[line.kernel] = callee
    return callee


def _make_callee(context: PythonContext, line: wir.KernelCallLine) -> Callee:
    runnable = context.facts.runnable(line)
    definition = context.facts.definitions[line.kernel]
    if not isinstance(definition, wir.MultiKernelLine) or len(runnable.kernels) == 1:
        (chosen,) = runnable.kernels.values()
        function = context.module.kernels[chosen.kernel.name]
        return Callee(function, chosen.kernel, chosen.positions, _scalars(chosen.kernel))
    scalars = list(_scalars(definition))
    taken = taken_arguments(runnable, len(line.arguments))
    for position, argument in enumerate(line.arguments):
        # Other numbers keep their dtype, so that one that is not whole is not an error.
        if position not in taken and not isinstance(argument, wir.BufferRef):
            scalars[position] = context.facts.kinds.dtype(argument)
    function = format_choice(context, definition, runnable)
    return Callee(function, definition, None, tuple(scalars))


def _scalars(definition: wir.DefinitionLine) -> tuple[wir.DType | None, ...]:
    return tuple(
        parameter.dtype if isinstance(parameter, wir.ScalarParameter) else None
        for parameter in wir.runtime_parameters(definition.parameters)
    )


_CORE = Path(wrapperir.__file__).parent
_FOR_BENCHMARKS = (
    CACHE,
    _CORE / "tuning" / "kernel_times.py",
    _CORE / "tuning" / "choice_facts.py",
)


def format_choice(
    context: PythonContext, line: wir.MultiKernelLine, runnable: Runnable
) -> Fragment:
    """Return the callee of a multi-kernel's call: ``mm[s0, 64]``, for all arguments."""
    made = context.module.made
    match runnable.dispatch:
        case NearestAt(hints, sizes):
            key = "nearest", line.name
            if key not in made:
                made[key] = _define_nearest(context, line, hints, runnable)
            keys = [context.expressions.format_index(size) for size in sizes]
            return fragment("{}[{}]", made[key], _format_key(keys))
        case ComputedAt(index):
            # By the text of the tree: trees are equal where one has 1 and another 1.0.
            tree = "computed", line.name, repr(index)
            if tree not in made:
                made[tree] = _define_computed(context, line, index, runnable)
            names = dict.fromkeys(wir.symbols_in(index))
            keys = [context.module.symbols[name] for name in names]
            return fragment("{}[{}]", made[tree], _format_key(keys))
        case wir.BenchmarkChoice() | int():
            key = "benchmarked", line.name
            if key not in made:
                made[key] = _define_benchmarked(context, line, runnable)
            return made[key]


def _format_key(keys: list[Fragment]) -> Fragment:
    """Return a tuple as an index, which needs no parentheses unless it is empty."""
    if len(keys) == 1:
        return fragment("{},", keys[0])
    return joined(", ", keys) if keys else fragment("()")


def describe_choice(line: wir.MultiKernelLine) -> str:
    """Return a remark that names the kernels of a multi-kernel's calls, and the reason."""
    names = [choice.kernel for choice in line.choices]
    settled = wir.settled_choice(line.selection)
    match line.selection:
        case wir.ForcedChoice(index):
            return f"{line.name} is {names[index]}, as the program says."
        case wir.RecordedChoice(index, microseconds, device):
            times = ", ".join(
                f"{name} {'failed' if time is None else f'{time:.4g} us'}"
                for name, time in zip(names, microseconds, strict=False)
            )
            on = f" on {device}" if device else ""
            told = f": {times}{on}" if times else on
            return f"{line.name} is {names[index]}, as recorded{told}."
        case (
            wir.FirstChoice()
            | wir.BenchmarkChoice()
            | wir.NearestChoice()
            | wir.ComputedChoice()
        ):
            if settled is not None:
                return f"{line.name} is {names[settled]}."
            return f"{line.name} is one of {', '.join(dict.fromkeys(names))}."


def _define_nearest(
    context: PythonContext,
    line: wir.MultiKernelLine,
    hints: tuple[wir.Hint, ...],
    runnable: Runnable,
) -> Fragment:
    table = [
        format_tuple(
            [format_int(hint.choice), format_tuple([format_int(n) for n in hint.sizes])]
        )
        for hint in hints
    ]
    rule = fragment("kernel_choices.nearest([{}])", joined(", ", table))
    return _define_by_shape(context, line, runnable, rule)


def _define_computed(
    context: PythonContext,
    line: wir.MultiKernelLine,
    index: wir.Operation,
    runnable: Runnable,
) -> Fragment:
    module = context.module
    writer = _begin(module)
    rule = module.names.claim(f"choose_{line.name[:240]}")
    names = [module.symbols[name] for name in dict.fromkeys(wir.symbols_in(index))]
    writer.emit_blank(2)
    writer.emit_line("def {}({}):", rule, joined(", ", names))
    with writer.indented():
        _emit_tree(context, writer, index)
    return _define_by_shape(context, line, runnable, rule)


def _emit_tree(context: PythonContext, writer: SourceWriter, tree: wir.Expr) -> None:
    """Append a decision tree that returns the choice.

    Of two subtrees the smaller one is indented, so that no tree indents much.
    """
    while isinstance(tree, wir.Operation):
        condition, inner, tree = tree.args
        if _count(inner) > _count(tree):
            condition = wir.Operation(wir.ExprOp.NOT, (condition,))
            inner, tree = tree, inner
        test = context.expressions.format_condition(condition)
        if isinstance(inner, wir.Operation):
            writer.emit_line("if {}:", test)
            with writer.indented():
                _emit_tree(context, writer, inner)
        else:
            number = context.expressions.format_index(inner)
            writer.emit_line("if {}: return {}", test, number)
    writer.emit_line("return {}", context.expressions.format_index(tree))


def _count(tree: wir.Expr) -> int:
    return 1 + sum(map(_count, tree.args[1:])) if isinstance(tree, wir.Operation) else 0


def _define_by_shape(
    context: PythonContext, line: wir.MultiKernelLine, runnable: Runnable, rule: Fragment
) -> Fragment:
    module = context.module
    writer = _begin(module)
    choices = _format_choices(context, line, runnable.kernels)
    table = module.names.claim(f"{line.name[:240]}_by_shape")
    writer.emit_blank(2)
    writer.emit_line("{} = kernel_choices.ByShape(", table)
    with writer.indented():
        writer.emit_line("{},", format_string(line.name))
        writer.emit_line("{{")
        with writer.indented():
            for number, choice in zip(runnable.kernels, choices, strict=True):
                writer.emit_line("{}: {},", format_int(number), choice)
        writer.emit_line("}},")
        writer.emit_line("{},", rule)
        writer.emit_line("{},", format_string(choice_reason(line)))
    writer.emit_line(")")
    return table


def _define_benchmarked(
    context: PythonContext, line: wir.MultiKernelLine, runnable: Runnable
) -> Fragment:
    module = context.module
    for path in _FOR_BENCHMARKS:
        module.files[path.name] = path.read_text("utf-8")
    writer = _begin(module)
    choices = _format_choices(context, line, runnable.kernels, keyed=True)
    bound = module.kernels[line.name]
    every = range(len(line.parameters))
    updated = updated_arguments(
        (x.kernel, x.take(every)) for x in runnable.kernels.values()
    )
    writer.emit_blank(2)
    writer.emit_line("{} = kernel_choices.Benchmarked(", bound)
    with writer.indented():
        writer.emit_line("{},", format_string(line.name))
        writer.emit_line("[")
        with writer.indented():
            for choice in choices:
                writer.emit_line("{},", choice)
        writer.emit_line("],")
        writer.emit_line("updated={},", format_tuple([*map(format_int, sorted(updated))]))
        writer.emit_line("emitter={},", format_string(module.emitter))
        writer.emit_line("namespace=globals(),")
        writer.emit_line("bound={},", format_string(bound))
    writer.emit_line(")")
    return bound


def _begin(module: ModuleText) -> SourceWriter:
    """Return where choices are written; they need the file of their classes."""
    module.import_file("kernel_choices", _CORE / "tuning")
    return module.choices


def _format_choices(
    context: PythonContext,
    line: wir.MultiKernelLine,
    kernels: Mapping[int, Candidate],
    *,
    keyed: bool = False,
) -> list[Fragment]:
    """Return ``kernel_choices.Choice('mm_small', mm_small)`` of each kernel.

    With ``keyed`` they have what the keys of a cache are made of.
    """
    formatted: list[Fragment] = []
    for candidate in kernels.values():
        name = format_string(candidate.kernel.name)
        run = _runs_on_all(context, line, candidate)
        if not keyed:
            formatted.append(fragment("kernel_choices.Choice({}, {})", name, run))
            continue
        positions = candidate.take(range(len(line.parameters)))
        formatted.append(
            fragment(
                "kernel_choices.Choice({}, {}, {}, {})",
                *(name, run, format_string(kernel_digest(candidate.kernel))),
                format_tuple([format_int(at) for at in positions]),
            )
        )
    return formatted


def _runs_on_all(
    context: PythonContext, line: wir.MultiKernelLine, candidate: Candidate
) -> Fragment:
    """Return a function that takes all arguments of the multi-kernel."""
    module, name = context.module, candidate.kernel.name
    kernel = emit_launcher(module, candidate.kernel)
    key = "run", line.name, name, candidate.positions
    if candidate.positions is None or key in module.made:
        return module.made.get(key, kernel)
    function = module.made[key] = module.names.claim(f"{name[:120]}_of_{line.name[:120]}")
    names = Namespace(NameTable({*RESERVED, kernel, function}))
    parameters = [names[parameter.name] for parameter in line.parameters]
    writer = module.choices
    writer.emit_blank(2)
    writer.emit_line("def {}({}):", function, joined(", ", parameters))
    with writer.indented():
        writer.emit_line("{}({})", kernel, joined(", ", candidate.take(parameters)))
    return function
