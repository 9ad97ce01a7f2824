"""Loading libraries, and calling them from Python."""

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pytest
import torch
from attrs import evolve
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

from tests.cpp_emitter.running import load, parsed
from tests.torch_release import NEEDS_MESSAGES
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Artifact, Loaded, Value
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.errors import error_of

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


def test_a_program_of_the_cpu_asks_for_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("CUDA was asked")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("get_device_capability", "get_device_name", "get_device_properties"):
        monkeypatch.setattr(torch.cuda, name, refuse)
    call = loaded(SUM, {"fc.weight": torch.ones(4)})
    (y, _) = call([torch.ones(4)])
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, torch.full((4,), 2.0))


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


def two_tensors() -> torch.Tensor:
    """Return a tensor whose class takes operators itself."""
    made: torch.Tensor = TwoTensor(torch.ones(4), torch.ones(4))  # type: ignore[no-untyped-call]
    return made


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([1.0, 1.0, True], RuntimeError, "WIR801: %n needs an int, not a float"),
        ([1, 1.0, 0.0], RuntimeError, "b needs a bool, not a float"),
        ([None, 1.0, True], RuntimeError, "n needs an int, not nothing"),
        ([torch.ones(()), 1.0, True], RuntimeError, "n needs an int, not a tensor"),
        ([2**63, 1.0, True], RuntimeError, "WIR801: %n needs an int, not an int of more"),
        (["1", 1.0, True], RuntimeError, "main: WIR801: %n needs an int, not a str"),
        ([np.ones(2, int), 1.0, True], RuntimeError, "%n needs an int, not a ndarray"),
        ([1, 1j, True], RuntimeError, "WIR801: %f needs a float, not a complex"),
        ([1, 1.0, two_tensors()], RuntimeError, "%b needs a bool, not a tensor"),
        (["1", 1.0], RuntimeError, "WIR800: 3 inputs needed, 2 given"),
        ([1, 1.0], RuntimeError, "WIR800: 3 inputs needed, 2 given"),
    ],
)
def test_other_values_are_refused(
    given: list[Value], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        loaded(NUMBERS)(given)


class Subclass(torch.Tensor):
    pass


class ParameterSubclass(torch.nn.Parameter):
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


def without_wrapping(x: torch.Tensor, wanted: type) -> torch.Tensor:
    return ParameterSubclass(x) if wanted is ParameterSubclass else x.as_subclass(wanted)


@pytest.mark.parametrize("wanted", [Subclass, ParameterSubclass])
def test_subclasses_that_leave_operators_to_pytorch_are_taken(wanted: type) -> None:
    call = loaded(SUM, {"fc.weight": without_wrapping(torch.ones(4), wanted)})
    x = without_wrapping(torch.arange(4.0), wanted)
    for _ in range(2):
        y, same = tensors(call([x]))
        assert same is x
        assert type(y) is torch.Tensor
        assert y.tolist() == [1, 2, 3, 4]


def lazily_negated() -> torch.Tensor:
    return torch._neg_view(torch.arange(4.0))


def lazily_conjugated() -> torch.Tensor:
    return torch.view_as_complex(torch.arange(4.0).view(2, 2)).conj()


LAZY = """
kernel_definition @copy cpp(p: read f32*, q: write f32*) {
  entry = copy
  source {
    | #include <cstring>
    | extern "C" void copy(const float* p, float* q) { std::memcpy(q, p, 16); }
  }
}
program @main(%x: TYPE) {
  %v = reinterpret %x as f32[4]
  %y = allocate f32[4]
  kernel_call @copy(%v, %y)
  free %v
  return %y, %x
}
"""


@pytest.mark.parametrize(
    ("x", "type"),
    [
        (lazily_negated(), "f32[4]"),
        (lazily_negated().requires_grad_(), "f32[4]"),
        (lazily_conjugated(), "c64[2]"),
        (torch._neg_view(lazily_conjugated()), "c64[2]"),
    ],
)
def test_what_is_lazily_conjugated_or_negated_is_resolved(
    x: torch.Tensor, type: str
) -> None:
    y, same = tensors(loaded(LAZY.replace("TYPE", type))([x]))
    values = x.detach().clone().resolve_conj().resolve_neg()
    values = torch.view_as_real(values) if x.is_complex() else values
    assert y.tolist() == values.flatten().tolist()
    assert torch.equal(same, x)
    assert not same.requires_grad


def test_a_lazily_negated_tensor_is_not_written_to() -> None:
    call = loaded("""
    program @main(%n: i64, %x: mutated f32[4]) {
      extern_kernel aten.add_.Tensor(%x, 1) writes(%x)
      return none
    }
    """)
    x = lazily_negated()
    needed = "WIR801: %x needs memory .* negated lazily, and the program writes to it"
    with pytest.raises(RuntimeError, match=needed):
        call([1, x])
    assert x.tolist() == [0, -1, -2, -3]
    call([1, x := x.clone().resolve_neg()])
    assert x.tolist() == [1, 0, -1, -2]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (torch.ones(5), RuntimeError, r"x needs size \[4\], not \[5\]"),
        (torch.ones(2, 2), RuntimeError, "x needs 1 dimensions, not 2"),
        (torch.ones(8)[::2], RuntimeError, r"x needs stride \[1\], not \[2\]"),
        (torch.ones(4).double(), RuntimeError, "x needs elements of f32, not f64"),
        (torch.ones(4, device="meta"), RuntimeError, "x needs to be on cpu, not on meta"),
        (
            torch.ones(4).to_sparse(),
            RuntimeError,
            "%x needs a tensor with strides, not",
        ),
        (1, RuntimeError, "x needs a tensor, not an int"),
        (
            two_tensors(),
            RuntimeError,
            "WIR801: %x needs a plain tensor, not a TwoTensor",
        ),
        (
            torch.quantize_per_tensor(torch.ones(4), 1.0, 0, torch.quint8),
            RuntimeError,
            "x needs elements of f32, not an unknown dtype",
        ),
        (
            FakeTensorMode().from_tensor(torch.ones(4)),
            RuntimeError,
            "%x needs a plain tensor, not a FakeTensor",
        ),
        ("4", RuntimeError, "%x needs a tensor, not a str"),
    ],
)
def test_other_tensors_are_refused(
    add: Loaded, given: Value, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        add([given])
    (y, _) = tensors(add([torch.zeros(4)]))
    assert torch.equal(y, torch.ones(4))


@NEEDS_MESSAGES
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
    calls: list[tuple[object, ...]] = [(), ([], [])]
    for given in calls:
        with pytest.raises(TypeError, match="one list"):
            call(*given)


@NEEDS_MESSAGES
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


RAISED: list[BaseException] = []


@torch.library.custom_op("wrapperir_load::raising", mutates_args=())
def raising(x: torch.Tensor) -> torch.Tensor:
    raise RAISED[-1]


@NEEDS_MESSAGES
@pytest.mark.parametrize(
    ("raised", "wanted", "arguments"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt, ()),
        (KeyboardInterrupt("twice"), KeyboardInterrupt, ("twice",)),
        (SystemExit(), SystemExit, ()),
        (SystemExit(3), SystemExit, (3,)),
        (SystemExit("bye"), SystemExit, ("bye",)),
    ],
)
def test_what_ends_the_process_is_not_an_error_of_the_program(
    raised: BaseException, wanted: type[BaseException], arguments: tuple[object, ...]
) -> None:
    call = raising_program()
    RAISED.append(raised)
    with pytest.raises(wanted) as caught:
        call([torch.ones(2)])
    assert caught.value.args == arguments


