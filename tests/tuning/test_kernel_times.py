"""Timing kernels that do the same: copies, turns, and kernels that really are slower."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.forked_processes import ProcessServer
from tests.python_emitter.stub_kernels import global_of, program_of, vars_of
from wrapperir.emit import write_artifact
from wrapperir.ir import Program
from wrapperir.tuning import kernel_times
from wrapperir.tuning.choice_cache import fresh_choice_cache
from wrapperir.tuning.kernel_times import Copies, bytes_of, time_kernels
from wrapperir_python.emitter import PythonEmitter

CPU = torch.device("cpu")

# The slow one spins for about 100 microseconds, the other works for less than one.
SOURCE = """\
#include <cstdint>
#include <stdexcept>
extern "C" void kernel(const float* x, float* p, float* ran, int64_t n) {
  volatile int64_t spun = 0;
  while (spun < SPINS) spun = spun + 1;
  if (MARK == 0) throw std::runtime_error("this one fails");
  for (int64_t i = 0; i < n; ++i) p[i] += x[i % 8];
  ran[0] = MARK;
}"""
PARAMETERS = "x: read f32*, p: read_write f32*, ran: write f32*, n: i64"
KERNELS = {"slow": (40_000, 1), "fast": (0, 2), "fails": (0, 0)}


def definition(name: str) -> str:
    spins, mark = KERNELS[name]
    source = SOURCE.replace("SPINS", str(spins)).replace("MARK", str(mark))
    shown = "".join(f"    | {line}\n" for line in source.splitlines())
    return (
        f"kernel_definition @{name} cpp({PARAMETERS}) {{\n  entry = kernel\n"
        f"  source {{\n{shown}  }}\n}}\n\n"
    )


def choosing(*names: str, x: str = "f32[4, 8; stride 0, 1]") -> Program:
    choices = "".join(f"  choice @{name}(0, 1, 2, 3)\n" for name in names)
    multi = f"multi_kernel @m({PARAMETERS}) {{\n{choices}  select benchmark\n}}\n"
    lines = "  %ran = allocate f32[1]\n  kernel_call @m(%x, %p, %ran, 32)\n  return %ran"
    inputs = f"%x: {x}, %p: mutated f32[4, 8]"
    return program_of("".join(map(definition, names)) + multi, lines, inputs)


@pytest.fixture(autouse=True)
def cache() -> Any:
    with fresh_choice_cache() as made:
        yield made


@pytest.mark.parametrize(
    "names", [("slow", "fast"), ("fast", "slow"), ("fails", "slow", "fast")]
)
def test_the_faster_kernel_wins_wherever_it_stands(names: tuple[str, ...]) -> None:
    """An expanded input and one changed in place are as the winner alone leaves them."""
    emitter = PythonEmitter()
    call: Any = emitter.load(emitter.emit(choosing(*names)), {})
    for _ in range(3):
        x = torch.arange(8.0).expand(4, 8)
        p = torch.ones(4, 8)
        (ran,) = call([x, p])
        assert ran.tolist() == [2]
        assert torch.equal(p, 1 + x)
        assert torch.equal(x, torch.arange(8.0).expand(4, 8))
    (decision,) = call.choices()
    assert decision.kernel == "fast"
    times = dict(decision.microseconds)
    assert times.get("fails") is None
    assert times["slow"] > 10 * times["fast"]


ELSEWHERE = """\
import importlib.util, json, sys, torch
spec = importlib.util.spec_from_file_location("out", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
def time_choices(*_): raise AssertionError("it was timed again")
module.kernel_choices.time_choices = time_choices
p = torch.ones(4, 8)
(ran,) = module.call([torch.arange(8.0).expand(4, 8), p])
assert "wrapperir" not in sys.modules, sorted(sys.modules)
print(json.dumps([ran.tolist(), [list(c[:3]) for c in module.call.choices()]]))
"""


def test_another_process_runs_the_choice_and_times_nothing(
    tmp_path: Path, process_server: ProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    emitter = PythonEmitter()
    artifact = emitter.emit(choosing("slow", "fast"))
    emitter.load(artifact, {})([torch.ones(1, 8).expand(4, 8), torch.ones(4, 8)])
    write_artifact(artifact, tmp_path / "out")
    done = process_server.run("-c", ELSEWHERE, str(tmp_path / "out" / "program.py"))
    assert done.returncode == 0, done.stderr
    ran, choices = json.loads(done.stdout)
    assert ran == [2.0]
    assert choices == [["m", "fast", "the fastest when it was timed before"]]


LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "dense": lambda: torch.arange(12.0).view(3, 4),
    "expanded": lambda: torch.arange(4.0).expand(3, 4),
    "overlapping": lambda: torch.arange(9.0).as_strided((4, 3), (2, 1)),
    "transposed": lambda: torch.arange(12.0).view(3, 4).t(),
    "from an offset": lambda: torch.arange(20.0)[3:15].view(3, 4),
    "with gaps": lambda: torch.arange(40.0).view(4, 10)[:, 1:4],
    "a number": lambda: torch.tensor(7.0),
    "empty": lambda: torch.empty(0, 5),
    "complex": lambda: torch.arange(4.0).to(torch.complex64).conj(),
    "bool": lambda: torch.tensor([True, False, True]),
    "f8": lambda: torch.arange(5.0).to(torch.float8_e4m3fn),
    "of a parameter": lambda: torch.nn.Parameter(torch.arange(5.0))[1:],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_copy_has_the_layout_and_values_of_its_original(name: str) -> None:
    with torch.no_grad():
        given = LAYOUTS[name]()
        copies = Copies([given, 7, given], [0])
    first, number, second = copies.arguments
    assert number == 7
    assert (first.dtype, first.size(), first.stride()) == (
        given.dtype,
        given.size(),
        given.stride(),
    )
    assert torch.equal(bytes_of(first), bytes_of(given))
    memory = {t.untyped_storage().data_ptr() for t in (given, first, second)}
    assert len(memory) == 3 or not given.numel()
    assert (first.data_ptr() - given.data_ptr()) % (1 << 16) == 0 or not given.numel()


@given(st.lists(st.integers(1, 4), max_size=3), st.data())
def test_a_copy_overlaps_itself_as_its_original_does(
    size: list[int], data: st.DataObject
) -> None:
    stride = [data.draw(st.integers(0, 4)) for _ in size]
    offset = data.draw(st.integers(0, 5))
    base = torch.arange(100.0)
    given = base.as_strided(size, stride, offset)
    copies = Copies([given], [0])
    (copied,) = copies.arguments
    assert torch.equal(copied, given)
    place = tuple(data.draw(st.integers(0, extent - 1)) for extent in size)
    copied[place] = -1.0
    assert torch.equal(base, torch.arange(100.0))
    copies.restore()
    assert torch.equal(copied, given)
    copied[place] = -1.0
    given[place] = -1.0
    assert torch.equal(copied, given)


def waiting(seconds: float, ran: list[float]) -> Callable[..., object]:
    def wait(*_: Any) -> None:
        ran.append(seconds)
        time.sleep(seconds)

    return wait


class Seconds:
    """Stands in for ``time``; only kernels that say so take time."""

    def __init__(self) -> None:
        self.now = 0

    def perf_counter_ns(self) -> int:
        return self.now

    def perf_counter(self) -> float:
        return self.now / 1e9

    def kernel(self, ran: list[float], *seconds: float) -> Callable[..., None]:
        """Return a kernel that takes so long, and from then on the last of them."""
        left = list(seconds)

        def run(*_: Any) -> None:
            took = left.pop(0) if len(left) > 1 else left[0]
            ran.append(took)
            self.now += round(took * 1e9)

        return run


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    made = Seconds()
    monkeypatch.setattr(kernel_times, "time", made)
    return made


@pytest.mark.parametrize(("slow", "times"), [(3.0, 1), (0.3, 2)])
def test_slow_kernels_run_seldom_and_fast_ones_many_times_in_turn(
    slow: float, times: int, seconds: Seconds
) -> None:
    ran: list[float] = []
    took = (slow, 1e-6, 2e-6)
    kernels = [(name, seconds.kernel(ran, x)) for name, x in zip("abc", took, strict=True)]
    assert time_kernels(kernels, (), (), CPU) == [slow * 1e6, 1, 2]
    assert ran.count(slow) == times
    assert ran.count(1e-6) == ran.count(2e-6) == kernel_times.MOST_TURNS + 1


def test_a_kernel_that_is_much_slower_has_few_turns(seconds: Seconds) -> None:
    ran: list[float] = []
    kernels = [("a", seconds.kernel(ran, 0.002)), ("b", seconds.kernel(ran, 1e-6))]
    assert time_kernels(kernels, (), (), CPU) == [2000, 1]
    assert ran.count(0.002) == 1 + kernel_times.TRIAL_TURNS


def test_what_a_kernel_sets_up_once_does_not_count(seconds: Seconds) -> None:
    """Its threads, a table: the first run takes longer than a kernel is timed."""
    ran: list[float] = []
    kernels = [("a", seconds.kernel(ran, 1.5, 1e-5)), ("b", seconds.kernel(ran, 2e-5))]
    assert time_kernels(kernels, (), (), CPU) == [10, 20]


def test_a_kernel_may_fail_late() -> None:
    left = [4]

    def fail(*_: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("no more")

    times = time_kernels([("a", fail), ("b", waiting(0.0001, []))], (), (), CPU)
    assert times[0] is None
    assert times[1] is not None


def test_all_kernels_may_fail_late() -> None:
    def fail_after(runs: int) -> Callable[..., None]:
        left = [runs]

        def run(*_: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("no more")

        return run

    kernels = [(name, fail_after(2)) for name in "ab"]
    assert time_kernels(kernels, (), (), CPU) == [None, None]


def test_another_device_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is neither a CPU nor CUDA has nothing but ``synchronize``."""
    order: list[str] = []

    class Module:
        @staticmethod
        def synchronize() -> None:
            order.append("wait")

        @staticmethod
        def device(device: object) -> Any:
            order.append(f"on {device}")
            return torch.no_grad()

    def module_of(_: object) -> type[Module]:
        return Module

    def kernel(*_: Any) -> None:
        order.append("a")

    monkeypatch.setattr(torch, "get_device_module", module_of)
    times = time_kernels([("a", kernel)], (), (), torch.device("xpu", 1))
    assert times[0] is not None
    assert order[:5] == ["on xpu:1", "wait", "wait", "a", "wait"]


def test_what_is_asked_of_the_machine_is_kept_apart() -> None:
    """Other threads, another torch and another emitter have choices of their own."""
    from wrapperir.tuning.choice_facts import call_facts, number_fact, tensor_fact

    arguments = [tensor_fact(torch.float32, (1, 8), (99, 1), 48), number_fact(7.0)]
    facts = call_facts([("digest", (0, 1))], arguments, CPU, "python")
    assert facts["kernels"] == [["digest", [0, 1]]]
    assert facts["arguments"] == [["torch.float32", [1, 8], [0, 1], 16], 7]
    assert facts["emitter"] == "python"
    machine = facts["machine"]
    assert isinstance(machine, dict)
    assert machine["torch"] == torch.__version__
    assert machine["threads"] == str(torch.get_num_threads())
    assert machine.keys() == {"torch", "triton", "device", "capability", "threads"}
    assert number_fact(0.5) == "0.5"
    assert number_fact(float("nan")) == "nan"
    assert number_fact(True) == 1


def test_the_emitter_that_made_a_program_is_in_the_key() -> None:
    class Other(PythonEmitter):
        name = "other"

    artifact = Other().emit(choosing("slow", "fast"))
    assert "    emitter='other',\n" in str(artifact.files["program.py"])
    call = PythonEmitter().load(artifact, {})
    assert global_of(call, "m")._emitter == "other"
    assert "kernel_choices" in vars_of(call)
