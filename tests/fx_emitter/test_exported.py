"""Exported modules, with what their users give and get, as graphs."""

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.frontend_export.models import cases
from tests.fx_emitter.features import assert_described, copied
from tests.python_emitter.running import assert_same
from tests.torch_release import BEFORE_2_12
from wrapperir import compile_program
from wrapperir.frontend.export import lower_exported
from wrapperir.interp import interpret
from wrapperir_fx.emitter import FxEmitter

CASES = cases()
WRONG_TYPES = ("recurrent", "data_dependent")


@pytest.mark.parametrize("name", CASES)
def test_an_exported_module(name: str) -> None:
    if BEFORE_2_12 and name in WRONG_TYPES:
        pytest.skip("torch 2.11 declares other types than its LSTM and unique return")
    case = CASES[name]
    exported = torch.export.export(
        case.module, case.args, case.kwargs, dynamic_shapes=case.dynamic
    )
    lowered = lower_exported(exported)
    graphs: list[Any] = []

    def keep(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    held = [copied(lowered.constants) for _ in range(2)]
    emitter = FxEmitter(compile_graph=keep)
    call = compile_program(lowered.program, emitter=emitter, constants=held[0])
    assert_described(graphs[0], lowered.program)
    for args in (case.args, *case.more):
        leaves = pytree.tree_leaves((args, case.kwargs), is_leaf=lambda leaf: leaf is None)
        given, theirs = copied(leaves), copied(leaves)
        torch.manual_seed(0)
        with torch.no_grad():  # as the interpreter: LSTM for training rounds otherwise
            outputs = call(list(given))
        torch.manual_seed(0)
        wanted = interpret(lowered.program, list(theirs), held[1])
        assert_same(outputs, wanted)
        assert_same(given, theirs)
        assert_same(list(held[0].values()), list(held[1].values()))
