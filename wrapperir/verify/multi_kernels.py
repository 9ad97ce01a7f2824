"""Checks of multi-kernels: parameters, sizes, choices, and duplicates."""

from collections.abc import Sequence

from wrapperir.diagnostics import Code, Note, Severity
from wrapperir.ir import (
    ConstexprParameter,
    DescriptorParameter,
    KernelChoice,
    KernelSize,
    Language,
    MultiKernelLine,
    RuntimeParameter,
    ScalarParameter,
    TensorParameter,
)
from wrapperir.ir.multi_kernel_builder import identity
from wrapperir.verify.kernels import (
    check_parameters,
    define_kernel,
    part_of,
)
from wrapperir.verify.selections import check_selection, known_names
from wrapperir.verify.state import KernelSignature, State
from wrapperir.verify.workspace_needs import Needs

_Own = tuple[RuntimeParameter | None, ...]


def check_multi_kernel(state: State, line: MultiKernelLine) -> None:
    """Check that each choice can stand in for the multi-kernel; define its name."""
    before = len(state.diagnostics)
    check_parameters(state, line.parameters, Language.TRITON)
    if not line.choices:
        state.report(Code.NO_CHOICES, f"@{line.name} has no choices", f"@{line.name}")
    for parameter in line.parameters:
        if isinstance(parameter, ConstexprParameter):
            state.report(
                Code.CHOICE_MISMATCH,
                f"{parameter.name} is a constexpr, and no caller can give one",
                parameter.name,
            )
    own = tuple(None if isinstance(p, ConstexprParameter) else p for p in line.parameters)
    sizes = _check_sizes(state, line, own)
    known = known_names(line)
    needs = Needs(state, own, known)
    in_order = _check_choices(state, line, own, needs)
    check_selection(state, line, known)
    is_sound = None not in own
    if line.choices and len(state.diagnostics) == before and line.name not in state.kernels:
        _check_new(state, line)
    define_kernel(
        state,
        line,
        in_order=in_order,
        sizes=sizes if is_sound else (),
        workspaces=tuple(needs.found.values()) if is_sound else (),
    )


def _check_sizes(state: State, line: MultiKernelLine, own: _Own) -> tuple[KernelSize, ...]:
    """Report the faults of sizes; return the sizes without faults."""
    taken = {parameter.name for parameter in line.parameters}
    sound: list[KernelSize] = []
    here = state.here
    for index, size in enumerate(line.sizes):
        state.here = part_of(state, "sizes", index)
        state.check_identifier("the name of a size", size.name)
        if size.name in taken:
            state.report(
                Code.DUPLICATE_NAME,
                f"the size {size.name} has the name of a parameter or another size",
                size.name,
            )
        taken.add(size.name)
        facts = own[size.parameter] if 0 <= size.parameter < len(own) else None
        if not isinstance(facts, TensorParameter) or size.dim < 0:
            what = (
                f"there is no parameter {size.parameter}"
                if facts is None
                else f"{facts.name} is a scalar"
                if isinstance(facts, ScalarParameter)
                else f"there is no dimension {size.dim}"
            )
            state.report(
                Code.SIZE_OF_NOTHING,
                f"{size.name} is the size of nothing: {what}",
                size.name,
                hint="name a tensor parameter, and a dimension of it, counted from 0",
            )
        else:
            sound.append(size)
        state.here = here
    return tuple(sound)


def _check_choices(state: State, line: MultiKernelLine, own: _Own, needs: Needs) -> bool:
    """Check each choice; say whether all of them run as their sources read."""
    seen: dict[tuple[str, tuple[int, ...]], int] = {}
    signatures: list[KernelSignature | None] = []
    here = state.here
    in_order = bool(line.choices)
    for index, choice in enumerate(line.choices):
        state.here = part_of(state, "choices", index)
        signature = _check_choice(state, own, choice)
        signatures.append(signature)
        in_order = in_order and signature is not None and signature.in_order
        if signature is not None:
            needs.add(choice, signature)
        first = seen.setdefault((choice.kernel, choice.arguments), index)
        if first != index:
            path = (*(here or ()), "choices", first)
            state.report(
                Code.REPEATED_CHOICE,
                f"the choice @{choice.kernel} is there twice, with the same arguments",
                f"@{choice.kernel}",
                notes=(Note(message="it is here first", path=path),),
            )
        state.here = here
    _check_written(state, line, own, signatures)
    return in_order


