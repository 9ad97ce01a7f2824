"""Kernels with several configs as multi-kernels of their configs, where these are timed."""

from collections.abc import Collection, Mapping

from attrs import evolve

from wrapperir.ir.line import DefinitionLine, KernelDefinitionLine, MultiKernelLine
from wrapperir.ir.program import Program
from wrapperir.passes.split_configs import split_configs


def split(program: Program, whole: Collection[str]) -> Program:
    """Return the program with its kernels of several configs split, but for some.

    The kernels named by ``whole`` stay as they are.
    """
    before = {line.name: line for line in program.definitions}

    def hidden(line: DefinitionLine) -> DefinitionLine:
        if isinstance(line, KernelDefinitionLine) and line.name in whole:
            return evolve(line, configs=line.configs[:1])
        return line

    definitions = tuple(map(hidden, program.definitions))
    after = split_configs(evolve(program, definitions=definitions))
    return evolve(
        after,
        definitions=tuple(
            before[line.name] if line.name in whole else line for line in after.definitions
        ),
    )


def origins(program: Program, after: Program) -> Mapping[str, frozenset[str]]:
    """Return which kernels of several configs a multi-kernel picks a config of, by name.

    ``after`` is what :func:`split` made of the program.
    """
    kernels: dict[KernelDefinitionLine, set[str]] = {}
    for line in program.definitions:
        if isinstance(line, KernelDefinitionLine) and len(line.configs) > 1:
            kernels.setdefault(_bare(line), set()).add(line.name)
    known = {line.name for line in program.definitions}
    made = {
        line.name: kernels.get(_bare(line), set[str]())
        for line in after.definitions
        if isinstance(line, KernelDefinitionLine) and line.name not in known
    }
    return {
        line.name: frozenset(
            name for choice in line.choices for name in made.get(choice.kernel, ())
        )
        for line in after.definitions
        if isinstance(line, MultiKernelLine)
    }


def kept_whole(program: Program, after: Program, tuned: Collection[str]) -> frozenset[str]:
    """Return the kernels that were split for multi-kernels none of which is tuned."""
    needed: set[str] = set()
    left: set[str] = set()
    for name, kernels in origins(program, after).items():
        (needed if name in tuned else left).update(kernels)
    return frozenset(left - needed)


def _bare(line: KernelDefinitionLine) -> KernelDefinitionLine:
    return evolve(line, name="", configs=())
