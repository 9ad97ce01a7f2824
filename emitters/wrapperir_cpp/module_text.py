"""The C++ source file being written: its declarations, tables and statements."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from wrapperir.emit import Fragment, Namespace, NameTable, SourceWriter, fragment, joined
from wrapperir.ir import BodyLine
from wrapperir.ir.blocks import blocks_of
from wrapperir_cpp.literals import format_int

_WORDS = (
    # Keywords.
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char "
    "char8_t char16_t char32_t class compl concept const consteval constexpr "
    "constinit const_cast continue co_await co_return co_yield decltype default "
    "delete do double dynamic_cast else enum explicit export extern false float "
    "for friend goto if inline int long mutable namespace new noexcept not not_eq "
    "nullptr operator or or_eq private protected public register reinterpret_cast "
    "requires return short signed sizeof static static_assert static_cast struct "
    "switch template this thread_local throw true try typedef typeid typename "
    "union unsigned using virtual void volatile wchar_t while xor xor_eq "
    # Macros of headers and compilers; others are all capitals or begin with ``_``.
    "linux unix assert errno strdupa strndupa "
    # Types of elements.
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t"
)
_RESERVED = (
    # Functions of the C library.
    "main abort exit malloc free memcpy memset std "
    # Names in emitted programs, members of a call among them.
    "c f p t wrapperir num op Call run at check fail arena constant_data constants "
    "devices fixed inputs outputs "
    # Names that the runtime's headers, and the files that include them, declare.
    "AOTITorchError AtenGeneratorHandle AtenTensorHandle ConstantFact Context "
    "DType Description Device Failure FixedTensor InputFact Ints LineFact Owner "
    "LoopValues Tensor TensorFact ZeroedRange any_number call owned assert_alignment "
    "assert_finite assert_size_stride check_empty_outside check_inside "
    "check_layout check_offset check_one check_range data_of empty empty_aligned "
    "empty_pinned room_of fail_in_torch ints item_bool item_of new_handle offset_of "
    "no_ints out_of_range output sgemm_ dgemm_ size_of small_float stride_of take "
    "torch_device torch_dtype view view_as view_memory size_t Constant Fixed Slot "
    "constants_ fixed_ inputs_ lines_ timed_ zeroed_ Argument Fastest Hint Launch "
    "Use as_launch choice choice_is_open choice_is_timed choice_of given nearest "
    "nearest_of recent run_choice spanned_bytes time_choices "
    # Names that the header for graph regions declares.
    "places RegionBlock RegionFact RegionTensor bits_of run_region regions "
    # Names that the headers for devices with streams declare.
    "DeviceCall DeviceEnd DevicePlan OnStream context on "
)
WORDS = frozenset(_WORDS.split())
"""Names that C++ does not let a member have."""
RESERVED = WORDS.union(_RESERVED.split())
"""Names that a program's own may not have."""
LENGTH = 25
"""Lines of a program in one function, nested blocks included.

Compilers take far longer over one large function.
"""


def source_writer() -> SourceWriter:
    """Return a writer of C++."""
    return SourceWriter(comment_prefix="// ", indentation="  ")


def emit_rows(writer: SourceWriter, head: Fragment, rows: Iterable[Fragment]) -> None:
    """Append a table: ``head = {``, a row in braces on each line, and ``};``."""
    writer.emit_line("{} = {{", head)
    with writer.indented():
        for row in rows:
            writer.emit_line("{{{}}},", row)
    writer.emit_line("}};")


_NOT_OURS = ("_", "aoti_torch_", "wrapperir_")
"""Prefixes of names of compilers, of PyTorch's C functions and of the runtime."""
_LONGEST = 200
"""Characters of an identifier: a kernel's name and an ending make a file name."""


