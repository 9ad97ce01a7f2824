"""Kernel definitions and multi-kernels."""

from collections.abc import Iterable

from wrapperir.diagnostics import Code, LinePath, Note
from wrapperir.ir.expr import Expr, Operation, Symbol
from wrapperir.ir.identifier import is_identifier, is_operator
from wrapperir.ir.kernel import (
    Access,
    BufferParameter,
    ConstexprParameter,
    DescriptorParameter,
    KernelChoice,
    Language,
    Parameter,
    RuntimeParameter,
    ScalarParameter,
    TensorParameter,
)
from wrapperir.ir.line import DefinitionLine, KernelDefinitionLine, MultiKernelLine
from wrapperir.ir.selection import FirstChoice, ForcedChoice
from wrapperir.ir.types import DType
from wrapperir.verify.malformed import expect
from wrapperir.verify.state import ParameterFacts, Signature, State
from wrapperir.verify.tensor_descriptors import check_descriptor_parameter

_GRID_RANKS = {
    Language.TRITON: (1, 2, 3),
    Language.CPP: (0,),
    Language.OPAQUE: (0, 1, 2, 3),
}


def check_kernel_definition(state: State, line: KernelDefinitionLine) -> None:
    """Check a kernel and define its name."""
    _check_parameters(state, line.parameters, line.language)
    if not is_identifier(line.entry):
        state.report(
            Code.INVALID_IDENTIFIER,
            f"the entry {line.entry!r} is no identifier",
            line.entry,
            path=_part(state, "entry"),
        )
    expect(line.source, str, "the source of a kernel")
    _check_bindings(state, line)
    _check_grid(state, line)
    keys = [key for key, _ in line.metadata]
    _check_unique(state, keys, "metadata key", "metadata")
    for index, key in enumerate(keys):
        if not is_operator(key):
            state.report(
                Code.METADATA_KEY,
                f"the metadata key {key!r} has no namespace",
                key,
                path=_part(state, "metadata", index),
                hint="write a namespace and a name, such as inductor.heuristic",
            )
    _define(state, line, is_multi=False)


def _define(state: State, line: DefinitionLine, *, is_multi: bool) -> None:
    name = line.name
    if not is_identifier(name):
        state.report(
            Code.INVALID_IDENTIFIER,
            f"the kernel name {name!r} is no identifier",
            f"@{name}",
        )
    first = state.kernels.get(name)
    if first is not None:
        state.report(
            Code.REDEFINITION,
            f"the kernel @{name} is defined twice",
            f"@{name}",
            notes=(Note(message="first defined here", path=first.defined),),
        )
        state.kernels[name] = Signature(None, is_multi, first.defined)
        return
    facts = tuple(
        _facts(parameter)
        for parameter in line.parameters
        if not isinstance(parameter, ConstexprParameter)
    )
    in_order = isinstance(line, KernelDefinitionLine) and line.language is Language.CPP
    state.kernels[name] = Signature(facts, is_multi, state.place(), in_order)


def _facts(parameter: RuntimeParameter) -> ParameterFacts:
    if isinstance(parameter, TensorParameter):
        access = parameter.access
        return ParameterFacts(
            parameter.name,
            parameter.dtype,
            True,
            access.reads,
            access.writes,
            parameter if isinstance(parameter, DescriptorParameter) else None,
        )
    return ParameterFacts(parameter.name, parameter.dtype, False, False, False)


_PARAMETERS = (BufferParameter, DescriptorParameter, ScalarParameter, ConstexprParameter)


def _check_parameters(
    state: State, parameters: tuple[Parameter, ...], language: Language
) -> None:
    expect(language, Language, "a language")
    for parameter in parameters:
        expect(parameter, _PARAMETERS, "a parameter")
        if not isinstance(parameter, ConstexprParameter):
            expect(parameter.dtype, DType, "an element type")
        if isinstance(parameter, TensorParameter):
            expect(parameter.access, Access, "an access mode")
        if isinstance(parameter, DescriptorParameter):
            check_descriptor_parameter(state, parameter, language)
        if not is_identifier(parameter.name):
            state.report(
                Code.INVALID_IDENTIFIER,
                f"the parameter name {parameter.name!r} is no identifier",
                parameter.name,
            )
    _check_unique(state, [parameter.name for parameter in parameters], "parameter")


def _part(state: State, part: str, index: int | None = None) -> LinePath:
    """Return the place of a part of the definition."""
    return (*state.place(), part) if index is None else (*state.place(), part, index)


