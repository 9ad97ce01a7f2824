"""Checks of programs that run together: alone, with each other, and after a pass."""

from collections.abc import Sequence

import torch
from attrs import frozen

from wrapperir.analysis import analyze_memory
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.interp import interpret_ranks
from wrapperir.ir import Program, TensorType, evaluate_int
from wrapperir.verify import verify, verify_ranks


def rank_diagnostics(programs: Sequence[Program]) -> tuple[Diagnostic, ...]:
    """Return the faults of programs, each alone and, if there are none, together."""
    different = {id(program): program for program in programs}.values()
    alone = tuple(found for program in different for found in verify(program))
    return alone or tuple(found for each in verify_ranks(programs) for found in each)


def rank_codes(programs: Sequence[Program]) -> set[Code]:
    """Return the codes of the faults of programs, each alone and then together."""
    return {found.code for found in rank_diagnostics(programs)}


def run_together(programs: Sequence[Program]) -> list[tuple[torch.Tensor, ...]]:
    """Return the outputs of each program, and its inputs as it left them.

    Inputs are tensors of different whole numbers.

    Raises:
        DiagnosticError: a program faulted, or the ranks do not meet.
    """
    inputs = [
        [_numbers(each.type, rank) for each in program.inputs]
        for rank, program in enumerate(programs)
    ]
    outputs = interpret_ranks(programs, inputs, [{} for _ in programs])
    tensors = [[x for x in each if isinstance(x, torch.Tensor)] for each in outputs]
    return [(*out, *given) for out, given in zip(tensors, inputs, strict=True)]


def _numbers(type: object, rank: int) -> torch.Tensor:
    assert isinstance(type, TensorType)
    size = [evaluate_int(each, {}) for each in type.size]
    dtype = getattr(torch, type.dtype.torch_name)
    return (torch.arange(torch.Size(size).numel()) + 100 * rank).to(dtype).reshape(size)


@frozen(eq=False)
class RankBehaviour:
    """What programs give that run together: values of each rank, and its peak bytes."""

    values: Sequence[tuple[torch.Tensor, ...]]
    peaks: tuple[int, ...]
    faults: tuple[str, ...] = ()


def rank_behaviour(programs: Sequence[Program]) -> RankBehaviour:
    """Verify programs, run them together, and analyze their memory."""
    faults = tuple(f"{d.code.value}: {d.message}" for d in rank_diagnostics(programs))
    if faults:
        return RankBehaviour((), (), faults)
    try:
        values = run_together(programs)
    except DiagnosticError as error:
        return RankBehaviour((), (), (f"accepted, and yet {error}",))
    peaks = {id(program): analyze_memory(program, {}).peak for program in programs}
    return RankBehaviour(values, tuple(peaks[id(program)] for program in programs))


def rank_pass_faults(
    before: RankBehaviour, after: RankBehaviour, limit: float = 1.0
) -> tuple[str, ...]:
    """Return the faults of programs that a pass made; ``limit`` is that of the peak."""
    if before.faults or after.faults:
        return before.faults or after.faults
    faults: list[str] = []
    for rank, (old, new) in enumerate(zip(before.values, after.values, strict=True)):
        if not all(map(torch.equal, old, new)):
            faults.append(f"the results of rank {rank} differ: {old} and {new}")
    for rank, (was, now) in enumerate(zip(before.peaks, after.peaks, strict=True)):
        if now > limit * was:
            faults.append(f"the peak of rank {rank} rose from {was} to {now}")
    return tuple(faults)
