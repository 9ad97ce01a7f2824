"""Checks of kernel definitions."""

from collections.abc import Iterable

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, LinePath, Note
from wrapperir.verify.calls import check_descriptor_parameter
from wrapperir.verify.state import KernelSignature, NeededWorkspace, State

_GRID_RANKS = {
    wir.Language.TRITON: (1, 2, 3),
    wir.Language.CPP: (0,),
    wir.Language.OPAQUE: (0, 1, 2, 3),
}


def check_kernel_definition(state: State, line: wir.KernelDefinitionLine) -> None:
    """Check a kernel and define its name."""
    check_parameters(state, line.parameters, line.language)
    state.check_identifier("the entry", line.entry, path=part_of(state, "entry"))
    _check_bindings(state, line)
    _check_grid(state, line)
    keys = [key for key, _ in line.metadata]
    check_unique(state, keys, "metadata key", "metadata")
    for index, key in enumerate(keys):
        if not wir.is_operator(key):
            state.report(
                Code.METADATA_KEY,
                f"the metadata key {key!r} has no namespace",
                key,
                path=part_of(state, "metadata", index),
                hint="write a namespace and a name, such as inductor.heuristic",
            )
    define_kernel(state, line, in_order=line.language is wir.Language.CPP)


def define_kernel(
    state: State,
    line: wir.DefinitionLine,
    *,
    in_order: bool,
    sizes: tuple[wir.KernelSize, ...] = (),
    workspaces: tuple[NeededWorkspace, ...] = (),
) -> None:
    """Check and define the name of a kernel or multi-kernel.

    The other arguments are fields of :class:`wrapperir.verify.state.KernelSignature`.
    """
    name = line.name
    is_multi = isinstance(line, wir.MultiKernelLine)
    state.check_identifier("the kernel name", name, "@")
    first = state.kernels.get(name)
    if first is not None:
        state.report(
            Code.REDEFINITION,
            f"the kernel @{name} is defined twice",
            f"@{name}",
            notes=(Note(message="first defined here", path=first.defined),),
        )
        state.kernels[name] = KernelSignature(None, is_multi, first.defined)
        return
    parameters = wir.runtime_parameters(line.parameters)
    state.kernels[name] = KernelSignature(
        parameters, is_multi, state.place(), in_order, sizes, workspaces
    )


def check_parameters(
    state: State, parameters: tuple[wir.Parameter, ...], language: wir.Language
) -> None:
    """Check the parameters of a kernel or multi-kernel, and that their names differ."""
    for parameter in parameters:
        if isinstance(parameter, wir.DescriptorParameter):
            check_descriptor_parameter(state, parameter, language)
        state.check_identifier("the parameter name", parameter.name)
    check_unique(state, [parameter.name for parameter in parameters], "parameter")


def part_of(state: State, part: str, index: int | None = None) -> LinePath:
    """Return the place of a part of the definition."""
    return (*state.place(), part) if index is None else (*state.place(), part, index)


def check_unique(
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
                path=None if part is None else part_of(state, part, index),
            )
        seen.add(name)


def _check_bindings(state: State, line: wir.KernelDefinitionLine) -> None:
    """Check that each constexpr has one value in each config, and nothing else has one."""
    constexprs = dict.fromkeys(
        p.name for p in line.parameters if isinstance(p, wir.ConstexprParameter)
    )
    constants = [name for name, _ in line.constants]
    check_unique(state, constants, "constant", "constants")
    for index, name in enumerate(constants):
        if name not in constexprs:
            state.report(
                Code.UNKNOWN_CONSTANT,
                f"{name} is not a constexpr parameter of the kernel",
                name,
                path=part_of(state, "constants", index),
            )
    needed = [name for name in constexprs if name not in constants]
    unbound: dict[str, None] = {} if line.configs else dict.fromkeys(needed)
    here = state.here
    for index, config in enumerate(line.configs):
        names = [name for name, _ in config.values]
        state.here = part_of(state, "configs", index)
        check_unique(state, names, "config value")
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


def _check_grid(state: State, line: wir.KernelDefinitionLine) -> None:
    ranks = _GRID_RANKS[line.language]
    if len(line.grid) not in ranks:
        state.report(
            Code.GRID_RANK,
            f"a {line.language.value} kernel's grid has "
            f"{f'{ranks[0]} to {ranks[-1]}' if ranks[-1] else 'no'} dimensions"
            f", not {len(line.grid)}",
            "grid",
            path=part_of(state, "grid") if line.grid else None,
        )
    known = {p.name for p in line.parameters if not isinstance(p, wir.TensorParameter)}
    for config in line.configs[:1]:
        known.update(name for name, _ in config.values)
    for config in line.configs[1:]:
        known.intersection_update(
            {name for name, _ in config.values}
            | {p.name for p in line.parameters if not isinstance(p, wir.TensorParameter)}
        )
    reported: set[str] = set()
    for expr in line.grid:
        for name in state.expression_symbols(expr):
            if name not in known and name not in reported:
                reported.add(name)
                state.report(
                    Code.GRID_NAME,
                    f"the grid mentions {name}, which has no value at launch",
                    name,
                    path=part_of(state, "grid"),
                    hint="a grid sees scalar parameters, constants and config values",
                )
