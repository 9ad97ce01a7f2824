"""The relation of kernels with several configs to the multi-kernels made of them."""

from collections.abc import Collection, Mapping

from attrs import evolve

from wrapperir.ir import KernelDefinitionLine, MultiKernelLine, Program


def origins(program: Program, after: Program) -> Mapping[str, frozenset[str]]:
    """Return, for each multi-kernel, the kernels whose configs are its choices, by name.

    ``after`` is the result of :func:`split_configs_but` for the program.
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
