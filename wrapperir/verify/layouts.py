"""Facts of expressions and types: faults, symbols, bounds, and bytes of storage."""

from attrs import define, frozen

from wrapperir import ir as wir
from wrapperir.analysis.arithmetic import (
    UNBOUNDED,
    Interval,
    Polynomial,
    Polynomials,
    interval_of,
)
from wrapperir.diagnostics import Code, LinePath


@define(eq=False)
class SymbolFacts:
    """A symbol in scope: its range, and the polynomial that it was computed from."""

    kind: wir.SymbolKind
    interval: Interval
    computed: Polynomial | None
    defined: LinePath
    poisoned: bool = False


@frozen
class Fault:
    """Something wrong with an expression or type, to be reported where it is used."""

    code: Code
    message: str
    subject: str | None = None
    hint: str | None = None


@frozen(eq=False)
class ExpressionFacts:
    """The symbols of an operation, and its first fault."""

    symbols: tuple[str, ...]
    fault: Fault | None


class Expressions:
    """Checks expressions; operations are remembered by identity.

    ``symbols`` are those in scope; the caller adds and removes.
    """

    def __init__(self, symbols: dict[str, SymbolFacts]) -> None:
        """Start with nothing checked."""
        self._symbols = symbols
        self._facts: dict[int, ExpressionFacts] = {}
        self.polynomials = Polynomials(self._range, self._computed)

    def _range(self, name: str) -> Interval:
        facts = self._symbols.get(name)
        return UNBOUNDED if facts is None else facts.interval

    def _computed(self, name: str) -> Polynomial | None:
        facts = self._symbols.get(name)
        return None if facts is None else facts.computed

    def interval(self, expr: wir.Expr) -> Interval:
        """Return an interval that holds every value of a well-formed expression."""
        return interval_of(expr, self._range, self.polynomials.intervals)

    def of(self, expr: wir.Operation) -> ExpressionFacts:
        """Return the facts of an operation."""
        facts = self._facts.get(id(expr))
        if facts is None:
            facts = self._facts[id(expr)] = _examine_flat(expr) or _examine(expr)
        return facts


def _examine_flat(expr: wir.Operation) -> ExpressionFacts | None:
    """Return the facts of an operation on symbols and numbers, ``None`` for any other."""
    names: tuple[str, ...] = ()
    for arg in expr.args:
        if isinstance(arg, wir.Symbol):
            if arg.name not in names:
                names = (*names, arg.name)
        elif isinstance(arg, wir.Operation):
            return None
    return (
        ExpressionFacts(names, None) if wir.accepts_arity(expr.op, len(expr.args)) else None
    )


def _examine(root: wir.Operation) -> ExpressionFacts:
    """Walk an operation without recursion, each shared part once."""
    symbols: dict[str, None] = {}
    heights: dict[int, int] = {}
    entered: set[int] = set()
    stack: list[wir.Operation] = [root]
    while stack:
        expr = stack[-1]
        if id(expr) in heights:
            stack.pop()
            continue
        waiting: list[wir.Operation] = []
        height = 0
        for arg in expr.args:
            if isinstance(arg, wir.Operation):
                known = heights.get(id(arg))
                if known is None:
                    waiting.append(arg)
                else:
                    height = max(height, known)
            elif isinstance(arg, wir.Symbol):
                symbols[arg.name] = None
        if waiting and id(expr) in entered:
            return ExpressionFacts((), _too_deep())  # it is a part of itself
        entered.add(id(expr))
        if waiting:
            stack.extend(waiting)
            continue
        if not wir.accepts_arity(expr.op, len(expr.args)):
            return ExpressionFacts(
                (),
                Fault(
                    Code.OPERATION_ARITY,
                    f"{expr.op.value} does not take {len(expr.args)} arguments",
                ),
            )
        heights[id(expr)] = height + 1
        stack.pop()
    if heights[id(root)] > wir.MAX_DEPTH:
        return ExpressionFacts((), _too_deep())
    return ExpressionFacts(tuple(symbols), None)


def _too_deep() -> Fault:
    return Fault(
        Code.EXPRESSION_DEPTH,
        f"the expression is nested more than {wir.MAX_DEPTH} deep",
        hint="define a symbol for a part of it",
    )


MOST_BYTES = (1 << 63) - 1
"""The largest signed 64-bit byte count."""

