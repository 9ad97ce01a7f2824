"""State shared by the functions that emit one program."""

from collections.abc import Iterable, Sequence
from typing import cast

from attrs import frozen

from wrapperir.emit import Fragment, Namespace, fragment, joined
from wrapperir.emit.arena import plan_arena
from wrapperir.emit.argument_facts import survey_arguments
from wrapperir.emit.context import Emission, ProgramFacts
from wrapperir.ir import Device, DType, Expr, Program, Stream, SymbolKind
from wrapperir_cpp.device_table import DeviceTable
from wrapperir_cpp.expressions import CppExpressions
from wrapperir_cpp.literals import C_TYPES, format_int
from wrapperir_cpp.module_text import WORDS, CppModule, CppNames, source_writer
from wrapperir_cpp.surveys import survey_devices, survey_layouts
from wrapperir_cpp.value_storage import ValueStorage


@frozen
class FixedKey:
    """A tensor that frames hold: at a byte of a constant, or of the arena (-1)."""

    constant: int
    offset: int
    dtype: DType
    size: tuple[int, ...]
    stride: tuple[int, ...]


class CallMembers:
    """The members of ``struct Call``, in the order that they are first needed.

    Attributes:
        numbers: Declarations such as ``int64_t s0``.
        slots: Enumerators of tensors.
        fixed: Enumerators of the tensors in frames; all names of each.
        roots: Enumerators of root storages.
        views: Enumerators of views, by the value's name.
    """

    def __init__(self) -> None:
        """Start without members."""
        self.numbers: list[Fragment] = []
        self.slots: dict[Fragment, None] = {}
        self.fixed: dict[FixedKey, list[Fragment]] = {}
        self.roots: set[Fragment] = set()
        self.views: dict[str, Fragment] = {}

    def add_number(self, kind: SymbolKind, name: Fragment) -> Fragment:
        """Add a number, and return the lvalue."""
        self.numbers.append(format_declaration(kind, name))
        return fragment("c.{}", name)

    def add_slot(self, name: Fragment) -> Fragment:
        """Add a slot unless there is one of that name; return the lvalue."""
        self.slots[name] = None
        return fragment("c.t[{}]", name)

    def add_fixed(self, key: FixedKey, name: Fragment) -> Fragment:
        """Add a name of a fixed tensor, and return its handle."""
        names = self.fixed.setdefault(key, [])
        if name not in names:
            names.append(name)
        return fragment("c.fixed[{}]", name)


def format_declaration(kind: SymbolKind, name: Fragment) -> Fragment:
    """Return ``int64_t s0``."""
    return fragment("{} {}", fragment(C_TYPES[kind]), name)


class ChoiceTables:
    """C++ names of the tables and functions that calls of multi-kernels share.

    Attributes:
        recent: Count of the numbers that a frame keeps: for each call that chooses by the
            nearest hint, its last sizes and choice.
        hints: Tables of hints, by multi-kernel.
        functions: Decision functions, by multi-kernel and text: equal expressions may
            differ in 2 and 2.0.
        fastest: Timed choices, by multi-kernel, types and numbers of the arguments as text,
            and device.
        names: Tables of the names of choices, by multi-kernel.
    """

    def __init__(self) -> None:
        """Start without tables."""
        self.recent = 0
        self.hints: dict[str, Fragment] = {}
        self.functions: dict[tuple[str, str], Fragment] = {}
        self.fastest: dict[tuple[object, ...], Fragment] = {}
        self.names: dict[str, Fragment] = {}


class DebuggedValues:
    """The pointers that debuggers find by the names of values, in ``c.at``.

    Attributes:
        names: Members, by the value's name.
        members: Declarations such as ``float* buf0``, by the value's name.
        shown: Values that have an address where lines are appended.
        symbols: Symbols that are defined there.
    """

    def __init__(self, values: Iterable[str]) -> None:
        """Start without pointers; ``values`` are the names of all values.

        Those that C++ can have are spelled as they are, whatever the others become.
        """
        self.names = Namespace(CppNames(WORDS))
        for name in sorted(values, key=lambda name: CppNames(WORDS).claim(name) != name):
            _ = self.names[name]
        self.members: dict[str, Fragment] = {}
        self.shown: set[str] = set()
        self.symbols: set[str] = set()

    def add(self, name: str, c_type: Fragment) -> Fragment:
        """Add a value that has an address now, and return its member."""
        self.members[name] = fragment("{}* {}", c_type, self.names[name])
        self.shown.add(name)
        return self.names[name]


