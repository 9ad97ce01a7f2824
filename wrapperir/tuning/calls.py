"""The kernel calls of a program, programs of one call each, and the sizes of calls."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from wrapperir import ir as wir
from wrapperir.ir.blocks import blocks_of, walk_lines
from wrapperir.ir.line_effects import definitions
from wrapperir.ir.mentions import type_symbols

_ZERO = (wir.ZeroMode.ZERO_ON_CALL, wir.ZeroMode.ZERO_PER_PROGRAM)


@frozen(kw_only=True)
class CallProgram(wir.Program):
    """A program of one call; inputs in ``zeroed`` must be zero before each run."""

    zeroed: tuple[str, ...] = ()


@frozen
class Call:
    """A kind of kernel call: all calls with these arguments and this device.

    ``arguments`` has, for each parameter, the type of a tensor or the expression of a
    scalar.  ``symbols`` defines the symbols that the arguments mention, directly or through
    other symbols, in the program's order.  ``zeroed`` has the positions of workspaces that
    are zero before the call.
    """

    kernel: str
    arguments: tuple[wir.TensorType | wir.Expr, ...]
    device: wir.Device
    symbols: tuple[wir.SymbolDefinitionLine, ...] = ()
    zeroed: tuple[int, ...] = ()


def calls_of(program: wir.Program) -> dict[str, tuple[Call, ...]]:
    """Return the different calls of each kernel that a program calls, in its order.

    Calls in nested blocks are included.  Two calls that agree in the types of their
    arguments, scalars and device count as one.
    """
    found: dict[str, dict[Call, None]] = {}
    constants = {item.name: item.type for item in program.constants}
    types: dict[str, wir.ValueType] = {item.name: item.type for item in program.inputs}
    zeroed: set[str] = set()
    for line, known in _calls_in(program.lines, {**types, **constants}, constants, zeroed):
        call = _call(line, known, zeroed)
        if call is not None:
            found.setdefault(line.kernel, {})[call] = None
    symbols = symbol_lines(program)
    return {
        kernel: tuple(_with_symbols(call, symbols) for call in calls)
        for kernel, calls in found.items()
    }


def call_program(program: wir.Program, call: Call, choice: int = 0) -> CallProgram:
    """Return a program of one call that launches the kernel of a choice, and nothing else.

    Assertions of a Triton kernel are left out: inputs that are made to time it may violate
    them.  The program's inputs are the numbers that the arguments' types and the scalars
    mention, in the order of ``call.symbols``, then each tensor argument on its own, so that
    none overlaps another.  Inputs that a choice may write are ``mutated``.  The programs of
    all choices have the same inputs, so a tensor that this choice does not take is an
    input, too.

    Raises:
        KeyError: the program has no kernel of that name.
        IndexError: the multi-kernel has no such choice.
    """
    kernels = {line.name: line for line in program.definitions}
    definition = kernels[call.kernel]
    kernel, positions = _chosen(kernels, definition, choice)
    parameters = wir.runtime_parameters(definition.parameters)
    names = wir.FreshNames(parameter.name for parameter in parameters)
    mentioned = mentioned_symbols(call)
    numbers = [line for line in call.symbols if line.symbol in mentioned]
    inputs: list[wir.Input] = []
    symbols: list[wir.SymbolDefinitionLine] = []
    for line in numbers:
        name = names.new(None, "number_")
        inputs.append(wir.Input(name=name, type=wir.ScalarType(_DTYPES[line.kind])))
        symbols.append(evolve(line, source=wir.ValueOf(name), provenance=None))
    arguments: list[wir.KernelArgument] = []
    zeroed = {*call.zeroed, *_needed_zero(definition)}
    for parameter, argument in zip(parameters, call.arguments, strict=True):
        if isinstance(argument, wir.TensorType):
            assert isinstance(parameter, wir.TensorParameter)
            mutated = parameter.access.writes
            inputs.append(wir.Input(name=parameter.name, type=argument, mutated=mutated))
            arguments.append(wir.BufferRef(parameter.name))
        else:
            arguments.append(argument)
    taken = arguments if positions is None else [arguments[at] for at in positions]
    launch = wir.KernelCallLine(
        kernel=kernel.name, arguments=tuple(taken), device=call.device
    )
    return CallProgram(
        name=program.name,
        inputs=tuple(inputs),
        symbols=tuple(symbols),
        definitions=(_without_assertions(kernel),),
        lines=(launch,),
        zeroed=tuple(parameters[at].name for at in sorted(zeroed)),
    )


def mentioned_symbols(call: Call) -> frozenset[str]:
    """Return the symbols in the arguments' types and scalars themselves."""
    return frozenset(
        name
        for item in call.arguments
        for name in (
            type_symbols(item) if isinstance(item, wir.TensorType) else wir.symbols_in(item)
        )
    )