_DEEPEST_TUPLE = 50


@define(eq=False)
class TypeFacts:
    """Facts of a type.

    ``reach`` is the number of bytes from the start of the storage to the end of the last
    element: 0 without elements, ``None`` where it is not constant or the type has faults.
    ``needs`` is the same number as a polynomial, and ``runs`` the ranges of bytes that the
    elements are in, each built when it is first asked for.
    """

    symbols: tuple[str, ...] = ()
    reach: int | None = None
    empty: bool = False
    faults: tuple[Fault, ...] = ()
    reported: bool = False
    needs: Polynomial | None = None
    runs: tuple[tuple[int, int], ...] | None = None


class Layouts:
    """Checks types; they are remembered by identity, as a program shares its types."""

    def __init__(self, symbols: dict[str, SymbolFacts]) -> None:
        """Start with nothing checked."""
        self._symbols = symbols
        self.expressions = Expressions(symbols)
        self.known: dict[int, TypeFacts] = {}
        """Facts of types, by identity."""
        self._sound_devices: set[int] = set()
        self._events: dict[wir.Device, wir.EventType] = {}

    def of(self, type: wir.ValueType) -> TypeFacts:
        """Return the facts of a type."""
        facts = self.known.get(id(type))
        return self.examine(type) if facts is None else facts

    def examine(self, type: wir.ValueType) -> TypeFacts:
        """Return the facts of a type that is not yet known."""
        if isinstance(type, wir.TensorType):
            facts = self._examine_tensor(type)
        else:
            facts = self._examine(type, 0)
        self.known[id(type)] = facts
        return facts

    def event(self, device: wir.Device) -> wir.EventType:
        """Return the type of events of a device: one object, as facts go by identity."""
        return self._events.setdefault(device, wir.EventType(device))

    def _examine(self, value: wir.ValueType, depth: int) -> TypeFacts:
        if isinstance(value, wir.TensorType):
            return self._examine_tensor(value)
        if isinstance(value, wir.ScalarType | wir.OpaqueType):
            return TypeFacts()
        if isinstance(value, wir.PoolType):
            return self._examine_pool(value)
        if isinstance(value, wir.EventType):
            fault = self.device_fault(value.device)
            return TypeFacts(faults=() if fault is None else (fault,))
        if depth > _DEEPEST_TUPLE:
            message = f"a tuple type is nested more than {_DEEPEST_TUPLE} deep"
            return TypeFacts(faults=(Fault(Code.MALFORMED, message),))
        parts = [self._examine(element, depth + 1) for element in value.elements]
        symbols = dict.fromkeys(name for part in parts for name in part.symbols)
        facts = TypeFacts(
            tuple(symbols), faults=tuple(fault for part in parts for fault in part.faults)
        )
        if any(
            isinstance(element, wir.PoolType | wir.EventType) for element in value.elements
        ):
            _add(facts, Code.MISPLACED_RESOURCE, "a tuple holds no pool and no event")
        return facts

    def _examine_pool(self, pool: wir.PoolType) -> TypeFacts:
        facts = TypeFacts()
        if type(pool.size) is not int or pool.size < 0:
            self.check_extent(facts, pool.size, "size of the pool")
        elif pool.size > MOST_BYTES:
            _add(facts, Code.TOO_LARGE, "the pool has 2**63 bytes or more")
        else:
            facts.reach = pool.size
        self._check_placement(facts, pool)
        return facts

    def _examine_tensor(self, tensor: wir.TensorType) -> TypeFacts:
        reach = _constant_reach(tensor)
        if reach is not None and reach <= MOST_BYTES:
            facts = TypeFacts((), reach, reach == 0)
        else:
            facts = TypeFacts()
            self._examine_layout(facts, tensor)
        if (
            id(tensor.device) not in self._sound_devices
            or tensor.space != wir.DEFAULT_SPACE
            or tensor.alignment is not None
            or tensor.layout is not None
        ):
            self._check_placement(facts, tensor)
        return facts

    def _examine_layout(self, facts: TypeFacts, tensor: wir.TensorType) -> None:
        """Add the faults of a layout that is too large or not constant."""
        size, stride = tensor.size, tensor.stride
        if len(size) != len(stride):
            message = f"the size has {len(size)} dimensions, the stride {len(stride)}"
            _add(facts, Code.RANK_MISMATCH, message)
        for length, step in zip(size, stride, strict=False):
            facts.empty = facts.empty or (type(length) is int and length == 0)
            self.check_extent(facts, length, "size")
            self.check_extent(facts, step, "stride")
        self.check_extent(facts, tensor.offset, "offset")
        reach = _constant_reach(tensor)
        if reach is not None and reach > MOST_BYTES:
            _add(facts, Code.TOO_LARGE, "the tensor spans 2**63 bytes or more")
        if facts.empty and not facts.faults:
            facts.reach = 0

    def check_extent(self, facts: TypeFacts, extent: wir.Expr, what: str) -> None:
        """Add the faults of a number of elements or bytes to ``facts``."""
        if type(extent) is int:
            if extent < 0:
                _add(facts, Code.NEGATIVE_EXTENT, f"the {what} {extent} is negative")
            return
        if isinstance(extent, float | bool):
            _add(facts, Code.NOT_AN_INTEGER, f"the {what} {extent} is not an integer")
            return
        names: tuple[str, ...] = ()
        if isinstance(extent, wir.Symbol):
            names = (extent.name,)
            known = self._symbols.get(extent.name)
            if known is not None and known.kind is not wir.SymbolKind.INT:
                _add(
                    facts,
                    Code.NOT_AN_INTEGER,
                    f"the {what} is the symbol {extent.name}, which is not an integer",
                    extent.name,
                )
        elif isinstance(extent, wir.Operation):
            found = self.expressions.of(extent)
            if found.fault is not None:
                facts.faults = (*facts.faults, found.fault)
                return
            names = found.symbols
        facts.symbols = tuple(dict.fromkeys((*facts.symbols, *names)))
        if self.expressions.interval(extent)[1] < 0:
            _add(facts, Code.NEGATIVE_EXTENT, f"the {what} is always negative")

    def _check_placement(
        self, facts: TypeFacts, type: wir.TensorType | wir.PoolType
    ) -> None:
        fault = self.device_fault(type.device)
        if fault is not None:
            facts.faults = (*facts.faults, fault)
        space, alignment = type.space, type.alignment
        layout = type.layout if isinstance(type, wir.TensorType) else None
        if space is not wir.DEFAULT_SPACE and not wir.is_identifier(space):
            _add(
                facts,
                Code.INVALID_PLACEMENT,
                f"{space!r} is not the name of a memory space",
            )
        if layout is not None and not wir.is_operator(layout.name):
            _add(
                facts,
                Code.INVALID_PLACEMENT,
                f"{layout.name!r} is not the name of a vendor layout",
                hint="write a namespace and a name, such as acme.tiled",
            )
        if alignment is not None and not is_power_of_two(alignment):
            _add(
                facts,
                Code.INVALID_ALIGNMENT,
                f"the alignment {alignment} is not a power of two",
                f"align = {alignment}",
            )

    def device_fault(self, device: wir.Device) -> Fault | None:
        """Return the fault of a device's name or index, or ``None``."""
        if id(device) in self._sound_devices:
            return None
        if not wir.is_identifier(device.kind) or (device.index or 0) < 0:
            return Fault(Code.INVALID_PLACEMENT, f"{str(device)!r} is not a device")
        self._sound_devices.add(id(device))
        return None


def _constant_reach(type_: wir.TensorType) -> int | None:
    """Return the end of a constant layout in bytes: 0 without elements, or ``None``."""
    offset = type_.offset
    # By class: a bool is an int, too.
    if type(offset) is not int or offset < 0 or len(type_.size) != len(type_.stride):
        return None
    last = offset
    for dim, length in enumerate(type_.size):  # faster than a zip
        step = type_.stride[dim]
        if type(length) is not int or type(step) is not int or length < 0 or step < 0:
            return None
        last += (length - 1) * step
    return 0 if 0 in type_.size else (last + 1) * type_.dtype.itemsize


def is_power_of_two(value: int) -> bool:
    """Say whether ``value`` is 1, 2, 4, 8 and so on."""
    return value > 0 and value & (value - 1) == 0


def _add(
    facts: TypeFacts,
    code: Code,
    message: str,
    subject: str | None = None,
    hint: str | None = None,
) -> None:
    facts.faults = (*facts.faults, Fault(code, message, subject, hint))
