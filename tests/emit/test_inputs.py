"""Emitted programs refuse inputs that are not as declared, and say so alike."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from wrapperir.emit import Loaded, Value, compile_program
from wrapperir.emit.checked_inputs import input_checker, sharing_checker
from wrapperir.emit.input_check import InputError
from wrapperir.text import parse_program

MIXED = """\
wrapperir 1

program @main(%x: f32[s0, 4] {align = 8}, %n: i64, %f: f64, %b: bool) {
  symbol s0: int 1.. = size(%x, 0)
  return %n, %f, %b
}
"""
X = torch.zeros(2, 4)
LAZY = torch.zeros(4, dtype=torch.complex64).conj().imag  # negated when it is read


def loaded(text: str) -> Loaded:
    return compile_program(parse_program(text))


@pytest.fixture(scope="module", params=["python", "fx", "cpp", "checker"])
def mixed(request: pytest.FixtureRequest) -> Loaded:
    """Return what takes the inputs of ``MIXED``, as an emitter's code or this process."""
    program = parse_program(MIXED)
    if request.param != "checker":
        return compile_program(program, emitter=request.param)
    check = input_checker(program, {})

    def call(inputs: list[Value]) -> tuple[Value, ...]:
        check(inputs)
        return tuple(inputs[1:])

    return call


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "WIR800: 4 inputs needed, 0 given"),
        ([X, 1, 1.0, True, 2], "WIR800: 4 inputs needed, 5 given"),
        ([1, 1, 1.0, True], "WIR801: %x needs a tensor, not an int"),
        ([None, 1, 1.0, True], "%x needs a tensor, not nothing"),
        ([X.double(), 1, 1.0, True], "%x needs elements of f32, not f64"),
        ([X.to("meta"), 1, 1.0, True], "%x needs to be on cpu, not on meta"),
        ([X.to_sparse(), 1, 1.0, True], "%x needs a tensor with strides, not sparse_coo"),
        ([X[0], 1, 1.0, True], "%x needs 2 dimensions, not 1"),
        ([torch.zeros(2, 5), 1, 1.0, True], "%x needs size [2, 4], not [2, 5]"),
        ([torch.zeros(4, 2).t(), 1, 1.0, True], "%x needs stride [4, 1], not [1, 2]"),
        ([torch.zeros(9)[1:].view(2, 4), 1, 1.0, True], "%x needs an address that is a"),
        ([X, X, 1.0, True], "%n needs an int, not a tensor"),
        ([X, torch.tensor(1), 1.0, True], "%n needs an int, not a tensor"),
        ([X, 1.0, 1.0, True], "%n needs an int, not a float"),
        ([X, None, 1.0, True], "%n needs an int, not nothing"),
        ([X, "1", 1.0, True], "%n needs an int, not a str"),
        ([X, 1, 1j, True], "%f needs a float, not a complex"),
        ([X, 1, X, True], "%f needs a float, not a tensor"),
        ([X, 1, 1.0, 1.0], "%b needs a bool, not a float"),
    ],
)
def test_what_is_not_as_declared_is_refused(
    mixed: Loaded, inputs: Sequence[Value], message: str
) -> None:
    with pytest.raises(RuntimeError) as caught:
        mixed(list(inputs))
    # Emitted C++ checks the sizes that are constant first.
    assert message in str(caught.value).replace("[?, 4]", "[2, 4]")
    assert mixed([X, 2, 3.0, False]) == (2, 3.0, False)


@pytest.mark.parametrize("given", [X, (X, 1, 1.0, True)])
def test_inputs_that_are_not_in_a_list_are_refused(mixed: Loaded, given: Any) -> None:
    with pytest.raises(
        RuntimeError, match="WIR800: a program takes one list, of its inputs"
    ):
        mixed(given)


@pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
def test_one_input_is_named_in_the_singular(emitter: str) -> None:
    call = compile_program(parse_program(ADD), emitter=emitter)
    with pytest.raises(RuntimeError, match="WIR800: 1 input needed, 4 given"):
        call([X, X, X, X])


def test_numbers_become_what_is_declared(mixed: Loaded) -> None:
    outputs = mixed([X, True, 3, 2])
    assert outputs == (1, 3.0, True)
    assert list(map(type, outputs)) == [int, float, bool]


TWO = """\
wrapperir 1

program @main(%x: f32[s0], %y: f32[s0 * 2, s0; stride s0, 1], %z: f32[3; offset 2]) {
  symbol s0: int = size(%x, 0)
  return s0
}
"""