_DTYPES: Mapping[wir.SymbolKind, wir.DType] = {
    wir.SymbolKind.INT: wir.DType.I64,
    wir.SymbolKind.FLOAT: wir.DType.F64,
    wir.SymbolKind.BOOL: wir.DType.BOOL,
}


def _without_assertions(kernel: wir.KernelDefinitionLine) -> wir.KernelDefinitionLine:
    configs = tuple(
        wir.KernelConfig(tuple(pair for pair in config.values if pair[0] != "debug"))
        for config in kernel.configs
    )
    return evolve(kernel, configs=configs)


def _chosen(
    kernels: Mapping[str, wir.DefinitionLine], definition: wir.DefinitionLine, choice: int
) -> tuple[wir.KernelDefinitionLine, tuple[int, ...] | None]:
    if isinstance(definition, wir.KernelDefinitionLine):
        return definition, None
    assert isinstance(definition, wir.MultiKernelLine)
    chosen = definition.choices[choice]
    kernel = kernels[chosen.kernel]
    assert isinstance(kernel, wir.KernelDefinitionLine)
    return kernel, chosen.arguments


def _needed_zero(definition: wir.DefinitionLine) -> Iterator[int]:
    """Yield the positions of workspaces that must be zero before a choice runs."""
    if isinstance(definition, wir.MultiKernelLine):
        for choice in definition.choices:
            yield from (need.parameter for need in choice.workspaces if need.mode in _ZERO)


def _calls_in(
    lines: Sequence[wir.BodyLine],
    types: dict[str, wir.ValueType],
    constants: Mapping[str, wir.ValueType],
    zeroed: set[str],
) -> Iterator[tuple[wir.KernelCallLine, Mapping[str, wir.ValueType]]]:
    """Yield each call with the types of the values in its scope, at any depth of nesting.

    ``zeroed`` collects the workspaces so far that begin as zero.
    """
    stack = [(iter(lines), types)]
    while stack:
        rest, known = stack[-1]
        for line in rest:
            defined = dict(definitions(line))
            known.update(defined)
            zeroed.difference_update(defined)
            if (
                isinstance(line, wir.AllocateLine | wir.PlaceLine)
                and line.workspace in _ZERO
            ):
                zeroed.add(line.result)
            if isinstance(line, wir.KernelCallLine):
                yield line, known
            blocks = blocks_of(line)
            for block in reversed(blocks):
                given = {parameter.name: parameter.type for parameter in block.parameters}
                stack.append((iter(block.lines), {**constants, **given}))
            if blocks:
                break
        else:
            stack.pop()


def _call(
    line: wir.KernelCallLine, types: Mapping[str, wir.ValueType], zeroed: Collection[str]
) -> Call | None:
    """Return the kind of a call; ``None`` where an argument is not a tensor."""
    arguments: list[wir.TensorType | wir.Expr] = []
    begin_zero: list[int] = []
    for at, argument in enumerate(line.arguments):
        if not isinstance(argument, wir.BufferRef):
            arguments.append(argument)
            continue
        type = types.get(argument.name)
        if not isinstance(type, wir.TensorType):
            return None
        arguments.append(type)
        if argument.name in zeroed:
            begin_zero.append(at)
    return Call(line.kernel, tuple(arguments), line.device, zeroed=tuple(begin_zero))


