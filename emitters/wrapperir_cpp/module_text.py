"""The C++ source file being written: its declarations, tables and statements."""

from collections.abc import Sequence

from wrapperir.emit import Fragment, Namespace, NameTable, SourceWriter, fragment, joined
from wrapperir_cpp.literals import format_int
from wrapperir_cpp.reserved import RESERVED


def source_writer() -> SourceWriter:
    """Return a writer of C++."""
    return SourceWriter(comment_prefix="// ", indentation="  ")


_NOT_OURS = ("_", "aoti_torch_", "wrapperir_")
"""How names of compilers, of PyTorch's C functions and of the runtime begin."""
_LONGEST = 200
"""Characters of an identifier: kernels name files, which have an ending."""


class CppNames(NameTable):
    """Identifiers of C++.

    Names that belong to others, or may be macros, get another beginning.
    """

    def claim(self, name: str) -> Fragment:
        """Return an identifier like ``name`` that nothing else in this table has.

        Raises:
            DiagnosticError: ``name`` is no identifier.
        """
        if name.startswith(_NOT_OURS) or (name.isupper() and len(name) > 1):
            name = f"v_{name}"
        return super().claim(name[:_LONGEST])


class CppModule:
    """Collects the parts of ``program.cpp``; each declaration and table is written once.

    ``values``, ``symbols`` and ``kernels`` give a program's names their identifiers; all
    share one table, as C++ has one namespace for them.  ``functions`` are C functions of
    PyTorch's, which keep their names.  ``statics`` is at file scope, in the unnamed
    namespace, before all functions.  ``files`` are further files of the artifact.
    """

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        """Start with an empty file; ``reserved`` are further names not to use."""
        self.names = CppNames(RESERVED | reserved)
        self.values = Namespace(self.names)
        self.symbols = Namespace(self.names)
        self.kernels = Namespace(self.names)
        self.functions = Namespace(NameTable(()))
        self.statics = source_writer()
        self.files: dict[str, str | bytes] = {}
        self._declared: dict[Fragment, None] = {}
        self._tables: dict[tuple[int, ...], Fragment] = {}

    def declare(self, declaration: Fragment) -> None:
        """Add a declaration of a C function, such as ``void kernel(float*)``; once."""
        self._declared[declaration] = None

    def table(self, values: Sequence[int]) -> Fragment:
        """Return the name of a static array of ``int64_t``; ``nullptr`` where empty."""
        key = tuple(values)
        if not key:
            return fragment("nullptr")
        known = self._tables.get(key)
        if known is None:
            shown = ["any" if n == -(2**63) else str(n).replace("-", "m") for n in key[:6]]
            spelled = "_".join(shown)
            known = self._tables[key] = self.names.claim(f"ints_{spelled}")
        return known

    def emit_declarations(self, writer: SourceWriter) -> None:
        """Append the declarations of C functions."""
        if not self._declared:
            return
        writer.emit_line('extern "C" {{')
        for declaration in self._declared:
            writer.emit_line("{};", declaration)
        writer.emit_line("}}")

    def emit_tables(self, writer: SourceWriter) -> None:
        """Append the static arrays."""
        for values, name in self._tables.items():
            numbers = joined(", ", [format_int(value) for value in values])
            writer.emit_line("constexpr int64_t {}[] = {{{}}};", name, numbers)
