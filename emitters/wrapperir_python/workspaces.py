"""Workspaces that a program keeps from one call to the next, in Python."""

from typing import TYPE_CHECKING

from wrapperir.emit.fragment import Fragment
from wrapperir.ir.types import TensorType

if TYPE_CHECKING:
    from wrapperir_python.lines import PythonLines


def emit_program_workspace(lines: "PythonLines", name: Fragment, type: TensorType) -> None:
    """Append a ``zero_per_program`` workspace: a global, or one kept for each layout."""
    definitions = lines.module.definitions
    layout = (*type.size, *type.stride, type.offset)
    static = all(isinstance(entry, int) for entry in layout)
    allocation = lines.format_allocation(type, in_call=not static)
    if static:
        definitions.emit_line("{} = {}.zero_()", name, allocation)
        return
    kept = lines.module.names.claim("kept_workspaces")
    definitions.emit_line("{} = {{}}", kept)
    key = lines.expressions.format_tuple(layout)
    writer = lines.writer
    writer.emit_line("{} = {}.get({})", name, kept, key)
    writer.emit_line("if {} is None:", name)
    with writer.indented():
        writer.emit_line("{} = {}[{}] = {}.zero_()", name, kept, key, allocation)
