"""Checks of operator calls, and of elements taken from their results.

PyTorch is not asked which operators exist, nor for their schemas.
"""

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    Argument,
    BufferRef,
    Device,
    DType,
    ExternKernelLine,
    MultiOutputLine,
    Operation,
    Symbol,
    TensorType,
    TorchEnum,
    TupleType,
    ValueType,
    is_identifier,
    is_operator,
)
from wrapperir.ir.storage_operators import looks_at_storage, reads_elements
from wrapperir.verify.aliasing import merged_storage, write
from wrapperir.verify.comparison import difference
from wrapperir.verify.events import check_stream
from wrapperir.verify.names import (
    define,
    define_result,
    report_resource,
    use,
    use_expression,
)
from wrapperir.verify.state import Role, State, StorageFacts, ValueFacts, defined_note
from wrapperir.verify.written_bytes import check_read

_LITERALS = frozenset({int, float, bool, str, type(None), DType, Device, TorchEnum})
_DEEPEST_ARGUMENT = 50


def check_extern_kernel(state: State, line: ExternKernelLine) -> None:
    """Check an operator call and define its result."""
    if not is_operator(line.operator):
        state.report(
            Code.INVALID_OPERATOR,
            f"{line.operator!r} is not the name of an operator",
            line.operator,
            hint="write namespace, name and overload, such as aten.mm.out",
        )
    check_stream(state, line.device, line.stream)
    names: list[str] = []
    for argument in line.arguments:
        if isinstance(argument, BufferRef):
            name = argument.name
            use(state, name)
            names.append(name)
        elif argument.__class__ not in _LITERALS:
            _use_argument(state, argument, names, 0)
    if line.keywords:
        _check_keywords(state, line, names)
    if state.resources and not state.resources.isdisjoint(names):
        _report_resources(state, names)
    if looks_at_storage(line.operator):
        _report_placed(state, line.operator, names)
    _check_reads(state, line, names)
    if line.writes:
        _check_writes(state, line.writes, names)
    if line.result is not None and line.type is not None:
        storage = _result_storage(state, line, names) if line.aliases else StorageFacts()
        if isinstance(line.type, TensorType) and not line.aliases:
            storage.extent = line.type
        define_result(state, line.result, line.type, storage)
        return
    if line.aliases:
        _result_storage(state, line, names)
    if line.result is not None or line.type is not None:
        state.report(
            Code.RESULT_WITHOUT_TYPE,
            "the call has a result but no type for it"
            if line.type is None
            else "the call has a type but no result",
            f"%{line.result}" if line.result is not None else None,
        )
        if line.result is not None:
            define(state, line.result, TupleType(()), Role.SCALAR, StorageFacts()).poison()


def _use_argument(state: State, argument: Argument, names: list[str], depth: int) -> None:
    """Use the values and symbols of an argument; add the names of values to ``names``."""
    if isinstance(argument, BufferRef):
        use(state, argument.name)
        names.append(argument.name)
    elif isinstance(argument, tuple):
        if depth > _DEEPEST_ARGUMENT:
            state.report(
                Code.MALFORMED,
                f"an argument is nested more than {_DEEPEST_ARGUMENT} deep",
            )
            return
        for item in argument:
            if item.__class__ not in _LITERALS:
                _use_argument(state, item, names, depth + 1)
    elif isinstance(argument, Symbol | Operation):
        use_expression(state, argument)


def _report_resources(state: State, names: list[str]) -> None:
    for name in dict.fromkeys(names):
        value = state.values.get(name)
        if name in state.resources and value is not None and value.live:
            report_resource(state, value, "an argument of an operator")


def _report_placed(state: State, operator: str, names: list[str]) -> None:
    for name in dict.fromkeys(names):
        value = state.values.get(name)
        if value is not None and value.live and value.storage.placement is not None:
            state.report(
                Code.STORAGE_OF_PLACED,
                f"{operator} looks at the storage of %{name}, which is that of a pool",
                f"%{name}",
                notes=(defined_note(value),),
                hint="allocate the buffer instead",
            )