def _check_written(
    state: State,
    line: MultiKernelLine,
    own: _Own,
    signatures: Sequence[KernelSignature | None],
) -> None:
    """Report choices that do not write a parameter that another choice writes.

    Only parameters that are written and not read are checked, as a call may pass memory
    that nothing wrote.  A workspace of some choice is not, nor is a parameter that no
    choice takes.
    """
    needed = {need.parameter for choice in line.choices for need in choice.workspaces}
    written = [
        None
        if signature is None or signature.parameters is None
        else {
            position
            for position, parameter in zip(
                choice.arguments, signature.parameters, strict=True
            )
            if isinstance(parameter, TensorParameter) and parameter.access.writes
        }
        for choice, signature in zip(line.choices, signatures, strict=True)
    ]
    by_any = {position for positions in written if positions for position in positions}
    wanted = {
        position: facts.name
        for position, facts in enumerate(own)
        if isinstance(facts, TensorParameter)
        and not facts.access.reads
        and position in by_any - needed
    }
    for index, (choice, positions) in enumerate(zip(line.choices, written, strict=True)):
        signature = signatures[index]
        if positions is None or signature is None:
            continue
        missing = next((wanted[p] for p in wanted if p not in positions), None)
        if missing is not None:
            state.report(
                Code.CHOICE_MISMATCH,
                f"the choice @{choice.kernel} does not write the multi-kernel's {missing}, "
                "which would stay unwritten",
                f"@{choice.kernel}",
                notes=signature.notes(choice.kernel),
                hint=f"have every choice write {missing}, or say what one needs of it as a "
                f"workspace: workspace({missing}, COUNT, MODE)",
                path=part_of(state, "choices", index),
            )


def _check_choice(state: State, own: _Own, choice: KernelChoice) -> KernelSignature | None:
    """Return the signature of a choice's kernel, if nothing is wrong with the choice."""
    name = choice.kernel
    signature = state.kernels.get(name)
    if signature is None or signature.is_multi:
        state.report(
            Code.UNDEFINED_CHOICE,
            f"the choice @{name} is "
            + ("itself a multi-kernel" if signature else "not a kernel defined before"),
            f"@{name}",
        )
        return None
    parameters = signature.parameters
    if parameters is None:
        return None
    positions = choice.arguments
    outside = next((p for p in positions if not 0 <= p < len(own)), None)
    found = None
    if len(positions) != len(parameters):
        found = f"takes {len(parameters)} arguments and is given {len(positions)} positions"
    elif outside is not None:
        found = (
            f"is given position {outside}, and the multi-kernel has {len(own)} parameters"
        )
    if found is not None:
        state.report(
            Code.CHOICE_POSITIONS,
            f"the choice @{name} {found}",
            f"@{name}" if outside is None else str(outside),
            hint="give, for each argument of the kernel, a position among the "
            "multi-kernel's parameters, which count from 0",
            notes=signature.notes(name),
        )
        return None
    for position, parameter in zip(positions, parameters, strict=True):
        given = own[position]
        found = None if given is None else _mismatch(given, parameter)
        if found is not None:
            state.report(
                Code.CHOICE_MISMATCH,
                f"parameter {parameter.name} of @{name} {found}",
                f"@{name}",
                notes=signature.notes(name),
            )
            return None
    return signature


def _mismatch(given: RuntimeParameter, wanted: RuntimeParameter) -> str | None:
    """Return how a choice's parameter differs from the multi-kernel's, or ``None``."""
    for text in (_kind, _dtype, _described):
        if text(given) != text(wanted):
            return f"is {text(wanted)}, the multi-kernel's {given.name} is {text(given)}"
    if isinstance(given, TensorParameter) and isinstance(wanted, TensorParameter):
        if wanted.access.writes and not given.access.writes:
            return f"is written, the multi-kernel's {given.name} is not"
        if wanted.access.reads and not given.access.reads:
            return f"is read, the multi-kernel's {given.name} is not"
    return None


def _kind(parameter: RuntimeParameter) -> str:
    return "a scalar" if isinstance(parameter, ScalarParameter) else "a buffer"


def _dtype(parameter: RuntimeParameter) -> str:
    return parameter.dtype.value


def _described(parameter: RuntimeParameter) -> str:
    if isinstance(parameter, DescriptorParameter):
        return f"a descriptor of blocks of {parameter.block}"
    return "a buffer"


def _check_new(state: State, line: MultiKernelLine) -> None:
    """Warn of a multi-kernel that differs from another one in its name only."""
    name, first = state.multi_kernels.setdefault(identity(line), (line.name, state.place()))
    if first != state.place():
        state.report(
            Code.SAME_MULTI_KERNEL,
            f"@{line.name} picks from the same choices as @{name}, in the same way",
            f"@{line.name}",
            notes=(Note(message=f"@{name} is defined here", path=first),),
            hint=f"call @{name} instead",
            severity=Severity.WARNING,
        )
