"""Lane loops with sines, cosines and tangents, which are run again if an angle is huge.

The quadrant of a huge angle takes more than half the time of a sine, and vector
instructions have no branch around it.  So a loop computes all angles as if none were huge,
and notes whether one was; then it runs once more, with the functions for all angles::

    i32 far = 0;
    #pragma omp simd reduction(|:far)
    for (...) { ... f32 v1 = near_sin(v0); far |= is_far(v0); out[i] = v1; }
    if (far) {
      #pragma omp simd
      for (...) { ... f32 v1 = sin(v0); out[i] = v1; }
    }
"""

from wrapperir.ir import DType
from wrapperir.lowering.cpp.body import CppWriter
from wrapperir.lowering.loops import (
    Apply,
    Check,
    Instruction,
    Load,
    Nest,
    Reduce,
    Scan,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.substitution import instructions

FLAG = "far"


def is_angle(step: Instruction) -> bool:
    """Return whether a step has a form for angles that are not huge."""
    ops = (ScalarOp.SIN, ScalarOp.COS, ScalarOp.TAN)
    return isinstance(step, Apply) and step.op in ops and step.dtype is DType.F32


def may_run_again(nest: Nest) -> bool:
    """Return whether a nest has angles, and running it twice does what once does."""
    steps = tuple(instructions(nest.body))
    if not any(map(is_angle, steps)):
        return False
    read = {step.buffer for step in steps if isinstance(step, Load)}
    return not any(
        isinstance(step, Reduce | Scan | Check)
        or (
            isinstance(step, Store)
            and (step.mode is not StoreMode.OVERWRITE or step.buffer in read)
        )
        for step in steps
    )


def write_near(writer: CppWriter, step: Instruction) -> None:
    """Write a step, for angles that are not huge, and note whether one is."""
    if isinstance(step, Apply) and is_angle(step):
        angle = writer.names[step.operands[0]]
        with writer.source.computing(step.origins):
            writer.define(step.result, step.dtype, f"near_{step.op.value}({angle})")
            writer.source.write(f"{FLAG} |= is_far({angle});")
    else:
        writer.write(step)
