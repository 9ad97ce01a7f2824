"""Make kernels with several configs multi-kernels of a kernel for each config."""

from collections.abc import Collection, Hashable, Mapping, Sequence

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.ir.blocks import called_names, rewrite_blocks
from wrapperir.ir.multi_kernel_builder import identity

_LONGEST = 200
"""The most characters of a kernel's name in a new name, which must be an identifier."""


def split_configs(program: wir.Program) -> wir.Program:
    """Return the program with a kernel for each config, and multi-kernels that pick one.

    Before::

        kernel_definition @add triton(x: read f32*, y: write f32*, B: constexpr) {
          grid = (ceildiv(4096, B))
          config B = 64
          config B = 256, num_warps = 8
          entry = add
          source {
            | ...
          }
        }

        program @main(%x: f32[4096]) {
          %y = allocate f32[4096]
          kernel_call @add(%x, %y)
          return %y
        }

    After::

        kernel_definition @add_config0 triton(x: read f32*, y: write f32*, B: constexpr) {
          grid = (ceildiv(4096, B))
          config B = 64
          entry = add
          source {
            | ...
          }
        }

        kernel_definition @add_config1 triton(x: read f32*, y: write f32*, B: constexpr) {
          grid = (ceildiv(4096, B))
          config B = 256, num_warps = 8
          entry = add
          source {
            | ...
          }
        }

        multi_kernel @add(x: read f32*, y: write f32*) {
          choice @add_config0(0, 1)
          choice @add_config1(0, 1)
          select benchmark
        }

        program @main(%x: f32[4096]) {
          %y = allocate f32[4096]
          kernel_call @add(%x, %y)
          return %y
        }

    So configs are timed, kept and recorded as choices are.  A multi-kernel with such a
    kernel has its configs in place of it; what picked the kernel picks its first config,
    and what always took it takes the fastest of its configs.  Kernels that no call may
    run stay as they are.  Linear in the program and its configs.
    """
    return split_configs_but(program, ())


def split_configs_but(program: wir.Program, whole: Collection[str]) -> wir.Program:
    """Return the program as :func:`split_configs` does, but some kernels as they are.

    The names of the others do not depend on which kernels are ``whole``.
    """
    called = called_names(program)
    split = {
        name: kernels
        for name, kernels in _split(program.definitions, called).items()
        if name not in whole
    }
    if not split:
        return program
    definitions: list[wir.DefinitionLine] = []
    alike: dict[Hashable, str] = {}
    became: dict[str, str] = {}
    for line in program.definitions:
        made: wir.MultiKernelLine | None
        if isinstance(line, wir.MultiKernelLine):
            made = _with_configs(line, split)
        else:
            kernels = split.get(line.name, ())
            definitions += kernels or (line,)
            made = _picking(line, kernels) if kernels and line.name in called else None
        if made is None:
            continue
        if made is not line and made.choices:
            first = alike.setdefault(identity(made), made.name)
            if first != made.name:
                became[made.name] = first
                continue
        definitions.append(made)
    return evolve(
        program,
        definitions=tuple(definitions),
        lines=_renamed(program.lines, became) if became else program.lines,
    )


_Split = Mapping[str, tuple[wir.KernelDefinitionLine, ...]]
"""The kernels of one config that each kernel with several becomes."""


def _split(definitions: Sequence[wir.DefinitionLine], called: frozenset[str]) -> _Split:
    """Make the kernels of each config of the kernels that calls may run."""
    runnable = set(called)
    for line in definitions:
        if isinstance(line, wir.MultiKernelLine) and line.name in called:
            settled = wir.settled_choice(line.selection)
            runnable.update(
                choice.kernel
                for index, choice in enumerate(line.choices)
                if settled is None or index == settled
            )
    names = wir.FreshNames(line.name for line in definitions)
    return {
        line.name: _kernels(line, names)
        for line in definitions
        if isinstance(line, wir.KernelDefinitionLine)
        and line.name in runnable
        and len(line.configs) > 1
    }


