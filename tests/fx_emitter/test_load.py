"""Loading what the FX emitter wrote, and calling it."""

import gc
import re
import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Loaded, Value, emit_program, read_artifact, write_artifact
from wrapperir.emit.input_check import InputError
from wrapperir.emit.pipeline import load_stored
from wrapperir.text import parse_program
from wrapperir_fx.emitter import FxEmitter

EMITTER = FxEmitter()
TEXT = """\
wrapperir 1

program @main(%x: f32[s0, 4], %scale: i64) {
  symbol s0: int 2..16 = size(%x, 0)
  symbol factor: int = value(%scale)
  constant %w: f32[4] = "w"
  %y = extern_kernel aten.mul.Tensor(%x, %w) : f32[s0, 4]
  free %x
  %z = extern_kernel aten.mul.Scalar(%y, factor) : f32[s0, 4]
  free %y
  return %z, s0, none
}
"""


def load(text: str, emitter: FxEmitter = EMITTER, /, **constants: torch.Tensor) -> Loaded:
    artifact = emit_program(parse_program(text), emitter)
    return load_stored(artifact, emitter, constants)


def assert_call(call: Loaded) -> None:
    inputs: list[Value] = [torch.ones(3, 4), 2]
    z, s0, nothing = call(inputs)
    assert inputs == []
    assert isinstance(z, torch.Tensor)
    assert torch.equal(z, torch.arange(0.0, 8, 2).expand(3, 4))
    assert (s0, nothing) == (3, None)


def test_a_call_empties_its_list_and_returns_a_tuple() -> None:
    assert_call(load(TEXT, w=torch.arange(4.0)))


def test_what_was_written_is_read_and_loaded(tmp_path: Path) -> None:
    write_artifact(emit_program(parse_program(TEXT), FxEmitter()), tmp_path / "fx")
    artifact = read_artifact(tmp_path / "fx")
    assert_call(load_stored(artifact, FxEmitter(), {"w": torch.arange(4.0)}))


X = torch.ones(3, 4)
WRONG: list[tuple[list[Value], str]] = [
    ([X], "2 inputs needed, 1 given"),
    ([X.double(), 2], "%x needs elements of f32, not f64"),
    ([X.to("meta"), 2], "%x needs to be on cpu, not on meta"),
    ([torch.ones(3, 5), 2], "%x needs size [3, 4], not [3, 5]"),
    ([torch.ones(4, 3).t(), 2], "%x needs stride [4, 1], not [1, 3]"),
    ([X.to_sparse(), 2], "%x needs a tensor with strides, not sparse_coo"),
    ([X, 2.0], "%scale needs an int, not a float"),
]


@pytest.mark.parametrize("compiles", [False, True])
def test_wrong_inputs_are_refused_whatever_runs_the_graph(compiles: bool) -> None:
    emitter = FxEmitter(compile_graph=(lambda module: module) if compiles else None)
    call = load(TEXT, emitter, w=torch.arange(4.0))
    for inputs, message in WRONG:
        with pytest.raises(InputError, match=re.escape(message)):
            call(list(inputs))
    assert_call(call)


def test_inputs_that_a_caller_has_checked_are_not_checked_again() -> None:
    call = load(TEXT, EMITTER.trusting_inputs(), w=torch.arange(4.0))
    z, *_ = call([torch.ones(3, 4).double(), 2])
    assert isinstance(z, torch.Tensor)
    assert z.dtype is torch.float64
    assert_call(call)


@pytest.mark.parametrize(
    ("constants", "code"),
    [({}, Code.MISSING_CONSTANT), ({"w": torch.ones(5)}, Code.CONSTANT_MISMATCH)],
)
def test_a_constant_that_is_not_given_is_named(
    constants: dict[str, torch.Tensor], code: Code
) -> None:
    with pytest.raises(DiagnosticError) as caught:
        load(TEXT, **constants)
    (found,) = caught.value.diagnostics
    assert found.code is code
    assert "w" in found.message


def test_a_parameter_as_constant_records_no_gradient() -> None:
    call = load(TEXT, w=torch.nn.Parameter(torch.arange(4.0)))
    (z, *_) = call([torch.ones(3, 4), 2])
    assert isinstance(z, torch.Tensor)
    assert not z.requires_grad


@pytest.mark.parametrize(
    "inputs", [[torch.ones(1, 4), 2], [torch.ones(3, 4), 2.0], [torch.ones(3, 4)]]
)
def test_what_the_program_does_not_take_is_refused(inputs: Sequence[Value]) -> None:
    """A symbol out of its range, a float for an int, too few inputs."""
    w = torch.arange(4.0)
    with pytest.raises((RuntimeError, InputError)):
        load(TEXT, w=w)(list(inputs))
    # As the graph itself refuses them.
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        load(TEXT, EMITTER.trusting_inputs(), w=w)(list(inputs))


WATCHED = """\
wrapperir 1

program @main(%x: f32[4]) {
  %y = extern_kernel aten.neg.default(%x) : f32[4]
  free %x
  extern_kernel wrapperir_test_load.look.default(%y)
  %z = extern_kernel aten.neg.default(%y) : f32[4]
  free %y
  extern_kernel wrapperir_test_load.look.default(%z)
  return %z
}
"""


def test_memory_goes_where_the_program_frees_it() -> None:
    alive: list[list[bool]] = []
    watched: list[weakref.ref[torch.Tensor]] = []

    def look(x: torch.Tensor) -> None:
        alive.append([reference() is not None for reference in watched])
        watched.append(weakref.ref(x))

    with torch.library._scoped_library("wrapperir_test_load", "FRAGMENT") as library:
        library.define("look(Tensor x) -> ()")
        library.impl("look", look, "CPU")
        call = load(WATCHED)
        x = torch.ones(4)
        watched.append(weakref.ref(x))
        inputs: list[Value] = [x]
        del x
        gc.disable()
        try:
            (z,) = call(inputs)
        finally:
            gc.enable()
    assert isinstance(z, torch.Tensor)
    # at the first look the input is gone, at the second its negative too
    assert alive == [[False], [False, False]]


def test_a_loaded_program_may_be_called_by_several_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    call = load(TEXT, w=torch.arange(4.0))
    with ThreadPoolExecutor(4) as pool:
        outputs = list(
            pool.map(lambda n: call([torch.full((2, 4), float(n)), 1])[0], range(64))
        )
    for n, out in enumerate(outputs):
        assert isinstance(out, torch.Tensor)
        assert torch.equal(out, n * torch.arange(4.0).expand(2, 4))
