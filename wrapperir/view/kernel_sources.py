"""The rows of kernels' sources: where a kernel's own code begins, and the nodes of rows.

Kernels that run others in turn have the nodes of these parts, too.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from wrapperir.ir import KernelDefinitionLine, NodeOrigin
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.renderer import LoopKernel
from wrapperir.lowering.sequences import SequenceLaunch
from wrapperir.lowering.substitution import computed_origins
from wrapperir.plugin import plugin_manager


@frozen(kw_only=True)
class KernelRows:
    """The rows of a kernel's source, from 0.

    ``own`` is where its own code begins, after what other kernels have too; ``nodes`` has
    the names of the nodes that rows are for, if these are known.  ``parts`` are the kernels
    that it runs in turn, if it does, each with its name and the names of its nodes.
    """

    own: int = 0
    nodes: Mapping[int, tuple[str, ...]]
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()


def rows_of_launches(
    launches: Iterable[KernelLaunch | SequenceLaunch],
) -> dict[str, KernelRows]:
    """Return the rows of the kernels of launches, by name, if their renderers know them.

    Rows and parts of a kernel of several launches have the nodes of all of these.
    """
    found: dict[str, KernelRows] = {}
    for launch in launches:
        kernel = launch.kernel
        nest = kernel if isinstance(kernel, LoopKernel) else kernel.parts[0].kernel
        (kind,) = {buffer.type.device.kind for buffer in nest.buffers}
        renderer = plugin_manager().renderer(nest.nest, kind)
        origins = None if renderer is None else renderer.source_origins(kernel)
        if origins is not None:
            known = found.get(kernel.name, KernelRows(nodes={}))
            found[kernel.name] = KernelRows(
                own=origins.begin,
                nodes=_joined(known.nodes, origins.rows),
                parts=_joined_parts(known.parts, launch),
            )
    return found


def _joined(
    known: Mapping[int, tuple[str, ...]], rows: Mapping[int, Sequence[NodeOrigin]]
) -> dict[int, tuple[str, ...]]:
    names = {row: [each.name for each in origins] for row, origins in rows.items()}
    return {
        row: tuple(dict.fromkeys((*known.get(row, ()), *names.get(row, ()))))
        for row in sorted({*known, *names})
    }


def _joined_parts(
    known: Sequence[tuple[str, tuple[str, ...]]], launch: KernelLaunch | SequenceLaunch
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    parts = launch.launches if isinstance(launch, SequenceLaunch) else ()
    before = [names for _, names in known] or [()] * len(parts)
    return tuple(
        (part.kernel.name, tuple(dict.fromkeys((*names, *own))))
        for names, own, part in zip(before, _nodes_of_parts(parts), parts, strict=True)
    )


def _nodes_of_parts(parts: Sequence[KernelLaunch]) -> list[list[str]]:
    """Return the names of the nodes that instructions of each part are for.

    The origins of a part may also have nodes that another part computes for it, or computes
    again.  Nodes without instructions in any part are in the parts whose origins have them.
    """
    computed = [
        [origin.name for origin in computed_origins(part.kernel.nest)] for part in parts
    ]
    known = {name for names in computed for name in names}
    return [
        [*names, *(x.name for x in part.origins if x.name not in known)]
        for names, part in zip(computed, parts, strict=True)
    ]


def rows_without_nodes(definition: KernelDefinitionLine) -> KernelRows:
    """Return the rows of a kernel whose renderer is not known.

    Its own code is taken to begin where its entry is first followed by a parenthesis.
    """
    entry = re.compile(rf"\b{re.escape(definition.entry or definition.name)}\s*\(")
    rows = enumerate(definition.source.split("\n"))
    own = next((number for number, row in rows if entry.search(row)), 0)
    return KernelRows(own=own, nodes={})