def _kernels(
    line: wir.KernelDefinitionLine, names: wir.FreshNames
) -> tuple[wir.KernelDefinitionLine, ...]:
    made: list[wir.KernelDefinitionLine] = []
    for index, config in enumerate(line.configs):
        wanted = f"{line.name[:_LONGEST]}_config{index}"
        name = names.new(wanted if names.is_free(wanted) else None, f"{wanted}_")
        made.append(evolve(line, name=name, configs=(config,)))
    return tuple(made)


def _picking(
    line: wir.KernelDefinitionLine, kernels: Sequence[wir.KernelDefinitionLine]
) -> wir.MultiKernelLine:
    parameters = wir.runtime_parameters(line.parameters)
    positions = tuple(range(len(parameters)))
    return wir.MultiKernelLine(
        name=line.name,
        parameters=parameters,
        choices=tuple(wir.KernelChoice(kernel.name, positions) for kernel in kernels),
        selection=wir.BenchmarkChoice(),
        provenance=line.provenance,
    )


def _with_configs(line: wir.MultiKernelLine, split: _Split) -> wir.MultiKernelLine:
    """Return a multi-kernel with the configs of its kernels as its choices."""
    if not any(choice.kernel in split for choice in line.choices):
        return line
    firsts: list[int] = []
    choices: list[wir.KernelChoice] = []
    for choice in line.choices:
        firsts.append(len(choices))
        choices += _choices(choice, split)
    settled = wir.settled_choice(line.selection)
    if settled is not None and line.choices[settled].kernel in split:
        only = _choices(line.choices[settled], split)
        return evolve(line, choices=tuple(only), selection=wir.BenchmarkChoice())
    selection = _moved(line.selection, firsts)
    return evolve(line, choices=tuple(choices), selection=selection)


def _choices(choice: wir.KernelChoice, split: _Split) -> list[wir.KernelChoice]:
    if choice.kernel not in split:
        return [choice]
    return [evolve(choice, kernel=kernel.name) for kernel in split[choice.kernel]]


def _moved(selection: wir.Selection, firsts: Sequence[int]) -> wir.Selection:
    """Return a selection whose choices have moved; ``firsts`` say where to."""
    match selection:
        case wir.ForcedChoice(index):
            return wir.ForcedChoice(firsts[index])
        case wir.RecordedChoice(index):  # its times are not those of the new choices
            return evolve(selection, index=firsts[index], microseconds=())
        case wir.NearestChoice(hints):
            moved = (evolve(hint, choice=firsts[hint.choice]) for hint in hints)
            return wir.NearestChoice(tuple(moved))
        case wir.ComputedChoice(index):
            return evolve(selection, index=_moved_tree(index, firsts, {}))
        case wir.FirstChoice() | wir.BenchmarkChoice():
            return selection


def _moved_tree(
    tree: wir.Expr, firsts: Sequence[int], known: dict[int, wir.Expr]
) -> wir.Expr:
    """Return a tree with the choices moved; ``known`` has what its parts became."""
    if isinstance(tree, int):
        return firsts[tree]
    if not isinstance(tree, wir.Operation) or tree.op is not wir.ExprOp.WHERE:
        return tree
    if id(tree) not in known:
        condition, *branches = tree.args
        moved = (_moved_tree(branch, firsts, known) for branch in branches)
        known[id(tree)] = wir.Operation(wir.ExprOp.WHERE, (condition, *moved))
    return known[id(tree)]


def _renamed(
    lines: Sequence[wir.BodyLine], became: Mapping[str, str]
) -> tuple[wir.BodyLine, ...]:
    """Return lines that call what a kernel became."""

    def rename(block: wir.Block) -> wir.Block:
        return evolve(block, lines=_renamed(block.lines, became))

    return tuple(
        evolve(line, kernel=became.get(line.kernel, line.kernel))
        if isinstance(line, wir.KernelCallLine)
        else rewrite_blocks(line, rename)
        for line in lines
    )
