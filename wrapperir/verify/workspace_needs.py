"""Workspaces that the choices of a multi-kernel need, and checks that calls pass them."""

from collections.abc import Mapping, Sequence

from wrapperir import ir as wir
from wrapperir.analysis.arithmetic import Polynomial, combine
from wrapperir.diagnostics import Code
from wrapperir.text.expressions import format_expression
from wrapperir.verify.state import (
    KernelSignature,
    NeededWorkspace,
    State,
    ValueFacts,
)


class Needs:
    """Gathers the needs of each workspace from the choices of a multi-kernel."""

    def __init__(
        self,
        state: State,
        own: Sequence[wir.RuntimeParameter | None],
        known: Mapping[str, wir.DType],
    ) -> None:
        """Start without needs; ``own`` are the multi-kernel's parameters."""
        self._state = state
        self._own = own
        self._known = known
        self.found: dict[int, NeededWorkspace] = {}
        """The combined needs of the choices, by parameter."""

    def add(self, choice: wir.KernelChoice, signature: KernelSignature) -> None:
        """Check and add the needs of a choice; its kernel has this signature."""
        access = {
            position: parameter.access
            for position, parameter in zip(
                choice.arguments, signature.parameters or (), strict=True
            )
            if isinstance(parameter, wir.TensorParameter)
        }
        needed: set[int] = set()
        for need in choice.workspaces:
            found = access.get(need.parameter)
            problem, hint = None, ""
            if found is None or not found.writes:
                problem = ", and does not write it"
                hint = "a workspace is a buffer that the choice is given and writes"
            elif need.parameter in needed:
                problem, hint = " twice", "say once what a choice needs of a workspace"
            elif not found.reads and need.mode is not wir.ZeroMode.UNINITIALIZED:
                problem = f" {need.mode.value}, and does not read it"
                hint = "declare it read_write, or need it uninitialized"
            needed.add(need.parameter)
            if problem is None:
                self._gather(choice, need, self._check_count(choice, need.count))
            else:
                name = self._name(need.parameter)
                self._report(choice, f"needs the workspace {name}{problem}", hint)

    def _name(self, parameter: int) -> str:
        facts = self._own[parameter] if 0 <= parameter < len(self._own) else None
        return f"parameter {parameter}" if facts is None else facts.name

    def _report(self, choice: wir.KernelChoice, message: str, hint: str) -> None:
        self._state.report(
            Code.WORKSPACE_NEED,
            f"@{choice.kernel} {message}",
            f"@{choice.kernel}",
            hint=hint,
        )

    def _check_count(self, choice: wir.KernelChoice, count: wir.Expr) -> bool:
        """Report the fault of a count; say whether calls can be checked against it."""
        names = self._state.expression_symbols(count)
        if isinstance(count, wir.Operation):
            if self._state.layouts.expressions.of(count).fault:
                return False
        elif not isinstance(count, wir.Symbol) and (type(count) is not int or count < 0):
            self._report(
                choice,
                f"needs {count} elements of a workspace",
                "a count is a whole number of elements",
            )
            return False
        for name in names:
            dtype = self._known.get(name)
            if dtype is None or not dtype.is_integer:
                self._report(
                    choice,
                    f"needs a number of elements that mentions {name}",
                    "a count sees the integer scalar parameters and the sizes",
                )
                return False
        return _is_whole(count)

    def _gather(
        self, choice: wir.KernelChoice, need: wir.WorkspaceNeed, is_sound: bool
    ) -> None:
        found = self.found.get(need.parameter)
        if found is None:
            found = self.found[need.parameter] = NeededWorkspace(
                need.parameter, need.mode, choice.kernel
            )
        elif found.mode is not None:
            mode = wir.combined_mode(found.mode, need.mode)
            if mode is None:
                self._state.report(
                    Code.WORKSPACE_MODES,
                    f"@{found.asker} and @{choice.kernel} cannot share the workspace "
                    f"{self._name(need.parameter)}: the one needs it {found.mode.value}, "
                    f"the other {need.mode.value}",
                    f"@{choice.kernel}",
                    hint="give them a parameter each, or have both need it alike",
                )
            elif mode is not found.mode:
                found.asker = choice.kernel
            found.mode = mode
        if is_sound and isinstance(need.count, int):
            _, most = found.counts.setdefault(int, (choice.kernel, need.count))
            if isinstance(most, int) and need.count > most:
                found.counts[int] = (choice.kernel, need.count)
        elif is_sound:
            polynomials = self._state.layouts.expressions.polynomials
            written = polynomials.written(need.count)
            found.counts.setdefault(written, (choice.kernel, need.count))


_EXACT = frozenset({wir.ExprOp.ADD, wir.ExprOp.SUB, wir.ExprOp.MUL, wir.ExprOp.NEG})


def _is_whole(count: wir.Expr) -> bool:
    """Say whether a count has no fraction, so that its polynomial is exact."""
    waiting, seen = [count], set[int]()
    while waiting:
        part = waiting.pop()
        if isinstance(part, float):
            return False
        if isinstance(part, wir.Operation) and part.op in _EXACT and id(part) not in seen:
            seen.add(id(part))
            waiting += part.args
    return True


def check_choosing(
    state: State, signature: KernelSignature, arguments: Sequence[wir.KernelArgument]
) -> None:
    """Check the dimensions and workspaces that a call passes to a multi-kernel."""
    for size in signature.sizes:
        value = _tensor(state, arguments[size.parameter])
        if value is not None and size.dim >= len(_type(value).size):
            state.report_value(
                value,
                Code.SIZE_DIMENSION,
                f"%{value.name} has {len(_type(value).size)} dimensions, and the "
                f"multi-kernel picks by its size along dimension {size.dim}",
            )
    if not signature.workspaces:
        return
    given = _given(signature, state, arguments)
    for needed in signature.workspaces:
        value = _tensor(state, arguments[needed.parameter])
        if value is not None and not value.facts.faults:
            _check_mode(state, needed, value)
            _check_extent(state, needed, value, given)


