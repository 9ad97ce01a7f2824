"""The Python module being written: its imports, globals, definitions and files."""

import builtins
import keyword
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import LiteralString

from attrs import frozen

from wrapperir.emit.source_text import (
    Fragment,
    Namespace,
    NameTable,
    SourceWriter,
    fragment,
)
from wrapperir.ir import Stream

IMPORTS: Mapping[str, LiteralString] = {
    "importlib": "import importlib.util",
    "math": "import math",
    "pathlib": "import pathlib",
    "torch": "import torch",
    "TensorDescriptor": "from triton.tools.tensor_descriptor import TensorDescriptor",
}
"""Import statements by the name they bind, in the order they are written."""


@frozen
class SupportFunction:
    """The text of a function, and the names of the imports and functions it needs."""

    text: LiteralString
    needs: tuple[LiteralString, ...] = ()


SUPPORT_FUNCTIONS: Mapping[str, SupportFunction] = {
    "ceildiv": SupportFunction(
        '''\
def ceildiv(a, b):
    """Return a / b rounded up."""
    return -(-a // b)'''
    ),
    "whole": SupportFunction(
        '''\
def whole(value):
    """Return a whole number as an int."""
    if value != int(value):
        raise ValueError(f"{{value}} is not a whole number")
    return int(value)'''
    ),
    "view_bytes": SupportFunction(
        '''\
def view_bytes(tensor, size, stride, dtype, step):
    """View a tensor's memory as another dtype, from step bytes after its first."""
    offset = tensor.storage_offset() * tensor.itemsize + step
    if offset % dtype.itemsize:
        raise ValueError(f"byte {{offset}} is not aligned for {{dtype}}")
    view = torch.empty(0, dtype=dtype, device=tensor.device)
    return view.set_(tensor.untyped_storage(), offset // dtype.itemsize, size, stride)'''
    ),
    "empty_aligned": SupportFunction(
        '''\
def empty_aligned(size, stride, dtype, extent, device, alignment):
    """Allocate a tensor whose first element's address is a multiple of alignment."""
    length = extent * dtype.itemsize + alignment
    room = torch.empty(length, dtype=torch.uint8, device=device)
    return view_bytes(room, size, stride, dtype, -room.data_ptr() % alignment)''',
        needs=("view_bytes",),
    ),
    "import_file": SupportFunction(
        '''\
def import_file(path):
    """Import a file that stands beside this one."""
    name = path.removesuffix(".py").replace("/", ".")
    file = pathlib.Path(__file__).parent / path
    spec = importlib.util.spec_from_file_location(f"{{__name__}}.{{name}}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module''',
        needs=("importlib", "pathlib"),
    ),
}
"""Support functions by name; braces are doubled, as in every template."""


RESERVED = frozenset(
    {
        *(*keyword.kwlist, "__debug__", *dir(builtins), *IMPORTS, *SUPPORT_FUNCTIONS),
        *("args", "call", "bind_constants", "constants"),
        *("bindings", "operators", "memory", "memory_check", "kernel_choices"),
        *("input_check", "launches", "graphs", "cpp_kernels"),
    }
)


