"""A run beside the values of the graph nodes that its lines come from."""

from collections.abc import Mapping, Sequence

import torch

from wrapperir.emit import Value
from wrapperir.ir.blocks import walk_places
from wrapperir.trace.comparison import Comparison, compare
from wrapperir.trace.differences import Agreement, Difference, DifferenceKind, RunSide
from wrapperir.trace.points import PointRole
from wrapperir.trace.runs import Observed, TracedProgram
from wrapperir.trace.summary import summarize


def diff_nodes(
    nodes: Mapping[str, torch.Tensor],
    outputs: Sequence[Value],
    side: RunSide,
    inputs: Sequence[Value],
    constants: Mapping[str, torch.Tensor],
    *,
    tolerance: float | None = None,
    seed: int = 0,
) -> Difference | Agreement:
    """Run a program; return the first line that writes none of its nodes' values.

    ``nodes`` are the values of the graph that the program was lowered from, and ``outputs``
    what it returns.  What a line writes as a whole is compared with the nodes among its
    origins that have the same dtype and size: it differs if it is none of them.  Other
    values, such as partial sums, are not compared.  A line is named only if the outputs
    differ too, as a kernel may compute something on the way that no node has.

    Raises:
        DiagnosticError: the program faults, or its code does not load.
        Exception: emitted code raises it.
    """
    traced = TracedProgram.of(side.program, side.emitter, constants, seed)
    origins = {
        path: line.provenance.origins
        for line, path in walk_places(traced.program.lines)
        if line.provenance is not None
    }
    first: list[Difference] = []
    compared = others = 0

    def note(seen: Observed) -> None:
        nonlocal compared, others
        point, value = seen.point, seen.value
        if first or point.role is PointRole.SYMBOL or not isinstance(value, torch.Tensor):
            return
        own = origins.get(point.path, ())
        # Programs of our lowering name buffers as nodes: the message names that one.
        ordered = [*own[::-1]]
        ordered.sort(key=lambda name: name != point.name)
        known = [
            (name, nodes[name])
            for name in ordered
            if name in nodes and _is_like(nodes[name], value)
        ]
        if not known or seen.written is not None or point.role is PointRole.VIEW:
            others += 1
            return
        compared += 1
        found = [compare(node, value, tolerance) for _, node in known]
        if all(each is not None for each in found):
            first.append(
                Difference(
                    kind=DifferenceKind.VALUE,
                    program=traced.program,
                    path=point.path,
                    message=f"%{point.name} in {side.title} is not {known[0][0]}"
                    f" of the graph: {found[0]}",
                    subject=f"%{point.name}",
                    wanted=summarize(known[0][1]),
                    found=summarize(value),
                )
            )

    returned, _ = traced.run(inputs, note)
    wrong = _first_wrong(outputs, returned, tolerance)
    if wrong is None:
        return Agreement(compared=compared, not_compared=others)
    if first:
        return first[0]
    index, comparison = wrong
    return Difference(
        kind=DifferenceKind.RESULT,
        program=traced.program,
        path=("outputs", index),
        message=f"output {index} of {side.title} is not that of the graph, and no line that"
        f" was compared differs: {comparison}",
        wanted=summarize(outputs[index]),
        found=summarize(returned[index]),
    )


def _first_wrong(
    outputs: Sequence[Value], returned: Sequence[Value], tolerance: float | None
) -> tuple[int, Comparison | str] | None:
    for index, (wanted, got) in enumerate(zip(outputs, returned, strict=True)):
        if wanted is not None and got is not None:
            comparison = compare(wanted, got, tolerance)
            if comparison is not None:
                return index, comparison
    return None


def _is_like(node: torch.Tensor, value: torch.Tensor) -> bool:
    return node.dtype == value.dtype and node.shape == value.shape