def _tensor(state: State, argument: wir.KernelArgument) -> ValueFacts | None:
    """Return the tensor of an argument; ``None`` if it is not one or was reported."""
    value = state.values.get(argument.name) if isinstance(argument, wir.BufferRef) else None
    if value is None or not value.live or not isinstance(value.type, wir.TensorType):
        return None
    return value


def _type(value: ValueFacts) -> wir.TensorType:
    assert isinstance(value.type, wir.TensorType)
    return value.type


def _check_mode(state: State, needed: NeededWorkspace, value: ValueFacts) -> None:
    given = value.storage.workspace
    if needed.mode is None or not value.storage.certain or value.facts.empty:
        return
    match needed.mode:
        case wir.ZeroMode.UNINITIALIZED:  # any memory does that no kernel must find zero
            found = given is not wir.ZeroMode.ZERO_PER_PROGRAM
        case wir.ZeroMode.ZERO_ON_CALL:
            found = given is wir.ZeroMode.ZERO_ON_CALL
        case wir.ZeroMode.ZERO_PER_PROGRAM:
            found = given in (wir.ZeroMode.ZERO_ON_CALL, wir.ZeroMode.ZERO_PER_PROGRAM)
    if not found:
        state.report_value(
            value,
            Code.WORKSPACE_ARGUMENT,
            f"the choices need a workspace that is {needed.mode.value}, and "
            f"%{value.name} is "
            + ("no workspace" if given is None else f"one that is {given.value}"),
            hint=f"allocate it with workspace({needed.mode.value})",
        )


_GivenNumbers = Mapping[str, wir.Expr]


def _given(
    signature: KernelSignature, state: State, arguments: Sequence[wir.KernelArgument]
) -> _GivenNumbers:
    """Return the known values of scalar parameters and sizes at a call, by name."""
    found: dict[str, wir.Expr] = {}
    parameters = signature.parameters or ()
    for parameter, argument in zip(parameters, arguments, strict=True):
        if not isinstance(argument, wir.BufferRef) and _is_whole(argument):
            found[parameter.name] = argument
    for size in signature.sizes:
        value = _tensor(state, arguments[size.parameter])
        if value is not None and not value.facts.faults:
            extents = _type(value).size
            if size.dim < len(extents):
                found[size.name] = extents[size.dim]
    return found


def _check_extent(
    state: State, needed: NeededWorkspace, value: ValueFacts, given: _GivenNumbers
) -> None:
    """Report a workspace that certainly has fewer elements than a choice needs."""
    polynomials = state.layouts.expressions.polynomials
    numel: Polynomial | None = {(): 1}
    for size in _type(value).size:
        if numel is not None:
            numel = polynomials.product(numel, polynomials.of(size))
    if numel is None:
        return
    for choice, count in needed.counts.values():
        wanted = _at_call(count, given, {})
        if wanted is None:
            continue
        state.derived.append(wanted)  # what is known of an expression goes by identity
        needs = polynomials.of(wanted)
        if polynomials.bounds(combine(needs, numel, -1))[0] > 0:
            asked = _format_amount((count,), needs)
            held = _format_amount(_type(value).size, numel)
            state.report_value(
                value,
                Code.WORKSPACE_ARGUMENT,
                f"the choice @{choice} needs {asked} elements of %{value.name}, "
                f"which has {held}",
            )
            return


def _at_call(
    expr: wir.Expr, given: _GivenNumbers, known: dict[int, wir.Expr | None]
) -> wir.Expr | None:
    """Return an expression with the values of a call; ``None`` if one is not known.

    ``known`` has the results for parts, so that shared parts cost once.
    """
    if isinstance(expr, wir.Symbol):
        return given.get(expr.name)
    if not isinstance(expr, wir.Operation):
        return expr
    if id(expr) not in known:
        args = [_at_call(arg, given, known) for arg in expr.args]
        parts = tuple(arg for arg in args if arg is not None)
        known[id(expr)] = wir.Operation(expr.op, parts) if len(parts) == len(args) else None
    return known[id(expr)]


_MOST_PARTS = 24


def _format_amount(factors: Sequence[wir.Expr], value: Polynomial) -> str:
    """Return a product of expressions as text, with its value if it is constant.

    ``4 * n = 32``; ``s0 * 8``; ``64``.  A long expression is not written out.
    """
    number = str(value.get((), 0)) if value.keys() <= {()} else None
    if number is not None and all(isinstance(factor, int) for factor in factors):
        return number
    if _is_long(factors):
        return number or "another number of"
    level = len(factors) > 1
    parts = [format_expression(factor, lambda name: name) for factor in factors]
    shown = " * ".join(
        f"({part})" if level and isinstance(factor, wir.Operation) else part
        for part, factor in zip(parts, factors, strict=True)
    )
    return shown if number is None else f"{shown} = {number}"


def _is_long(factors: Sequence[wir.Expr]) -> bool:
    """Say whether factors have many parts; repeated parts count repeatedly."""
    waiting, count = list(factors), 0
    while waiting and count <= _MOST_PARTS:
        count += 1
        part = waiting.pop()
        if isinstance(part, wir.Operation):
            waiting += part.args
    return bool(waiting)