class ModuleText:
    """Collects a module's parts; each binding and support function is written once.

    ``values``, ``symbols`` and ``kernels`` give a program's names their identifiers; all
    share one table, as Python has one namespace for them.  ``made`` has what the module
    defines once, by what it is for.
    """

    def __init__(self, emitter: str = "python") -> None:
        """Start with an empty module; ``emitter`` is the name of who emits it."""
        self.emitter = emitter
        self.names = NameTable(RESERVED)
        self.values = Namespace(self.names)
        self.symbols = Namespace(self.names)
        self.kernels = Namespace(self.names)
        self.definitions = SourceWriter()
        self.operators = SourceWriter()
        self.awaiting = SourceWriter()
        self.launchers = SourceWriter()
        self.choices = SourceWriter()
        self.regions = SourceWriter()
        self.files: dict[str, str | bytes] = {}
        self.streams: dict[Stream, Fragment] = {}
        self.made: dict[tuple[object, ...], Fragment] = {}
        self._claims = Counter[str]()
        self._needs: dict[str, None] = {}
        self._bindings: dict[Fragment, Fragment] = {}
        self._own: dict[Fragment, Fragment] = {}
        self._imports: dict[tuple[LiteralString, LiteralString], Fragment] = {}

    def need(self, name: LiteralString) -> Fragment:
        """Import a module or add a support function, and return its name."""
        if name not in self._needs:
            function = SUPPORT_FUNCTIONS.get(name)
            for other in function.needs if function else ():
                self.need(other)
            self._needs[name] = None
        return fragment(name)

    def bind(self, expression: Fragment, name: str) -> Fragment:
        """Return a global that holds ``expression``, named like ``name``.

        The expression is evaluated when the module is loaded.
        """
        known = self._bindings.get(expression)
        if known is None:
            known = self._bindings[expression] = self.names.claim(name)
        return known

    def bind_new(self, expression: Fragment, name: str) -> Fragment:
        """Return a global that holds ``expression``, evaluated for it alone."""
        new = self.names.claim(name)
        self._own[new] = expression
        return new

    def claim_numbered(self, name: str) -> Fragment:
        """Return a new name like ``name``; with a number from the second on."""
        self._claims[name] += 1
        count = self._claims[name]
        return self.names.claim(name if count == 1 else f"{name}_{count}")

    def import_file(
        self,
        name: LiteralString,
        folder: Path,
        *others: str | Path,
        writer: SourceWriter | None = None,
    ) -> Fragment:
        """Copy ``name.py`` and other files of a folder beside the module, and import it.

        Return the global that holds the imported module.  The import is appended to
        ``writer``, by default to the operators.
        """
        imported, path = fragment(name), f"{name}.py"
        if path not in self.files:
            for source in (folder / file for file in (path, *others)):
                self.files[source.name] = source.read_text("utf-8")
            importer = self.need("import_file")
            writer = self.operators if writer is None else writer
            writer.emit_line("{} = {}('{}.py')", imported, importer, imported)
        return imported

    def import_from_file(self, imported: Fragment, name: LiteralString) -> Fragment:
        """Return a global that holds ``name`` of an imported file."""
        key = imported, name
        if key not in self.made:
            self.made[key] = self.names.claim(name)
            self.operators.emit_line("{} = {}.{}", self.made[key], imported, fragment(name))
        return self.made[key]

    def import_from(self, package: LiteralString, name: LiteralString) -> Fragment:
        """Return a global that holds ``name`` of a module; imported once."""
        known = self._imports.get((package, name))
        if known is None:
            known = self._imports[package, name] = self.names.claim(name)
        return known

    def emit_head(self, writer: SourceWriter) -> None:
        """Append imports, bindings, support functions, definitions and functions.

        Operators are built while the kernels are, before those are waited for.
        """
        for name in (n for n in IMPORTS if n == "torch" or n in self._needs):
            writer.emit_line(IMPORTS[name])
        for (package, name), identifier in self._imports.items():
            parts = fragment(package), fragment(name), identifier
            writer.emit_line("from {} import {} as {}", *parts)
        if self._bindings or self._own:
            writer.emit_blank()
        for expression, name in self._bindings.items():
            writer.emit_line("{} = {}", name, expression)
        for name, expression in self._own.items():
            writer.emit_line("{} = {}", name, expression)
        for name in (n for n in self._needs if n in SUPPORT_FUNCTIONS):
            writer.emit_blank(2)
            writer.emit_line("{}", fragment(SUPPORT_FUNCTIONS[name].text))
        sections = self.definitions, self.operators, self.awaiting
        if any(section.line_count for section in sections):
            writer.emit_blank(2)
            for section in sections:
                writer.emit_writer(section)
        writer.emit_writer(self.launchers)
        writer.emit_writer(self.choices)
        writer.emit_writer(self.regions)