def symbol_lines(program: wir.Program) -> list[wir.SymbolDefinitionLine]:
    """Return the definitions of all symbols, including those in nested blocks."""
    lines = walk_lines((*program.symbols, *program.lines))
    return [line for line in lines if isinstance(line, wir.SymbolDefinitionLine)]


def _with_symbols(call: Call, symbols: Sequence[wir.SymbolDefinitionLine]) -> Call:
    needed = set(mentioned_symbols(call))
    kept: list[wir.SymbolDefinitionLine] = []
    for line in reversed(symbols):
        if line.symbol in needed:
            kept.append(line)
            if isinstance(line.source, wir.Symbol | wir.Operation):
                needed.update(wir.symbols_in(line.source))
    return evolve(call, symbols=tuple(reversed(kept)))


def with_sizes(line: wir.MultiKernelLine, calls: Sequence[Call]) -> wir.MultiKernelLine:
    """Return the multi-kernel with names for all sizes that distinguish its calls.

    These are sizes of tensor arguments that differ between the calls or are known only
    when the program runs.  A size that always equals a named one gets no name.
    """
    terms = [_policy_terms(line, call) for call in calls]
    named = set(zip(*(found.values() for found in terms), strict=True))
    taken = {item.name for item in (*line.parameters, *line.sizes)}
    sizes = list(line.sizes)
    for at, parameter in enumerate(line.parameters):
        given = [call.arguments[at] for call in calls]
        extents = [item.size if isinstance(item, wir.TensorType) else () for item in given]
        for dim, column in enumerate(zip(*extents, strict=False)):
            varies = len(set(column)) > 1 or not isinstance(column[0], int)
            if varies and column not in named:
                named.add(column)
                name = f"{parameter.name}_size{dim}"
                while name in taken:
                    name += "_"
                taken.add(name)
                sizes.append(wir.KernelSize(name, at, dim))
    return evolve(line, sizes=tuple(sizes))


def with_used_sizes(
    line: wir.MultiKernelLine, tuned: wir.MultiKernelLine
) -> wir.MultiKernelLine:
    """Return a multi-kernel with the policy of ``tuned``, and the sizes that it uses.

    ``tuned`` is the same multi-kernel after :func:`with_sizes`.
    """
    used: frozenset[str] = frozenset()
    if isinstance(tuned.selection, wir.ComputedChoice):
        used = frozenset(wir.symbols_in(tuned.selection.index))
    added = (size for size in tuned.sizes[len(line.sizes) :] if size.name in used)
    return evolve(line, sizes=(*line.sizes, *added), selection=tuned.selection)


def values_at(
    line: wir.MultiKernelLine, call: Call, symbols: Mapping[str, wir.Number]
) -> dict[str, int]:
    """Return the sizes and integer scalars of a call, by the multi-kernel's names for them.

    Raises:
        EvaluationError: one has no value, or not an integer one.
    """
    terms = _policy_terms(line, call)
    return {name: wir.evaluate_int(expr, symbols) for name, expr in terms.items()}


def _policy_terms(line: wir.MultiKernelLine, call: Call) -> dict[str, wir.Expr]:
    """Return the named sizes and the integer scalars of a call."""
    terms: dict[str, wir.Expr] = {}
    for size in line.sizes:
        argument = call.arguments[size.parameter]
        assert isinstance(argument, wir.TensorType)
        terms[size.name] = argument.size[size.dim]
    for parameter, argument in zip(line.parameters, call.arguments, strict=True):
        if isinstance(parameter, wir.ScalarParameter) and not parameter.dtype.is_float:
            assert not isinstance(argument, wir.TensorType)
            terms[parameter.name] = argument
    return terms
