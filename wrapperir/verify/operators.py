"""Checks of operator calls, and of elements taken from their results.

PyTorch is not asked which operators exist, nor for their schemas.
"""

from typing import TypeAlias

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.ir.mentions import buffers_in
from wrapperir.ir.storage_operators import looks_at_storage, reads_elements
from wrapperir.verify.accesses import check_read, check_writable, merged_storage, note_write
from wrapperir.verify.comparison import difference
from wrapperir.verify.names import (
    define,
    define_result,
    report_resource,
    use,
    use_expression,
)
from wrapperir.verify.state import Role, State, StorageFacts, ValueFacts, defined_note
from wrapperir.verify.symbols import check_stream

_LITERALS = frozenset(
    {int, float, bool, str, type(None), wir.DType, wir.Device, wir.TorchEnum}
)
_DEEPEST_ARGUMENT = 50


def check_extern_kernel(state: State, line: wir.ExternKernelLine) -> None:
    """Check an operator call and define its result."""
    if not wir.is_operator(line.operator):
        state.report(
            Code.INVALID_OPERATOR,
            f"{line.operator!r} is not the name of an operator",
            line.operator,
            hint="write namespace, name and overload, such as aten.mm.out",
        )
    check_stream(state, line.device, line.stream)
    given: _GivenValues = {}
    for argument in line.arguments:
        if argument.__class__ not in _LITERALS:
            _use_argument(state, argument, given, 0)
    if line.keywords:
        _check_keywords(state, line, given)
    if state.resources and not state.resources.isdisjoint(given):
        for value in given.values():
            if value is not None and value.name in state.resources:
                report_resource(state, value, "an argument of an operator")
    if looks_at_storage(line.operator):
        _report_placed(state, line.operator, given)
    for name, value in given.items():
        if (
            value is not None
            and (not value.storage.written or value.storage.unwritten is not None)
            and value.live
            and name not in line.writes
            and name not in line.aliases
            and reads_elements(line.operator)
        ):
            check_read(state, value, f"{line.operator} reads")
    for name in line.writes:
        value = _given(state, name, given, "writes")
        if value is not None:
            note_write(state, value)
            check_writable(state, value)
    if line.result is not None and line.type is not None:
        sources = _aliased(state, line, given) if line.aliases else []
        storage = merged_storage(sources) if line.aliases else StorageFacts()
        if isinstance(line.type, wir.TensorType) and not line.aliases:
            storage.extent = line.type
        value = define_result(state, line.result, line.type, storage)
        if sources:
            storage.keep(value, [source.storage for source in sources])
        return
    if line.aliases:
        _aliased(state, line, given)
    if line.result is not None or line.type is not None:
        state.report(
            Code.RESULT_WITHOUT_TYPE,
            "the call has a result but no type for it"
            if line.type is None
            else "the call has a type but no result",
            f"%{line.result}" if line.result is not None else None,
        )
        if line.result is not None:
            define(
                state, line.result, wir.TupleType(()), Role.SCALAR, StorageFacts()
            ).poison()


_GivenValues: TypeAlias = dict[str, ValueFacts | None]
"""The names that a call is given, with their values if they are live."""


def _use_argument(
    state: State, argument: wir.Argument, given: _GivenValues, depth: int
) -> None:
    """Use the values and symbols of an argument; add the names of values to ``given``."""
    if isinstance(argument, wir.BufferRef):
        given[argument.name] = use(state, argument.name)
    elif isinstance(argument, tuple):
        if depth > _DEEPEST_ARGUMENT:
            state.report(
                Code.MALFORMED,
                f"an argument is nested more than {_DEEPEST_ARGUMENT} deep",
            )
            return
        for item in argument:
            if item.__class__ not in _LITERALS:
                _use_argument(state, item, given, depth + 1)
    elif isinstance(argument, wir.Symbol | wir.Operation):
        use_expression(state, argument)


def _report_placed(state: State, operator: str, given: _GivenValues) -> None:
    for name, value in given.items():
        if value is not None and value.live and value.storage.placement is not None:
            state.report_value(
                value,
                Code.STORAGE_OF_PLACED,
                f"{operator} looks at the storage of %{name}, which is that of a pool",
                hint="allocate the buffer instead",
            )


def _check_keywords(state: State, line: wir.ExternKernelLine, given: _GivenValues) -> None:
    seen: set[str] = set()
    for keyword, argument in line.keywords:
        state.check_identifier("the keyword", keyword)
        if keyword in seen:
            state.report(
                Code.DUPLICATE_NAME, f"the keyword {keyword} occurs twice", keyword
            )
        seen.add(keyword)
        _use_argument(state, argument, given, 0)
        if keyword == "out":
            for name in buffers_in(argument):
                if name not in line.writes:
                    state.report(
                        Code.OUT_NOT_WRITTEN,
                        f"the call's out, %{name}, is not among its writes",
                        f"%{name}",
                        hint=f"add writes(%{name})",
                    )
                    value = given.get(name)
                    if value is not None:
                        note_write(state, value)
                        check_writable(state, value)


def _given(state: State, name: str, given: _GivenValues, clause: str) -> ValueFacts | None:
    """Return the live value of a name in a clause; report a name that is not given."""
    value = given.get(name)
    if name not in given:
        known = state.values.get(name)
        if known is None or not known.poisoned:
            state.report(
                Code.NOT_AN_ARGUMENT,
                f"%{name} is in {clause}, but not an argument of the call",
                f"%{name}",
            )
    return value if value is not None and value.live else None


def _aliased(
    state: State, line: wir.ExternKernelLine, given: _GivenValues
) -> list[ValueFacts]:
    """Return the live values whose memory the result may have."""
    sources = [_given(state, name, given, "aliases") for name in line.aliases]
    return [value for value in sources if value is not None]


def check_multi_output(state: State, line: wir.MultiOutputLine) -> None:
    """Name an element of a tuple."""
    value = use(state, line.source)
    storage = StorageFacts()
    if value is not None:
        _check_element(state, line, value)
        of_tuple = value.storage
        storage = StorageFacts(
            of_tuple.lender, of_tuple.read_only, certain=False, perhaps=of_tuple.perhaps
        )
    if storage.lender is None and isinstance(line.type, wir.TensorType):
        storage.extent = line.type
    element = define_result(state, line.result, line.type, storage)
    if value is not None:
        storage.keep(element, [value.storage])


def _check_element(state: State, line: wir.MultiOutputLine, value: ValueFacts) -> None:
    element: wir.ValueType = value.type
    if not line.indices:
        message = f"no index says which element of %{line.source} is meant"
        state.report_value(value, Code.TUPLE_INDEX, message)
        return
    for index in line.indices:
        if not isinstance(element, wir.TupleType):
            what = "" if element is value.type else "an element of "
            message = f"{what}%{line.source} is not a tuple"
            state.report_value(value, Code.NOT_A_TUPLE, message)
            return
        if not 0 <= index < len(element.elements):
            state.report(
                Code.TUPLE_INDEX,
                f"there is no element {index}: %{line.source} has {len(element.elements)}",
                f"[{index}]",
                notes=(defined_note(value),),
            )
            return
        element = element.elements[index]
    found = difference(state.layouts, element, line.type)
    if found is not None:
        state.report(
            Code.TUPLE_TYPE,
            f"%{line.result} is declared otherwise than in %{line.source}: {found}",
            f"%{line.result}",
            notes=(defined_note(value),),
        )
