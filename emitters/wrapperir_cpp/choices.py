"""Choices of multi-kernels by the nearest hint or a decision tree, in C++."""

from collections.abc import Mapping

from wrapperir.emit import Fragment, SourceWriter, fragment, joined
from wrapperir.ir import Expr, Hint, Operation
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_int
from wrapperir_cpp.module_text import source_writer


def emit_switch(
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


def format_nearest(
    context: Context, name: str, hints: tuple[Hint, ...], sizes: tuple[Expr, ...]
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


def _define_hints(context: Context, name: str, hints: tuple[Hint, ...]) -> Fragment:
    table = context.module.names.claim(f"hints_{name}")
    statics = context.module.statics
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


def format_computed(context: Context, name: str, index: Operation) -> Fragment:
    """Return the name of the function of a decision tree; it takes the call."""
    body = source_writer()
    with body.indented():
        _emit_tree(context, body, index)
    key = name, body.format_text()
    known = context.choices.functions.get(key)
    if known is not None:
        return known
    function = context.choices.functions[key] = context.module.names.claim(f"choose_{name}")
    writer = context.chunks.functions
    writer.emit_line("int32_t {}(const Call& c) {{", function)
    writer.emit_writer(body)
    writer.emit_line("}}")
    writer.emit_blank()
    return function


def _emit_tree(context: Context, writer: SourceWriter, tree: Expr) -> None:
    """Append a decision tree: each condition is evaluated where it decides, alone."""
    while isinstance(tree, Operation):
        condition, yes, tree = tree.args
        test = context.expressions.format_condition(condition)
        if isinstance(yes, Operation):
            writer.emit_line("if ({}) {{", test)
            with writer.indented():
                _emit_tree(context, writer, yes)
            writer.emit_line("}}")
        else:
            writer.emit_line("if ({}) return {};", test, _format_leaf(yes))
    writer.emit_line("return {};", _format_leaf(tree))


def _format_leaf(leaf: Expr) -> Fragment:
    assert isinstance(leaf, int)  # verified
    return format_int(leaf)
