"""Checks of values that leave a block or the program."""

from wrapperir.diagnostics import Code
from wrapperir.ir import Argument, BufferRef, EventType, Operation, PoolType, Symbol
from wrapperir.verify.names import report_resource, use, use_expression
from wrapperir.verify.state import Role, State, ValueFacts, defined_note


def use_result(state: State, argument: Argument) -> ValueFacts | None:
    """Check a result of a block; return its value if it is a live name."""
    if isinstance(argument, BufferRef):
        value = use(state, argument.name)
        if value is None:
            return None
        if isinstance(value.type, PoolType | EventType):
            report_resource(state, value, "a result")
            return None
        placement = value.storage.placement
        if value.storage.lender is not None:
            _report_borrowed(state, value, value.storage.lender)
        elif placement is not None and placement.lender is not None:
            _report_lent_pool(state, value, placement.lender)
        return value
    check_plain_result(state, argument)
    return None


def check_plain_result(state: State, argument: Argument) -> None:
    """Check an output that is not a name: a scalar expression or none."""
    if argument is None or isinstance(argument, bool):
        return
    if isinstance(argument, int | float | Symbol | Operation):
        use_expression(state, argument)
        return
    state.report(
        Code.INVALID_RESULT,
        f"{argument!r} is neither a value, a scalar nor none",
        hint="return the parts of a tuple one by one",
    )


def _report_borrowed(state: State, value: ValueFacts, lender: ValueFacts) -> None:
    if lender.role is Role.PROGRAM_WORKSPACE:
        report_returned_workspace(state, value, lender)
        return
    what = "a parameter" if lender.role is Role.PARAMETER else "a constant"
    how = f"is {what}" if lender is value else f"is a view of {what}, %{lender.name}"
    if not value.storage.certain and lender is not value:
        how = f"is perhaps a view of {what}, %{lender.name}"
    state.report(
        Code.BORROWED_RESULT,
        f"%{value.name} {how}, which the block does not own",
        f"%{value.name}",
        notes=(defined_note(lender),),
        hint="return a copy",
    )


def _report_lent_pool(state: State, value: ValueFacts, lender: ValueFacts) -> None:
    state.report(
        Code.BORROWED_RESULT,
        f"%{value.name} lies in the pool %{lender.name}, which the block does not own",
        f"%{value.name}",
        notes=(defined_note(lender),),
        hint="return a copy, or write the result to a buffer that is an operand",
    )
    value.poison()


def report_returned_workspace(state: State, value: ValueFacts, lender: ValueFacts) -> None:
    """Report that memory which the program keeps is given away."""
    state.report(
        Code.PROGRAM_WORKSPACE_DROPPED,
        f"%{value.name} is memory of %{lender.name}, which the program keeps between calls",
        f"%{value.name}",
        notes=(defined_note(lender),),
    )
