"""Loading libraries, and calling them from Python."""

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
import pytest
import torch
from attrs import evolve
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.cpp_emitter.running import load, parsed
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Artifact
from wrapperir.emit.contract import Loaded, Value
from wrapperir_cpp.emitter import CppEmitter

SUM = """
program @main(%x: f32[4]) {
  constant %w: f32[4] = "fc.weight"
  %y = allocate f32[4]
  extern_kernel aten.add.out(%x, %w, out=%y) writes(%y)
  return %y, %x
}
"""
NUMBERS = """
program @main(%n: i64, %f: f64, %b: bool) {
  return %n, %f, %b
}
"""
COUNTER = """
program @main() {
  constant %w: mutated f32[4] = "count"
  extern_kernel aten.add_.Tensor(%w, 1) writes(%w)
  return none
}
"""


def artifact_of(text: str) -> Artifact:
    emitter = CppEmitter()
    return emitter.build(emitter.emit(parsed(text)), {})


def loaded(text: str, constants: Mapping[str, torch.Tensor] | None = None) -> Loaded:
    return load(parsed(text), constants or {})


@pytest.fixture(scope="module")
def add() -> Loaded:
    return loaded(SUM, {"fc.weight": torch.ones(4)})


def refusal(artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> tuple[Code, str]:
    with pytest.raises(DiagnosticError) as caught:
        CppEmitter().load(artifact, constants)
    (found,) = caught.value.diagnostics
    return found.code, found.message


def tensors(values: tuple[Value, ...]) -> list[torch.Tensor]:
    return cast(list[torch.Tensor], list(values))


def test_the_list_is_emptied_and_an_input_comes_back_itself(add: Loaded) -> None:
    x = torch.arange(4.0)
    given: list[Value] = [x]
    y, same = tensors(add(given))
    assert given == []
    assert same is x
    assert torch.equal(y, x + 1)


def test_a_parameter_comes_back_itself_and_records_nothing(add: Loaded) -> None:
    x = torch.nn.Parameter(torch.arange(4.0))
    y, same = tensors(add([x]))
    assert same is x
    assert not y.requires_grad
    assert torch.is_grad_enabled()


def test_an_input_that_no_one_else_holds_is_released(add: Loaded) -> None:
    given: list[Value] = [torch.arange(4.0)]
    held = weakref.ref(cast(torch.Tensor, given[0]))
    add(given)
    assert held() is None


def test_each_call_gives_memory_of_its_own(add: Loaded) -> None:
    first, _ = tensors(add([torch.zeros(4)]))
    second, _ = tensors(add([torch.ones(4)]))
    assert first.tolist() == [1, 1, 1, 1]
    assert second.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([3, 2.5, True], (3, 2.5, True)),
        ([-(2**63), 2, 0], (-(2**63), 2.0, False)),
        ([True, False, 5], (1, 0.0, True)),
    ],
)
def test_numbers_become_what_is_declared(given: list[Value], wanted: tuple[Value]) -> None:
    found = loaded(NUMBERS)(given)
    assert found == wanted
    assert [type(number) for number in found] == [int, float, bool]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([1.0, 1.0, True], RuntimeError, "n needs an int, not a float"),
        ([1, 1.0, 0.0], RuntimeError, "b needs a bool, not a float"),
        ([None, 1.0, True], RuntimeError, "n needs an int, not nothing"),
        ([torch.ones(()), 1.0, True], RuntimeError, "n needs an int, not a tensor"),
        ([2**63, 1.0, True], OverflowError, "input 0 does not fit 64 bits"),
        (["1", 1.0, True], TypeError, "input 0 is a str, neither a tensor nor a real"),
        ([np.ones(2, int), 1.0, True], TypeError, "input 0 is a numpy.ndarray, neither"),
        ([1, 1j, True], TypeError, "input 1 is a complex, neither"),
        ([1, 1.0], RuntimeError, "3 inputs are needed, 2 were given"),
    ],
)
def test_other_values_are_refused(
    given: list[Value], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        loaded(NUMBERS)(given)


class Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (torch.ones(5), RuntimeError, r"x needs size \[4\], not \[5\]"),
        (torch.ones(2, 2), RuntimeError, "x needs 1 dimensions, not 2"),
        (torch.ones(8)[::2], RuntimeError, r"x needs stride \[1\], not \[2\]"),
        (torch.ones(4).double(), RuntimeError, "x needs elements of f32, not f64"),
        (torch.ones(4, device="meta"), RuntimeError, "x needs to be on cpu, not on meta"),
        (torch.ones(4).to_sparse(), RuntimeError, "x needs to be a tensor with strides"),
        (1, RuntimeError, "x needs a tensor, not an int"),
        (torch.ones(4).as_subclass(Subclass), TypeError, "input 0 is a Subclass: .* plain"),
        (
            torch.quantize_per_tensor(torch.ones(4), 1.0, 0, torch.quint8),
            RuntimeError,
            "x needs elements of f32, not a dtype that this program does not know",
        ),
        (FakeTensorMode().from_tensor(torch.ones(4)), TypeError, "input 0 is a FakeTensor"),
    ],
)
def test_other_tensors_are_refused(
    add: Loaded, given: Value, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        add([given])
    (y, _) = tensors(add([torch.zeros(4)]))
    assert torch.equal(y, torch.ones(4))


def test_tensors_of_torch_func_are_refused() -> None:
    kernel = loaded("""
    kernel_definition @double cpp(p: read f32*, q: write f32*) {
      entry = twice
      source {
        | extern "C" void twice(const float* p, float* q) { *q = 2 * *p; }
      }
    }
    program @main(%x: f32[1]) {
      %y = allocate f32[1]
      kernel_call @double(%x, %y)
      return %y
    }
    """)
    with pytest.raises(TypeError, match="plain tensors only, with memory of their own"):
        torch.vmap(lambda x: tensors(kernel([x]))[0])(torch.ones(3, 1))


def test_only_one_list_is_taken(add: Loaded) -> None:
    call = cast(Callable[..., object], add)
    calls: list[tuple[object, ...]] = [(), ([], []), ((torch.ones(4),),)]
    for given in calls:
        with pytest.raises(TypeError, match="one list"):
            call(*given)


def test_a_failing_operator_is_reported_with_its_line() -> None:
    call = loaded("""
    program @main(%x: i64[2], %i: i64[2]) {
      %y = extern_kernel aten.index_select.default(%x, 0, %i) : i64[2]
      return %y
    }
    """)
    with pytest.raises(
        RuntimeError,
        match=r"main, program.wir:4, .*index_select.default: .*index out of range",
    ):
        call([torch.arange(2), torch.tensor([0, 7])])
    (y,) = tensors(call([torch.arange(2), torch.tensor([1, 1])]))
    assert y.tolist() == [1, 1]


def test_constants_are_the_caller_s() -> None:
    artifact = artifact_of(COUNTER)
    counts = [torch.zeros(4), torch.nn.Parameter(torch.ones(4))]
    calls = [CppEmitter().load(artifact, {"count": count}) for count in counts]
    for call in calls:
        assert call([]) == (None,)
    calls[0]([])
    assert counts[0].tolist() == [2, 2, 2, 2]
    assert counts[1].tolist() == [2, 2, 2, 2]


def test_constants_live_as_long_as_the_program() -> None:
    call = loaded(SUM, {"fc.weight": torch.arange(4.0)})
    (y, _) = tensors(call([torch.zeros(4)]))
    assert y.tolist() == [0, 1, 2, 3]


def test_constants_are_checked() -> None:
    artifact = artifact_of(SUM)
    code, message = refusal(artifact, {})
    assert code is Code.MISSING_CONSTANT
    assert "'fc.weight'" in message
    for wrong, what in (
        (torch.ones(5), "w needs size [4], not [5]"),
        (torch.ones(4).half(), "w needs elements of f32, not f16"),
        (torch.ones(4).as_subclass(Subclass), "not a plain tensor"),
    ):
        code, message = refusal(artifact, {"fc.weight": wrong})
        assert code is Code.INVALID_ARTIFACT
        assert what in message


def test_a_library_for_another_torch_is_refused() -> None:
    emitter = CppEmitter()
    artifact = emitter.emit(parsed(SUM))
    api = artifact.files["runtime/api.cpp"]
    assert isinstance(api, str)
    api = "#undef WRAPPERIR_TORCH_MINOR\n#define WRAPPERIR_TORCH_MINOR 99\n" + api
    other = emitter.build(
        evolve(artifact, files={**artifact.files, "runtime/api.cpp": api}), {}
    )
    code, message = refusal(other, {"fc.weight": torch.ones(4)})
    assert code is Code.INVALID_ARTIFACT
    assert "the library was built for PyTorch 2.99, and this is 2." in message


def test_kernels_for_another_processor_are_refused() -> None:
    emitter = CppEmitter()
    artifact = emitter.emit(parsed(SUM))
    lacks = 'extern "C" const char* processor_lacks() { return "avx1024"; }\n'
    other = evolve(artifact, files={**artifact.files, "lacks.cpp": lacks})
    code, message = refusal(emitter.build(other, {}), {"fc.weight": torch.ones(4)})
    assert code is Code.INVALID_ARTIFACT
    assert "the kernels use avx1024, which this processor has not" in message


def test_what_is_no_library_is_refused() -> None:
    artifact = artifact_of(SUM)
    files = {**artifact.files, "program.so": b"no library"}
    code, message = refusal(evolve(artifact, files=files), {})
    assert code is Code.INVALID_ARTIFACT
    assert "does not load" in message


def test_several_threads_may_call_one_program(add: Loaded) -> None:
    wrong: list[int] = []

    def call(number: int) -> None:
        x = torch.full((4,), float(number))
        for _ in range(500):
            y, same = tensors(add([x]))
            if same is not x or not torch.equal(y, x + 1):
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
