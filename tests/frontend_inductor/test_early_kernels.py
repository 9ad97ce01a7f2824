"""Kernels that are compiled while Inductor writes others are those of the program."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.frontend_inductor.captured import Capture
from wrapperir.ir import Program
from wrapperir.kernels import Target, TritonJob
from wrapperir.passes import split_configs
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_python.emitter import PythonEmitter

CASES = (
    *("mm, dynamic", "attention, training", "convolution", "index", "foreach"),
    *("user kernel, epilogue", "tensor descriptors", "split scan, small"),
    *("mix-order reduction, small", "cooperative reduction", "block pointers"),
)


def keys(tasks: Iterable[dict[str, Any]]) -> set[str]:
    """Return what decides how each kernel is compiled."""
    names = "text", "entry", "signature", "values", "aligned", "architecture"
    found = ({name: task[name] for name in names} for task in tasks)
    return {
        json.dumps({**each, "aligned": sorted(each["aligned"])}, sort_keys=True)
        for each in found
    }


def asked_for(program: Program, emitter: CppEmitter | PythonEmitter) -> set[str]:
    """Return what is compiled of an emitted program before its first launch."""
    files = emitter.emit(program).files
    facts = [
        json.loads(text) for path, text in files.items() if path.endswith(".triton.json")
    ]
    target = Target("sm_90")
    return keys(
        {
            "text": files[each["source"]],
            **TritonJob("k", target, True, "k.cubin", each, {}).task,
        }
        for each in facts
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("emitter", [CppEmitter(), PythonEmitter()], ids=["cpp", "python"])
def test_early_kernels_are_those_that_programs_ask_for(
    name: str,
    emitter: CppEmitter | PythonEmitter,
    captured: Capture,
    compiled_early: Callable[[str], list[dict[str, Any]]],
) -> None:
    wanted: set[str] = set()
    for program in captured(name):
        wanted |= asked_for(split_configs(program), emitter)
    assert wanted
    assert wanted <= keys(compiled_early(name))