def _check_keywords(state: State, line: ExternKernelLine, names: list[str]) -> None:
    seen: set[str] = set()
    for keyword, argument in line.keywords:
        if not is_identifier(keyword):
            state.report(
                Code.INVALID_IDENTIFIER,
                f"the keyword {keyword!r} is not an identifier",
                keyword,
            )
        if keyword in seen:
            state.report(
                Code.DUPLICATE_NAME, f"the keyword {keyword} occurs twice", keyword
            )
        seen.add(keyword)
        given: list[str] = []
        _use_argument(state, argument, given, 0)
        names.extend(given)
        if keyword == "out":
            for name in given:
                if name not in line.writes:
                    state.report(
                        Code.OUT_NOT_WRITTEN,
                        f"the call's out, %{name}, is not among its writes",
                        f"%{name}",
                        hint=f"add writes(%{name})",
                    )
                    _write(state, name)


def _check_reads(state: State, line: ExternKernelLine, names: list[str]) -> None:
    """Report arguments that the call certainly reads and that nothing wholly wrote."""
    for name in names:
        value = state.values.get(name)
        if value is None or not value.live:
            continue
        storage = value.storage
        if (
            (not storage.written or storage.unwritten is not None)
            and name not in line.writes
            and name not in line.aliases
            and reads_elements(line.operator)
        ):
            check_read(state, value, f"{line.operator} reads")


def _check_writes(state: State, writes: tuple[str, ...], names: list[str]) -> None:
    given = set(names)
    for name in writes:
        if name in given:
            _write(state, name)
        else:
            _report_not_given(state, name, "writes")


def _write(state: State, name: str) -> None:
    value = state.values.get(name)
    if value is not None and value.live:
        write(state, value)


def _result_storage(state: State, line: ExternKernelLine, names: list[str]) -> StorageFacts:
    given = set(names)
    sources: list[ValueFacts] = []
    for name in line.aliases:
        if name not in given:
            _report_not_given(state, name, "aliases")
            continue
        value = state.values.get(name)
        if value is not None and value.live:
            sources.append(value)
    return merged_storage(sources)


def _report_not_given(state: State, name: str, what: str) -> None:
    value = state.values.get(name)
    if value is not None and value.poisoned:
        return
    state.report(
        Code.NOT_AN_ARGUMENT,
        f"%{name} is in {what}, but not an argument of the call",
        f"%{name}",
    )


def check_multi_output(state: State, line: MultiOutputLine) -> None:
    """Name an element of a tuple."""
    value = use(state, line.source)
    storage = StorageFacts()
    if value is not None:
        _check_element(state, line, value)
        of_tuple = value.storage
        storage = StorageFacts(of_tuple.lender, of_tuple.read_only, certain=False)
    if storage.lender is None and isinstance(line.type, TensorType):
        storage.extent = line.type
    define_result(state, line.result, line.type, storage)


def _check_element(state: State, line: MultiOutputLine, value: ValueFacts) -> None:
    element: ValueType = value.type
    notes = (defined_note(value),)
    if not line.indices:
        state.report(
            Code.TUPLE_INDEX,
            f"no index says which element of %{line.source} is meant",
            f"%{line.source}",
            notes=notes,
        )
        return
    for index in line.indices:
        if not isinstance(element, TupleType):
            state.report(
                Code.NOT_A_TUPLE,
                f"%{line.source} is not a tuple"
                if element is value.type
                else f"an element of %{line.source} is not a tuple",
                f"%{line.source}",
                notes=notes,
            )
            return
        if not 0 <= index < len(element.elements):
            state.report(
                Code.TUPLE_INDEX,
                f"there is no element {index}: %{line.source} has {len(element.elements)}",
                f"[{index}]",
                notes=notes,
            )
            return
        element = element.elements[index]
    found = difference(state.layouts, element, line.type)
    if found is not None:
        state.report(
            Code.TUPLE_TYPE,
            f"%{line.result} is declared otherwise than in %{line.source}: {found}",
            f"%{line.result}",
            notes=notes,
        )
