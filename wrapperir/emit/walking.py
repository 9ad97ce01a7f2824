"""The lines of a program in order, and which kernels their calls run."""

from collections.abc import Iterator, Mapping

from wrapperir.emit.support import nested_blocks
from wrapperir.ir.line import (
    BodyLine,
    ConditionalLine,
    DefinitionLine,
    KernelDefinitionLine,
    MultiKernelLine,
    SubgraphCallLine,
    WhileLoopLine,
)
from wrapperir.ir.selection import settled_choice


def chosen_kernel(
    definitions: Mapping[str, DefinitionLine], name: str
) -> tuple[KernelDefinitionLine, tuple[int, ...] | None]:
    """Return the kernel that a call of ``name`` runs, and the arguments it takes.

    The positions are ``None`` where it takes all arguments of the call in order.

    Raises:
        KeyError: no kernel has that name.
    """
    definition = definitions[name]
    if isinstance(definition, KernelDefinitionLine):
        return definition, None
    choice = definition.choices[choice_index(definition)]
    kernel = definitions[choice.kernel]
    assert isinstance(kernel, KernelDefinitionLine)
    positions = choice.arguments
    same = positions == tuple(range(len(definition.parameters)))
    return kernel, None if same else positions


def choice_index(line: MultiKernelLine) -> int:
    """Return the position of the choice that a multi-kernel runs."""
    return settled_choice(line.selection) or 0


_NESTING = (ConditionalLine, WhileLoopLine, SubgraphCallLine)


def walk_lines(lines: tuple[BodyLine, ...]) -> Iterator[BodyLine]:
    """Yield each line, then those of its nested blocks, then the next line."""
    stack = [iter(lines)]
    while stack:
        for line in stack[-1]:
            yield line
            if isinstance(line, _NESTING):
                blocks = (block for _, block in nested_blocks(line))
                stack.extend(reversed([iter(block.lines) for block in blocks]))
                break
        else:
            stack.pop()
