"""Operator calls in C++ as part of a program: errors, effects, gradients, memory."""

import threading
from typing import Any

import pytest
import torch

from tests.cpp_emitter.operator_calls import operators
from tests.cpp_emitter.running import load, parsed
from tests.torch_release import NEEDS_MESSAGES
from wrapperir.emit import Value

WAYS = {
    "c function": "aten.bmm.out(%x, %y, out = %r)",
    "by name": "aten.silu.out(%x, out = %r)",
    "bridge": "aten.add.out(%x, %y, alpha = 2, out = %r)",
}


def program_of(call: str, size: str = "1, 2, n") -> Any:
    return load(
        parsed(
            f"""
            program @main(%x: f32[1, 2, n], %y: f32[1, m, 2]) {{
              symbol n: int = size(%x, 2)
              symbol m: int = size(%y, 1)
              %r = allocate f32[{size}]
              extern_kernel {call} writes(%r)
              return %r
            }}
            """
        ),
        {},
    )


@pytest.mark.parametrize(
    ("way", "said"),
    [
        pytest.param(
            *("c function", "Expected size for first two dimensions of batch2"),
            marks=NEEDS_MESSAGES,
        ),
        ("bridge", "must match the size of tensor b"),
    ],
)
def test_what_pytorch_refuses_is_a_failure_of_the_line(way: str, said: str) -> None:
    call = program_of(WAYS[way])
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=rf"program.wir:\d+, extern_kernel aten.*{said}"
        ):
            call([torch.ones(1, 2, 3), torch.ones(1, 5, 2)])


@NEEDS_MESSAGES
def test_errors_of_operators_in_python_arrive() -> None:
    def fail(x: torch.Tensor) -> torch.Tensor:
        raise ValueError(f"no sum of {x.numel()}")

    with operators("wrapperir_errors", fail=("(Tensor x) -> Tensor", fail)):
        call = load(
            parsed(
                """
                program @main(%x: f32[2]) {
                  %y = extern_kernel wrapperir_errors.fail.default(%x) : f32[2]
                  return %y
                }
                """
            ),
            {},
        )
        with pytest.raises(ValueError, match=r"^no sum of 2\nraised in .*program.wir:4, "):
            call([torch.ones(2)])


EFFECTS = """
program @main(%x: mutated f32[2], %y: f32[2]) {
  %t = extern_kernel wrapperir_effects.fill.default(%x, [%y]) writes(%x) : (f32[2], f32[2])
  %a = multi_output %t[0] : f32[2]
  %b = multi_output %t[1] : f32[2]
  free %t
  return %a, %b
}
"""


def test_operators_in_python_change_their_arguments_and_return_lists() -> None:
    def fill(x: torch.Tensor, others: list[torch.Tensor], value: float = 2.5) -> list[Any]:
        x.fill_(value)
        return [x + 1, *(other * 2 for other in others)]

    schema = "(Tensor(a!) x, Tensor[] others, float value=2.5) -> Tensor[]"
    with operators("wrapperir_effects", fill=(schema, fill)):
        call = load(parsed(EFFECTS), {})
        x = torch.zeros(2)
        first, second = call([x, torch.ones(2)])
    assert x.tolist() == [2.5, 2.5]
    assert isinstance(first, torch.Tensor)
    assert isinstance(second, torch.Tensor)
    assert (first.tolist(), second.tolist()) == ([3.5, 3.5], [2.0, 2.0])


GRADIENTS = """
program @main(%x: mutated f32[1, 2, 2], %w: f32[1, 2, 2]) {
  %a = extern_kernel aten.relu.default(%w) : f32[1, 2, 2]
  %b = extern_kernel aten.abs.default(%w) : f32[1, 2, 2]
  %c = extern_kernel aten.add.Tensor(%w, 2) : f32[1, 2, 2]
  extern_kernel aten.mul_.Tensor(%x, %w) writes(%x)
  extern_kernel aten.add_.Scalar(%x, true) writes(%x)
  extern_kernel aten.bmm.out(%a, %w, out = %x) writes(%x)
  return %a, %b, %c
}
"""


@pytest.mark.parametrize("enabled", [False, True])
def test_results_have_no_gradients(enabled: bool) -> None:
    call = load(parsed(GRADIENTS), {})
    x = torch.ones(1, 2, 2, requires_grad=True)
    w = torch.randn(1, 2, 2, requires_grad=True)
    with torch.set_grad_enabled(enabled):
        outputs = call([x, w])
        assert torch.is_grad_enabled() is enabled
    for output in outputs:
        assert isinstance(output, torch.Tensor)
        assert not output.requires_grad
    assert torch.equal(x, torch.bmm(torch.relu(w), w))
    assert x.grad_fn is None


def test_inference_tensors_are_arguments() -> None:
    call = load(parsed(GRADIENTS), {})
    with torch.inference_mode():
        x, w = torch.ones(1, 2, 2), torch.randn(1, 2, 2)
        call([x, w])
        assert torch.equal(x, torch.bmm(torch.relu(w), w))


@pytest.mark.parametrize("way", WAYS)
def test_calls_keep_and_lose_no_memory(way: str) -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    call = program_of(WAYS[way])

    def repeat(count: int) -> int:
        for _ in range(count):
            call([torch.ones(1, 2, 2), torch.ones(1, 2, 2)])
        return resident()

    def fail(count: int) -> int:
        before = resident()
        for _ in range(count):
            with pytest.raises(RuntimeError):
                call([torch.ones(1, 2, 2), torch.ones(1, 5, 2)])
        return resident() - before

    repeat(2000)
    assert repeat(5000) - repeat(5000) > -200  # pages; a tensor a call would be 700
    first = repeat(5000)
    assert repeat(5000) - first < 200
    if way != "by name":
        fail(200)
        # What leaks does so in each batch; PyTorch takes milliseconds to tell of an error.
        assert min(fail(200) for _ in range(3)) < 20


RANDOM = """
program @main() {
  %a = extern_kernel aten.rand.default([3]) : f32[3]
  %b = extern_kernel aten.rand_like.default(%a) : f32[3]
  %c = extern_kernel aten.normal_functional.default(%a) : f32[3]
  %d = extern_kernel aten.rand.generator([3], generator = none) : f32[3]
  return %a, %b, %c, %d
}
"""


def test_random_numbers_are_those_of_the_global_generator() -> None:
    call = load(parsed(RANDOM), {})
    torch.manual_seed(3)
    a = torch.rand(3)
    b = torch.rand_like(a)
    c = torch.ops.aten.normal_functional.default(a)
    wanted = [a, b, c, torch.rand(3)]
    torch.manual_seed(3)
    outputs = call([])
    for got, want in zip(outputs, wanted, strict=True):
        assert isinstance(got, torch.Tensor)
        assert torch.equal(got, want)


@pytest.mark.parametrize("way", WAYS)
def test_threads_call_operators_at_once(way: str) -> None:
    call = program_of(WAYS[way])
    inputs = [torch.randn(1, 2, 2), torch.randn(1, 2, 2)]
    (wanted,) = call(list(inputs))
    wrong: list[Value] = []

    def work() -> None:
        for _ in range(200):
            (got,) = call(list(inputs))
            if not torch.equal(got, wanted):
                wrong.append(got)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