class CppNames(NameTable):
    """Identifiers of C++.

    Names that belong to others, or may be macros, get another beginning.
    """

    def claim(self, name: str) -> Fragment:
        """Return an identifier like ``name`` that nothing else in this table has.

        Raises:
            DiagnosticError: ``name`` is not an identifier.
        """
        if name.startswith(_NOT_OURS) or (name.isupper() and len(name) > 1):
            name = f"v_{name}"
        return super().claim(name[:_LONGEST])


class CppModule:
    """Collects the parts of ``program.cpp``; each declaration and table is written once.

    ``values``, ``symbols`` and ``kernels`` give a program's names their identifiers; all
    share one table, as C++ has one namespace for them.  ``c_functions`` are C functions of
    PyTorch's, which keep their names.  ``statics`` and ``functions`` are at file scope, in
    the unnamed namespace.  ``files`` are further files of the artifact.
    """

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        """Start with an empty file; ``reserved`` are further names not to use."""
        self.names = CppNames(RESERVED | reserved)
        self.values = Namespace(self.names)
        self.symbols = Namespace(self.names)
        self.kernels = Namespace(self.names)
        self.c_functions = Namespace(NameTable(()))
        self.statics = source_writer()
        self.functions = source_writer()
        self.files: dict[str, str | bytes] = {}
        self._declared: dict[Fragment, None] = {}
        self._tables: dict[tuple[int, ...], Fragment] = {}
        self._chunks = 0

    def declare(self, declaration: Fragment) -> None:
        """Add a declaration of a C function, such as ``void kernel(float*)``; once."""
        self._declared[declaration] = None

    def table(self, values: Sequence[int]) -> Fragment:
        """Return the name of a constant list of ``int64_t``; ``nullptr`` where empty."""
        key = tuple(values)
        if not key:
            return fragment("nullptr")
        known = self._tables.get(key)
        if known is None:
            shown = ["any" if n == -(2**63) else str(n).replace("-", "m") for n in key[:6]]
            spelled = "_".join(shown)
            known = self._tables[key] = self.names.claim(f"ints_{spelled}")
        return known

    def emit_chunks(
        self,
        writer: SourceWriter,
        lines: Sequence[BodyLine],
        emit_part: Callable[[SourceWriter, range], None],
    ) -> None:
        """Append lines, or calls of functions that hold them; ``emit_part`` appends a few.

        A function takes the call, which holds all values, so lines can be cut anywhere.
        """
        parts = list(_parts(lines))
        if len(parts) <= 1:
            emit_part(writer, range(len(lines)))
            return
        for part in parts:
            name = self.names.claim(f"chunk_{self._chunks}")
            self._chunks += 1
            body = source_writer()
            with body.indented():
                emit_part(body, part)
            self.functions.emit_line("[[gnu::noinline]] void {}(Call& c) {{", name)
            self.functions.emit_writer(body)
            self.functions.emit_line("}}")
            self.functions.emit_blank()
            writer.emit_line("{}(c);", name)

    def emit_declarations(self, writer: SourceWriter) -> None:
        """Append the declarations of C functions."""
        if not self._declared:
            return
        writer.emit_line('extern "C" {{')
        for declaration in self._declared:
            writer.emit_line("{};", declaration)
        writer.emit_line("}}")

    def emit_tables(self, writer: SourceWriter) -> None:
        """Append the constant lists."""
        for values, name in self._tables.items():
            numbers = joined(", ", [format_int(value) for value in values])
            writer.emit_line("constexpr Ints {} = ints<{}>;", name, numbers)


def _parts(lines: Sequence[BodyLine]) -> Iterator[range]:
    """Yield ranges of lines of about the same length."""
    begin = length = 0
    for index, line in enumerate(lines):
        own = min(_length(line), LENGTH)
        if length and length + own > LENGTH:
            yield range(begin, index)
            begin, length = index, 0
        length += own
    yield range(begin, len(lines))


def _length(line: BodyLine) -> int:
    return 1 + sum(min(sum(map(_length, block.lines)), LENGTH) for block in blocks_of(line))
