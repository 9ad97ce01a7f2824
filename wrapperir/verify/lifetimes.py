"""Checks of allocation, free, reuse, views and leaks."""

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    AllocateLine,
    FreeLine,
    ReinterpretLine,
    ReuseLine,
    TensorType,
    ValueType,
    ZeroMode,
)
from wrapperir.verify.comparison import placement_difference, reaches_past
from wrapperir.verify.names import define, report_no_tensor, use, use_tensor
from wrapperir.verify.pools import check_element_alignment
from wrapperir.verify.state import (
    DOES_FOR_ANY,
    INPUT,
    OWNED,
    SCALAR,
    LineScope,
    Role,
    State,
    StorageFacts,
    ValueFacts,
    dropped_note,
)


def check_allocate(state: State, line: AllocateLine) -> None:
    """Define a buffer or workspace with memory of its own."""
    type, workspace = line.type, line.workspace
    if workspace is None:
        storage = StorageFacts(None, None, type, True, False)
        value = define(state, line.result, type, OWNED, storage)
        if value.facts.empty:
            storage.written = True
        return
    written = workspace is not ZeroMode.UNINITIALIZED
    storage = StorageFacts(None, None, type, True, written, workspace=workspace)
    if workspace is ZeroMode.ZERO_PER_PROGRAM:
        storage.lender = define(state, line.result, type, Role.PROGRAM_WORKSPACE, storage)
    else:
        define(state, line.result, type, OWNED, storage)


def check_free(state: State, line: FreeLine) -> None:
    """Drop a name."""
    name = line.buffer
    value = state.values.get(name)
    scope = state.scope
    if value is None or not value.live or value.scope is not scope:
        _report_bad_free(state, name, value)
    elif value.role is OWNED:
        del scope.owned[name]
        value.live = False
        value.dropped = scope.index
        value.storage.drop_name(scope)
    elif value.role is INPUT or value.role is SCALAR:
        value.live = False
        value.dropped = scope.index
    else:
        _report_borrowed_drop(state, value, value, "freed")


def _report_bad_free(state: State, name: str, value: ValueFacts | None) -> None:
    if value is not None and value.live and value.role is Role.CONSTANT:
        _report_borrowed_drop(state, value, value, "freed")
    elif value is None or value.poisoned or value.scope is not state.scope:
        use(state, name)
    else:
        value.poison()
        state.report(
            Code.DOUBLE_FREE,
            f"%{name} was dropped before",
            f"%{name}",
            notes=(dropped_note(value),),
            hint="a name is dropped once",
        )


_BORROWED = {
    Role.INPUT: (Code.REUSE_OF_BORROWED, "an input: the caller may hold its memory"),
    Role.CONSTANT: (Code.REUSE_OF_BORROWED, "a constant, which is borrowed"),
    Role.PARAMETER: (Code.PARAMETER_DROPPED, "a block parameter, which is borrowed"),
    Role.PROGRAM_WORKSPACE: (
        Code.PROGRAM_WORKSPACE_DROPPED,
        "a workspace that the program keeps between calls",
    ),
}


def _report_borrowed_drop(
    state: State, value: ValueFacts, lender: ValueFacts, verb: str
) -> None:
    code, why = _BORROWED[lender.role]
    if code is Code.REUSE_OF_BORROWED and verb == "freed":
        code = Code.CONSTANT_FREED
    what = "it is" if lender is value else f"it is memory of %{lender.name},"
    state.report_value(
        value, code, f"%{value.name} may not be {verb}: {what} {why}", lender
    )


def check_reuse(state: State, line: ReuseLine) -> None:
    """Move a reference, and its memory, to a new name and type."""
    type = line.type
    value = use(state, line.source)
    storage = StorageFacts()
    if value is None:
        storage.workspace = DOES_FOR_ANY
    else:
        if not isinstance(value.type, TensorType):
            report_no_tensor(state, value)
        elif value.storage.lender is not None:
            _report_borrowed_drop(state, value, value.storage.lender, "reused")
        else:
            storage = value.storage
            storage.workspace = None  # the bytes stay as the source left them
            _check_fit(state, value, type)
            check_element_alignment(state, value, type)
        if value.role is OWNED:
            del state.scope.owned[value.name]
            value.live = False
            value.dropped = state.scope.index
            if value.storage is not storage:
                value.storage.drop_name(state.scope)
    define(state, line.result, type, OWNED, storage)


def _check_fit(state: State, value: ValueFacts, type: TensorType) -> None:
    source = value.type
    assert isinstance(source, TensorType)
    found = placement_difference(source, type)
    if found is None and (type.layout is not None or source.layout is not None):
        found = "vendor layout" if type.layout != source.layout else None
    if (
        found is None
        and type.alignment is not None
        and (source.alignment is None or type.alignment > source.alignment)
    ):
        found = "a greater alignment"
    owner = value.storage.donated
    if found is None and owner is not None and not _has_layout(owner.type, type):
        found = f"another layout than %{owner.name}, which is not dense"
    if found is not None:
        state.report_value(
            value,
            Code.REUSE_INCOMPATIBLE,
            f"%{value.name} cannot be reused as this type: {found}",
            hint="allocate a buffer instead",
        )
        return
    extent = value.storage.extent
    if extent is not None and reaches_past(state.layouts, type, extent):
        state.report_value(
            value,
            Code.REUSE_TOO_SMALL,
            f"the memory of %{value.name} is too small{_amounts(state, type, extent)}",
            hint="allocate a buffer instead",
        )


def _has_layout(source: ValueType, type: TensorType) -> bool:
    assert isinstance(source, TensorType)
    layout = source.dtype, source.size, source.stride, source.offset
    return layout == (type.dtype, type.size, type.stride, type.offset)


def _amounts(state: State, type: TensorType, extent: TensorType) -> str:
    needs, has = state.layouts.of(type).reach, state.layouts.of(extent).reach
    if needs is None or has is None:
        return ""
    return f": {needs} bytes are needed and {has} there"


def check_reinterpret(state: State, line: ReinterpretLine) -> None:
    """Define a view: one more name of the storage of its source."""
    type = line.type
    value = use_tensor(state, line.source)
    storage = StorageFacts(workspace=DOES_FOR_ANY) if value is None else value.storage
    view = define(state, line.result, type, OWNED, storage)
    if view.live:
        storage.add_name()
    if value is None or view.facts.faults or value.facts.faults:
        return
    source = value.type
    assert isinstance(source, TensorType)
    check_element_alignment(state, value, type)
    found = None
    if (
        source.device is not type.device
        or source.space is not type.space
        or source.pinned is not type.pinned
    ):
        found = placement_difference(source, type, f"%{value.name}")
    if found is not None:
        state.report_value(
            value,
            Code.VIEW_ELSEWHERE,
            f"a view of %{value.name} cannot be elsewhere: {found}",
        )
    elif (
        storage.extent is not None
        and storage.exact
        and reaches_past(state.layouts, type, storage.extent)
    ):
        state.report_value(
            view,
            Code.OUT_OF_BOUNDS,
            "the view reaches past the storage of "
            f"%{value.name}{_amounts(state, type, storage.extent)}",
            value,
        )


def check_leaks(state: State, scope: LineScope, returned: set[str]) -> None:
    """Report the names of a scope that nothing dropped or returned."""
    for name, value in scope.owned.items():
        if name not in returned:
            state.report(
                Code.LEAK,
                f"%{name} is never freed, reused or returned",
                f"%{name}",
                path=value.defined_at(),
                hint=f"write `free %{name}` after its last use",
            )
            value.storage.drop_name(scope)
