"""Addresses of tensors' data that debuggers find by the names of values.

With debug information, ``struct Call`` has a pointer for each tensor, wherever that lies::

    c.at.buf0 = at<float>(c.arena + 64);
    ...
    c.at.buf0 = nullptr;

A pointer is null where its value has no data: before the line that defines the value, from
the line that frees or reuses it, and outside its block.  No other code reads it.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from wrapperir import ir as wir
from wrapperir.emit import Fragment, SourceWriter, fragment
from wrapperir_cpp.context import Context
from wrapperir_cpp.value_storage import difference


def show_values(context: Context, names: Iterable[str]) -> None:
    """Append the addresses of tensors, if there is debug information."""
    debugged = context.debugged
    if debugged is None:
        return
    for name in names:
        address, type = _format_address(context, name), context.facts.types[name]
        if address is not None and isinstance(type, wir.TensorType):
            c_type = _c_type(type.dtype)
            context.writer.emit_line(
                "c.at.{} = at<{}>({});", debugged.add(name, c_type), c_type, address
            )


@contextmanager
def showing_values(context: Context, line: wir.AnyLine) -> Generator[None]:
    """Append, around a line's code, the addresses of what it defines, drops and changes."""
    debugged = context.debugged
    if debugged is None:
        yield
        return
    found = context.facts.line_effects.visit(line)
    _hide(context, [found.drops] if found.drops else [])
    yield
    if found.symbol:
        debugged.symbols.add(found.symbol)
    for nested in found.blocks:  # a loop that ends gave its body's parameters addresses
        _hide(context, [parameter.name for parameter in nested.block.parameters])
    changed = context.layouts.changed
    again = sorted(debugged.shown & changed) if not changed.isdisjoint(found.uses) else []
    show_values(context, [*again, *(made.name for made in found.definitions)])


def hide_block(context: Context, block: wir.Block) -> None:
    """Append, at the end of a block, that its own values have no data."""
    if context.debugged is not None:
        effects = context.facts.line_effects
        made = [made for line in block.lines for made in effects.visit(line).definitions]
        names = [*(x.name for x in block.parameters), *(x.name for x in made)]
        _hide(context, names)


def emit_pointers(writer: SourceWriter, context: Context) -> None:
    """Append the pointers to ``struct Call``."""
    debugged = context.debugged
    if debugged is None or not debugged.members:
        return
    writer.emit_comment("For debuggers: the data of each value, null where it has none.")
    writer.emit_line("struct {{")
    with writer.indented():
        for member in debugged.members.values():
            writer.emit_line("{} = nullptr;", member)
    writer.emit_line("}} at;")


def _hide(context: Context, names: Iterable[str]) -> None:
    debugged = context.debugged
    assert debugged is not None
    for name in names:
        if name in debugged.members:
            debugged.shown.discard(name)
            context.writer.emit_line("c.at.{} = nullptr;", debugged.names[name])


def _format_address(context: Context, name: str) -> Fragment | None:
    """Return a ``char*``, ``None`` for what has no address that is known here.

    It appends nothing, and makes nothing that other code would use: the program is
    otherwise the same as without debug information.
    """
    type, debugged, layouts = context.facts.types[name], context.debugged, context.layouts
    assert debugged is not None
    if not isinstance(type, wir.TensorType) or type.layout == wir.ONEDNN_LAYOUT:
        return None
    if name in layouts.special or name not in context.values:
        return None
    view = context.values[name]
    storage = view.storage
    if name in layouts.changed:
        handle = context.values.known_tensor(view)
        return None if handle is None else fragment("wrapperir_data({})", handle)
    step = difference(view.first, storage.first)
    if not debugged.symbols.issuperset(wir.symbols_in(step)):
        return None
    bytes = context.expressions.format_index(step)
    if storage.handle is None or storage.constant is not None:
        return storage.base if step == 0 else fragment("{} + {}", storage.base, bytes)
    return fragment("wrapperir_data({}, {})", storage.handle, bytes)


def _c_type(dtype: wir.DType) -> Fragment:
    """Return the type of an element, ``void`` where C++ has none without PyTorch's."""
    return fragment("void") if "::" in dtype.cpp_type else fragment(dtype.cpp_type)