class OwnError(Exception):
    """An error that takes two arguments."""

    def __init__(self, one: str, other: int) -> None:
        super().__init__(f"{one}: {other}")


# Another class of that name, of a module without a file.
OTHER_OWN_ERROR = type("OwnError", (Exception,), {"__module__": "elsewhere"})


class UnsayableError(Exception):
    def __init__(self, value: str) -> None:
        self.value = value

    def __str__(self) -> str:
        return self.value


@NEEDS_MESSAGES
@pytest.mark.parametrize(
    ("raised", "wanted", "text"),
    [
        (ValueError("KeyboardInterrupt: no"), ValueError, "KeyboardInterrupt: no"),
        (RuntimeError("two\nlines: and\n\nmore"), RuntimeError, "two\nlines: and\n\nmore"),
        (MemoryError(), MemoryError, ""),
        (KeyError("key"), KeyError, "'key'"),
        (KeyError("it's"), KeyError, '"it\'s"'),
        (KeyError(("a", 1)), KeyError, "('a', 1)"),
        (OwnError("one", 2), OwnError, "one: 2"),
        (torch.OutOfMemoryError("none left"), torch.OutOfMemoryError, "none left"),
    ],
)
def test_errors_of_python_operators_keep_their_classes(
    raised: Exception, wanted: type[Exception], text: str
) -> None:
    call = raising_program()
    RAISED.append(raised)
    with pytest.raises(wanted) as caught:
        call([torch.ones(2)])
    assert type(caught.value) is wanted
    assert str(caught.value) == text
    (note,) = caught.value.__notes__
    assert note.startswith(
        "raised in main, program.wir:4, extern_kernel wrapperir_load.rai"
    )
    assert __file__ in note


