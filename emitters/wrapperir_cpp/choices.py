"""How a call of a multi-kernel decides which choice it runs, in C++."""

from typing import TYPE_CHECKING

from attrs import define, field

from wrapperir.emit.fragment import Fragment, fragment, joined
from wrapperir.emit.runnable_kernels import ComputedAt, Dispatch, NearestAt
from wrapperir.emit.source_writer import SourceWriter
from wrapperir.ir.expr import Expr, Operation
from wrapperir.ir.line import KernelCallLine, MultiKernelLine
from wrapperir.ir.selection import Hint
from wrapperir_cpp.literals import format_int
from wrapperir_cpp.module_text import source_writer
from wrapperir_cpp.trials import LaunchesAt, Trials, emit_trials

if TYPE_CHECKING:
    from wrapperir_cpp.lines import CppLines


@define
class Choices:
    """What the file has for the choices of calls, each once.

    ``recent`` counts the numbers that a frame keeps: of each call that goes by the nearest
    hint its last sizes, and their choice. ``functions`` are found by the multi-kernel and
    their text: expressions that are equal are not the same where one has 2, another 2.0.
    """

    recent: int = 0
    hints: dict[str, Fragment] = field(factory=dict[str, Fragment])
    functions: dict[tuple[str, str], Fragment] = field(
        factory=dict[tuple[str, str], Fragment]
    )
    trials: Trials = field(factory=Trials)


def format_choice(
    lines: "CppLines",
    definition: MultiKernelLine,
    line: KernelCallLine,
    dispatch: Dispatch,
    launches_at: LaunchesAt,
) -> Fragment:
    """Return the number of a call's choice; what it takes is appended to the file."""
    match dispatch:
        case int():
            return format_int(dispatch)
        case NearestAt(hints, sizes):
            return _format_nearest(lines, definition.name, hints, sizes)
        case ComputedAt(index):
            function = _define_computed(lines, definition.name, index)
            return fragment("{}(c)", function)
        case _:
            return emit_trials(lines, definition, line, launches_at)


def _format_nearest(
    lines: "CppLines", name: str, hints: tuple[Hint, ...], sizes: tuple[Expr, ...]
) -> Fragment:
    """Return ``nearest(hints_mm, {c.s0, 512}, c.recent + 3)``."""
    choices = lines.choices
    if name not in choices.hints:
        choices.hints[name] = _define_hints(lines, name, hints)
    place = choices.recent
    choices.recent += len(sizes) + 1
    given = [lines.expressions.format_index(size) for size in sizes]
    return fragment(
        "nearest({}, {{{}}}, c.recent + {})",
        *(choices.hints[name], joined(", ", given), format_int(place)),
    )


def _define_hints(lines: "CppLines", name: str, hints: tuple[Hint, ...]) -> Fragment:
    table = lines.module.names.claim(f"hints_{name}")
    statics = lines.module.statics
    statics.emit_comment(f"The sizes that each choice of {name} is for.")
    rank = format_int(len(hints[0].sizes))
    statics.emit_line("constexpr Hint<{}> {}[] = {{", rank, table)
    with statics.indented():
        for hint in hints:
            sizes = joined(", ", map(_format_size, hint.sizes))
            statics.emit_line("{{{}, {{{}}}}},", format_int(hint.choice), sizes)
    statics.emit_line("}};")
    return table


def _format_size(size: int) -> Fragment:
    """Return a size as the exact binary64 that it counts as."""
    counted = float(size) or 0.5
    return Fragment(repr(counted))


def _define_computed(lines: "CppLines", name: str, index: Operation) -> Fragment:
    body = source_writer()
    with body.indented():
        _emit_tree(lines, body, index)
    key = name, body.format_text()
    known = lines.choices.functions.get(key)
    if known is not None:
        return known
    function = lines.choices.functions[key] = lines.module.names.claim(f"choose_{name}")
    writer = lines.chunks.functions
    writer.emit_line("int32_t {}(const Call& c) {{", function)
    writer.emit_writer(body)
    writer.emit_line("}}")
    writer.emit_blank()
    return function


def _emit_tree(lines: "CppLines", writer: SourceWriter, tree: Expr) -> None:
    """Append a decision tree: each condition is evaluated where it decides, alone."""
    while isinstance(tree, Operation):
        condition, yes, tree = tree.args
        test = lines.expressions.format_condition(condition)
        if isinstance(yes, Operation):
            writer.emit_line("if ({}) {{", test)
            with writer.indented():
                _emit_tree(lines, writer, yes)
            writer.emit_line("}}")
        else:
            writer.emit_line("if ({}) return {};", test, _format_leaf(yes))
    writer.emit_line("return {};", _format_leaf(tree))


def _format_leaf(leaf: Expr) -> Fragment:
    assert isinstance(leaf, int)  # verified
    return format_int(leaf)