def _check_unique(
    state: State, names: Iterable[str], what: str, part: str | None = None
) -> None:
    """Report names that occur twice; ``part`` has one place for each, if given."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            state.report(
                Code.DUPLICATE_NAME,
                f"the {what} {name} occurs twice",
                name,
                path=None if part is None else _part(state, part, index),
            )
        seen.add(name)


def _check_bindings(state: State, line: KernelDefinitionLine) -> None:
    """Each constexpr has one value in each config; constants bind nothing else."""
    constexprs = dict.fromkeys(
        p.name for p in line.parameters if isinstance(p, ConstexprParameter)
    )
    constants = [name for name, _ in line.constants]
    _check_unique(state, constants, "constant", "constants")
    for index, name in enumerate(constants):
        if name not in constexprs:
            state.report(
                Code.UNKNOWN_CONSTANT,
                f"{name} is no constexpr parameter of the kernel",
                name,
                path=_part(state, "constants", index),
            )
    needed = [name for name in constexprs if name not in constants]
    unbound: dict[str, None] = {} if line.configs else dict.fromkeys(needed)
    here = state.here
    for index, config in enumerate(line.configs):
        names = [name for name, _ in config.values]
        state.here = _part(state, "configs", index)
        _check_unique(state, names, "config value")
        state.here = here
        bound = set(names)
        unbound.update(dict.fromkeys(name for name in needed if name not in bound))
    for name in unbound:
        state.report(
            Code.UNBOUND_CONSTEXPR,
            f"the constexpr parameter {name} has no value"
            + (" in one of the configs" if line.configs else ""),
            name,
            hint=f"write `config {name} = …` or bind it as a constant",
        )


def _check_grid(state: State, line: KernelDefinitionLine) -> None:
    ranks = _GRID_RANKS[line.language]
    if len(line.grid) not in ranks:
        state.report(
            Code.GRID_RANK,
            f"a {line.language.value} kernel's grid has "
            f"{f'{ranks[0]} to {ranks[-1]}' if ranks[-1] else 'no'} dimensions"
            f", not {len(line.grid)}",
            "grid",
            path=_part(state, "grid") if line.grid else None,
        )
    known = {p.name for p in line.parameters if not isinstance(p, TensorParameter)}
    for config in line.configs[:1]:
        known.update(name for name, _ in config.values)
    for config in line.configs[1:]:
        known.intersection_update(
            {name for name, _ in config.values}
            | {p.name for p in line.parameters if not isinstance(p, TensorParameter)}
        )
    reported: set[str] = set()
    for expr in line.grid:
        for name in _symbols(state, expr):
            if name not in known and name not in reported:
                reported.add(name)
                state.report(
                    Code.GRID_NAME,
                    f"the grid mentions {name}, which has no value at launch",
                    name,
                    path=_part(state, "grid"),
                    hint="a grid sees scalar parameters, constants and config values",
                )


def _symbols(state: State, expr: Expr) -> tuple[str, ...]:
    if isinstance(expr, Symbol):
        return (expr.name,)
    if isinstance(expr, Operation):
        facts = state.layouts.expressions.of(expr)
        if facts.fault is not None:
            state.report_fault(facts.fault)
        return facts.symbols
    expect(expr, (int, float), "a part of a grid")
    return ()


def check_multi_kernel(state: State, line: MultiKernelLine) -> None:
    """Check that each choice can stand in for the multi-kernel; define its name."""
    _check_parameters(state, line.parameters, Language.TRITON)
    if not line.choices:
        state.report(Code.NO_CHOICES, f"@{line.name} has no choices", f"@{line.name}")
    for parameter in line.parameters:
        if isinstance(parameter, ConstexprParameter):
            state.report(
                Code.CHOICE_MISMATCH,
                f"{parameter.name} is a constexpr, and no caller can give one",
                parameter.name,
            )
    own = tuple(
        _facts(p) if not isinstance(p, ConstexprParameter) else None
        for p in line.parameters
    )
    here = state.here
    for index, choice in enumerate(line.choices):
        state.here = _part(state, "choices", index)
        _check_choice(state, own, choice)
        state.here = here
    selection = line.selection
    if isinstance(selection, ForcedChoice):
        if not 0 <= selection.index < len(line.choices) and line.choices:
            state.report(
                Code.CHOICE_INDEX,
                f"choice {selection.index} is selected, but there are {len(line.choices)}",
                str(selection.index),
                path=_part(state, "selection"),
            )
    else:
        expect(selection, FirstChoice, "a selection")
    _define(state, line, is_multi=True)


def _check_choice(
    state: State, own: tuple[ParameterFacts | None, ...], choice: KernelChoice
) -> None:
    name = choice.kernel
    signature = state.kernels.get(name)
    if signature is None or signature.is_multi:
        state.report(
            Code.UNDEFINED_CHOICE,
            f"the choice @{name} is "
            + ("itself a multi-kernel" if signature else "not a kernel defined before"),
            f"@{name}",
        )
        return
    parameters = signature.parameters
    if parameters is None:
        return
    positions = choice.arguments
    if len(positions) != len(parameters) or not all(0 <= p < len(own) for p in positions):
        state.report(
            Code.CHOICE_POSITIONS,
            f"@{name} takes {len(parameters)} arguments from the {len(own)} of the "
            f"multi-kernel; its positions are {positions}",
            f"@{name}",
            notes=(Note(message=f"@{name} is defined here", path=signature.defined),),
        )
        return
    for position, parameter in zip(positions, parameters, strict=True):
        given = own[position]
        found = None if given is None else _mismatch(given, parameter)
        if found is not None:
            state.report(
                Code.CHOICE_MISMATCH,
                f"parameter {parameter.name} of @{name} {found}",
                f"@{name}",
                notes=(Note(message=f"@{name} is defined here", path=signature.defined),),
            )
            return


def _mismatch(given: ParameterFacts, wanted: ParameterFacts) -> str | None:
    if given.is_buffer is not wanted.is_buffer:
        kinds = ("a scalar", "a buffer")
        return (
            f"is {kinds[wanted.is_buffer]}, the multi-kernel's {given.name} is "
            f"{kinds[given.is_buffer]}"
        )
    if given.dtype is not wanted.dtype:
        return (
            f"is {wanted.dtype.value}, the multi-kernel's {given.name} {given.dtype.value}"
        )
    if _block(given) != _block(wanted):
        return (
            f"is {_described(wanted)}, the multi-kernel's {given.name} is "
            f"{_described(given)}"
        )
    if wanted.writes and not given.writes:
        return f"is written, the multi-kernel's {given.name} is not"
    if wanted.reads and not given.reads:
        return f"is read, the multi-kernel's {given.name} is not"
    return None


def _block(parameter: ParameterFacts) -> tuple[int, ...] | None:
    return None if parameter.descriptor is None else parameter.descriptor.block


def _described(parameter: ParameterFacts) -> str:
    block = _block(parameter)
    return "a buffer" if block is None else f"a descriptor of blocks of {block}"
