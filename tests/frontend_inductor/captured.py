"""Captures a function and checks what every captured program must satisfy."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch._dynamo import config as dynamo_config
from torch._higher_order_ops.while_loop import while_loop as _while_loop

from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor import capture
from wrapperir.ir import Block, BodyLine, Program
from wrapperir.ir.blocks import blocks_of
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

L = TypeVar("L")
Capture = Callable[[str], list[Program]]
"""Returns the programs of a case by its name."""

# They carry no types.
while_loop: Any = _while_loop
check: Any = torch._check


class CaptureFailedError(Exception):
    """A case was not captured; the message has the error."""


def capture_all(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    training: bool = False,
    cpu_backend: str | None = None,
) -> list[Lowered]:
    """Capture; every program verifies and its text gives the same program."""
    torch._dynamo.reset()
    with dynamo_config.patch(
        capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True
    ):
        lowered = capture(function, inputs, training=training, cpu_backend=cpu_backend)
    for one in lowered:
        assert verify(one.program) == ()
        assert parse_program(format_program(one.program)) == one.program
        assert {constant.key for constant in one.program.constants} == set(one.constants)
    return lowered


def capture_one(function: Callable[..., Any], *inputs: Any, **keywords: Any) -> Program:
    """Capture a function that has one graph."""
    (lowered,) = capture_all(function, inputs, **keywords)
    return lowered.program


def lines_of(owner: Program | Block, kind: type[L]) -> list[L]:
    """Return the lines of a kind, those of nested blocks included."""
    found: list[L] = []

    def walk(lines: Sequence[BodyLine]) -> None:
        for line in lines:
            if isinstance(line, kind):
                found.append(line)
            for block in blocks_of(line):
                walk(block.lines)

    walk(owner.lines)
    return found