@NEEDS_MESSAGES
def test_an_error_that_cannot_be_made_again_is_of_the_program() -> None:
    call = raising_program()
    RAISED.append(UnsayableError("why"))
    with pytest.raises(
        RuntimeError, match=r"main, program.wir:4, .*raising.*: UnsayableError: why"
    ):
        call([torch.ones(2)])


@pytest.mark.parametrize(
    "message",
    [
        "main, program.wir:2, allocate f32[8]@cuda: CUDA out of memory. Tried to",
        "main, program.wir:3, extern_kernel aten.mm.default: CUDA out of memory. Tried to",
        "main, program.wir:2, allocate f32[8]@cuda:1: a function of PyTorch failed; "
        "it wrote why to stderr",
        "main, program.wir:2, allocate_pool pool[8]@cuda:1: a function of PyTorch failed; "
        "it wrote why to stderr",
    ],
)
def test_a_gpu_without_memory_is_pytorchs_error(message: str) -> None:
    error = error_of(message)
    assert type(error) is torch.OutOfMemoryError
    assert str(error) == message
    of_the_cpu = message.replace("cuda", "cpu").replace("CUDA", "CPU")
    assert type(error_of(of_the_cpu)) is RuntimeError


LINALG: Any = torch.linalg


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("linalg.inv: The diagonal element 1 is zero", LINALG.LinAlgError),
        ("torch.linalg.solve: (Batch element 0): The solver", LINALG.LinAlgError),
        ("linalg.inv: expected a square matrix", RuntimeError),
        ("index 7 is out of bounds for dimension 0 with size 3", IndexError),
    ],
)
def test_errors_of_pytorchs_operators_keep_their_classes(
    text: str, wanted: type[Exception]
) -> None:
    message = f"main, program.wir:2, extern_kernel aten.some.default: {text}"
    error = error_of(message)
    assert type(error) is wanted
    assert str(error) == message


def raising_program() -> Loaded:
    return loaded("""
    program @main(%x: f32[2]) {
      %y = extern_kernel wrapperir_load.raising.default(%x) : f32[2]
      return %y
    }
    """)


def test_a_message_may_be_of_any_bytes() -> None:
    call = loaded(
        r"""
    kernel_definition @fail cpp(p: read f32*) {
      entry = kernel
      source {
        | #include <stdexcept>
        | extern "C" void kernel(const float* p) { throw std::runtime_error("\xff\xfe"); }
      }
    }
    program @main(%x: f32[2]) {
      kernel_call @fail(%x)
      return none
    }
    """
    )
    with pytest.raises(RuntimeError, match=r"^\ufffd\ufffd$"):
        call([torch.ones(2)])


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
        (two_tensors(), "not a plain tensor"),
    ):
        code, message = refusal(artifact, {"fc.weight": wrong})
        assert code is Code.INVALID_ARTIFACT
        assert what in message


def test_a_key_with_a_zero_character_is_refused() -> None:
    program = parsed(SUM.replace("fc.weight", r"fc\u0000weight"))
    with pytest.raises(DiagnosticError) as caught:
        CppEmitter().emit(program)
    (found,) = caught.value.diagnostics
    assert found.code is Code.UNSUPPORTED_FEATURE
    assert "a constant's key has a zero character" in found.message
    assert found.path == ("constants", 0)


def test_a_key_may_have_any_other_character() -> None:
    escaped, key = r"k\"\\\n??/*/\u00e9", 'k"\\\n??/*/\u00e9'
    text = SUM.replace("fc.weight", escaped)
    (y, _) = tensors(loaded(text, {key: torch.ones(4)})([torch.zeros(4)]))
    assert y.tolist() == [1, 1, 1, 1]
    code, message = refusal(artifact_of(text), {})
    assert code is Code.MISSING_CONSTANT
    assert repr(key) in message


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
    assert "the kernels use avx1024, which this processor lacks" in message


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
