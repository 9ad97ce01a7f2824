"""Lowers graphs and checks what every program that comes of one must satisfy."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from wrapperir.frontend import Lowered
from wrapperir.frontend.fx import lower_graph_module
from wrapperir.interp import interpret
from wrapperir.ir import Program
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify


def lowered(module: GraphModule) -> Lowered:
    """Lower a graph; its program verifies and its text gives the same program."""
    found = lower_graph_module(module)
    assert verify(found.program) == ()
    assert parse_program(format_program(found.program)) == found.program
    assert {constant.key for constant in found.program.constants} == set(found.constants)
    return found


def check_run(module: GraphModule, given: Sequence[Any], expected: Any) -> Program:
    """Lower a graph and hold what its program returns to what is ``expected``."""
    found = lowered(module)
    results = interpret(found.program, list(given), found.constants)
    wanted = expected if isinstance(expected, tuple | list) else (expected,)
    torch.testing.assert_close(list(results), list(wanted))
    return found.program