def test_sizes_that_inputs_share_are_checked() -> None:
    call = loaded(TWO)
    check = input_checker(parse_program(TWO), {})
    z = torch.zeros(5)[2:]
    for run in (call, check):
        run([torch.zeros(3), torch.zeros(6, 3), z])
        for y, message in (
            (torch.zeros(6, 4), "%y needs size [6, 3], not [6, 4]"),
            (torch.zeros(6, 4)[:, :3], "%y needs stride [3, 1], not [4, 1]"),
        ):
            with pytest.raises(RuntimeError) as caught:
                run([torch.zeros(3), y, z])
            assert message in str(caught.value)
        with pytest.raises(RuntimeError) as caught:
            run([torch.zeros(3), torch.zeros(6, 3), torch.zeros(3)])
        assert "%z needs offset 2 or more, not 0" in str(caught.value)


def test_a_dimension_of_size_1_may_have_any_stride() -> None:
    call = loaded("wrapperir 1\nprogram @main(%x: f32[1, 4]) {\n  return %x\n}\n")
    call([torch.zeros(1, 4).as_strided((1, 4), (7, 1))])
    empty = loaded("wrapperir 1\nprogram @main(%x: f32[0, 4]) {\n  return %x\n}\n")
    empty([torch.zeros(0, 4).as_strided((0, 4), (7, 3))])


ADD = """\
wrapperir 1

program @main(%x: f32[4]) {
  %y = extern_kernel aten.add.Tensor(%x, 1) : f32[4]
  return %x, %y
}
"""
WRITE = """\
wrapperir 1

program @main(%x: mutated f32[4]) {
  extern_kernel aten.add_.Tensor(%x, 1) writes(%x)
  return
}
"""


def test_a_lazily_negated_tensor_is_read_as_its_values() -> None:
    x = torch.arange(4).mul(1j).conj().imag
    assert x.is_neg()
    _, y = loaded(ADD)([x])
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [1, 0, -1, -2]


def test_a_lazily_negated_tensor_is_not_written_to() -> None:
    with pytest.raises(RuntimeError, match="negated lazily, and the program writes to it"):
        loaded(WRITE)([LAZY])


def test_what_requires_a_gradient_records_none() -> None:
    x = torch.zeros(4, requires_grad=True)
    _, y = loaded(ADD)([x])
    assert isinstance(y, torch.Tensor)
    assert not y.requires_grad
    loaded(WRITE)([x])
    assert x.tolist() == [1] * 4


def test_a_tensor_without_memory_is_refused() -> None:
    x = torch.zeros(4)
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="%x needs memory for its elements"):
        loaded(ADD)([x])


class Wrapper(torch.Tensor):
    """A tensor whose memory is not its own."""

    @classmethod
    def __torch_dispatch__(cls, *given: Any) -> Any:
        raise NotImplementedError


def test_a_wrapper_is_refused_and_a_parameter_is_not() -> None:
    call = loaded(ADD)
    with pytest.raises(RuntimeError, match="%x needs a plain tensor, not a Wrapper"):
        call([torch.zeros(4).as_subclass(Wrapper)])
    call([torch.nn.Parameter(torch.zeros(4))])


def test_the_error_has_a_code() -> None:
    check = input_checker(parse_program(ADD), {})
    with pytest.raises(InputError) as caught:
        check([torch.zeros(5)])
    assert caught.value.code == "WIR801"
    assert caught.value.message == "%x needs size [4], not [5]"


SHARED = """\
wrapperir 1

program @main(%x: mutated f32[4]@acme:0, %y: f32[2]@acme:0, %n: i64, %z: f32[4]) {
  constant %c: f32[4]@acme:0 = "c"
  return
}
"""


@pytest.mark.parametrize(
    ("x", "y", "z", "c", "shared"),
    [
        (slice(0, 4), slice(4, 6), slice(6, 10), slice(10, 14), None),
        (slice(0, 4), slice(3, 5), slice(6, 10), slice(10, 14), "y"),
        (slice(0, 4), slice(4, 6), slice(0, 4), slice(10, 14), "z"),
        (slice(0, 4), slice(4, 6), slice(6, 10), slice(0, 4), "c"),
        (slice(0, 4), slice(4, 6), slice(4, 8), slice(4, 8), None),
        (slice(0, 8, 2), slice(1, 3), slice(8, 12), slice(8, 12), "y"),
    ],
)
def test_inputs_that_share_memory_with_a_written_copy_are_refused(
    x: slice, y: slice, z: slice, c: slice, shared: str | None
) -> None:
    """Not those that are read only, or that are only near each other."""
    memory = torch.zeros(14)
    program = parse_program(SHARED)
    check = sharing_checker(program, frozenset({"acme"}), {"c": memory[c]})
    inputs: list[Value] = [memory[x], memory[y], 3, memory[z]]
    if shared is None:
        check(inputs)
        return
    with pytest.raises(InputError, match=f"%x is written and shares memory with %{shared}"):
        check(inputs)
    sharing_checker(program, frozenset({"other"}), {"c": memory[c]})(inputs)