class Context(Emission):
    """One program being emitted: facts, names, values, the writer and the problems found.

    ``writer`` receives the current function's statements; what belongs to the file goes
    to ``module``.  All values of a call are members of ``c``, so that any two lines can be
    put into different functions.

    Attributes:
        tables: The kinds of device that the emitter knows, by name.
        devices: The program's use of devices with streams.
        layouts: Layouts of tensors that are certain.
        arguments: Facts that all calls of a kernel share, for each of its arguments.
        arena: Places of storages that are known before the run.
        current_stream: The stream that is PyTorch's current one where lines are appended;
            ``None`` without devices that have streams.
        late_drops: Slots that a graph region frees at its end; ``None`` elsewhere.
        checked: Tensors whose sizes and strides the lines so far have compared with their
            types'.
        product_states: Members for cuBLAS, by the devices that multiply matrices.
        regions: C++ names of the facts of graph regions that are recorded.
        debugged: The pointers that debuggers read; ``None`` without debug information.
    """

    def __init__(
        self, program: Program, tables: Sequence[DeviceTable], *, debugged: bool = False
    ) -> None:
        """Start with an empty function body."""
        super().__init__(ProgramFacts(program))
        self.tables = {table.kind: table for table in tables}
        kinds = frozenset(table.kind for table in tables if table.functions)
        self.devices = survey_devices(self.facts, kinds)
        self.layouts = survey_layouts(self.facts)
        self.arguments = survey_arguments(self.facts)
        self.arena = plan_arena(
            program, self.devices.kinds, has_streams=bool(self.devices.streams)
        )
        reserved = frozenset[str]().union(*(table.reserved for table in tables))
        self.module = module = CppModule(reserved)
        self.writer = source_writer()
        self.checked: set[str] = set()
        first = next(iter(self.devices.devices), None)
        self.current_stream = None if first is None else Stream(first)
        self.late_drops: list[Fragment] | None = None
        self.call = CallMembers()
        for item in program.inputs:
            _ = module.values[item.name]  # inputs keep their names, symbols may differ
        kinds_of_symbols = self.facts.kinds.symbols
        self.symbols = {
            name: fragment("c.{}", module.symbols[name]) for name in kinds_of_symbols
        }
        self.expressions = CppExpressions(self.symbols, kinds_of_symbols)
        self.values = ValueStorage(self._emit_drop)
        self.choices = ChoiceTables()
        self.regions: list[Fragment] = []
        self.debugged = DebuggedValues(self.facts.types) if debugged else None
        self.device_names = {
            device: module.names.claim(f"{device.kind}_{device.index or 0}")
            for device in self.devices.devices
        }
        self.product_states = {
            device: module.names.claim(f"{name}_products")
            for device, name in self.device_names.items()
            if device in self.devices.products
        }

    def has_exact_layout(self, name: str) -> bool:
        """Say whether a tensor is certain to have the sizes and strides of its type."""
        return name in self.layouts.exact or name in self.checked

    def line_number(self) -> Fragment:
        """Return the index of the top-level line that is being emitted; -1 before any."""
        is_line = self.path[0] == "lines"
        return format_int(cast(int, self.path[1])) if is_line else format_int(-1)

    def format_ints(self, values: Sequence[Expr]) -> Fragment:
        """Return a list of sizes or strides: a constant, or numbers in braces."""
        numbers = [value for value in values if isinstance(value, int)]
        if len(numbers) == len(values):
            return self.module.table(numbers)
        parts = [self.expressions.format_index(value) for value in values]
        return fragment("{{{}}}", joined(", ", parts))

    def table_of(self, device: Device) -> DeviceTable | None:
        """Return the table of a device that has functions; ``None`` for the host."""
        table = self.tables.get(device.kind)
        return table if table is not None and table.functions else None

    def _emit_drop(self, slot: Fragment) -> None:
        if self.late_drops is not None:
            self.late_drops.append(slot)
        elif not self.devices.streams or len(self.values.scopes) > 1:
            self.writer.emit_line("{}.reset();", slot)
        # Other slots are freed at the end of the call, where the streams have met again.
