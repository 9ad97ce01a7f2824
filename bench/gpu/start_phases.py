"""Seconds of a cold and a warm start on a GPU by phase, one process at a time.

Each contender has caches of its own: its first process finds none, its second one those
that the first left.  Seconds are from ``torch.compile`` to the end of the third call.  A
line shows one phase: its seconds, processor seconds of the main thread, how often it was
entered, and when it first began and last ended, in seconds from ``torch.compile``.  Phases
of PyTorch's (``torch._dynamo.utils.compilation_time_metrics``) have seconds and counts
only.  A phase includes those that run in it; what runs in other threads counts once for
each of them.  Counters say whether PyTorch's caches had the graphs.  The bytecode of Python
modules is compiled before.

    python -m bench.gpu.start_phases [--workload NAME]... [--contender NAME]...
"""

import argparse
import functools
import importlib
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from attrs import asdict, define, field

from bench.bytecode import with_bytecode
from bench.gpu.contenders import CONTENDERS, reason_of, step_of, take_output
from bench.gpu.models import WORKLOADS

_WORKLOADS = ("gpt2", "training")
_CONTENDERS = ("inductor", "python", "cpp", "lowering")

STEPS = {
    "key of settings": "wrapperir.backend:cache_key",
    "capture": "wrapperir.frontend.inductor.compilation:compile_inner",
    "lines to program": "wrapperir.frontend.inductor.build:build_program",
    "graph to program": "wrapperir.frontend.lowering.lower:lower_to_program",
    "verify and passes": "wrapperir.emit.pipeline:prepare_program",
    "emit": "wrapperir.emit.pipeline:emit_program",
    "load new": "wrapperir.emit.pipeline:load_artifact",
    "load kept": "wrapperir.frontend.kept_programs:KeptProgram.load",
    "wait for Triton": "wrapperir.kernels.triton_compile:Workers.compile",
    "extensions, background": "wrapperir.kernels.emitted.native_module:build_library",
    "C++: time choices": "wrapperir_cpp.build:tune_artifact",
    "C++: Triton": "wrapperir_cpp.triton_kernels:compile_triton_kernels",
    "C++: objects": "wrapperir_cpp.build:_build_objects",
    "C++: libraries": "wrapperir_cpp.build:_build_libraries",
    "C++: load": "wrapperir_cpp.build:load_folder",
}
"""Functions that are timed, by phase."""

_OF_PYTORCH = {
    "Dynamo": "bytecode_tracing",
    "backend": "OutputGraph.call_user_compiler",
    "AOTAutograd": "create_aot_dispatcher_function",
    "key: PyTorch's files": "inductor_codecache_torch_key",
    "key: Triton's files": "CacheBase.get_system.triton_key",
    "Inductor": "fx_codegen_and_compile",
    "Inductor's graph": "GraphLowering.run",
    "Inductor's scheduler": "Scheduler.__init__",
    "Inductor's kernels": "Scheduler.codegen",
    "wait for Inductor's": "async_compile.wait",
    "guards": "build_guards",
}
_COUNTED = ("aot_autograd", "inductor")


@define
class Phase:
    """Seconds of a phase, and when it began and ended."""

    seconds: float = 0.0
    processor: float = 0.0
    count: int = 0
    first: float | None = None
    last: float | None = None


@define
class Clock:
    """Phases by name, in the order in which they first ended."""

    begun: float = field(factory=time.perf_counter)
    phases: dict[str, Phase] = field(factory=dict[str, Phase])

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, whose calls count for a phase."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            begin, used = time.perf_counter(), time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                phase = self.phases.setdefault(name, Phase())
                end = time.perf_counter()
                phase.seconds += end - begin
                phase.processor += time.thread_time() - used
                phase.count += 1
                phase.last = end - self.begun
                if phase.first is None:
                    phase.first = begin - self.begun

        return call


def find_owner(place: str) -> tuple[Any, str]:
    """Return the module or class of a function named ``module:name``, and its name."""
    module, _, path = place.partition(":")
    *classes, name = path.split(".")
    owner = functools.reduce(getattr, classes, importlib.import_module(module))
    return owner, name


class StepTimer(MetaPathFinder):
    """Has the steps of wrapperir timed from when their modules are imported.

    Importing them here would change what is imported when.
    """

    def __init__(self, clock: Clock) -> None:
        """Time the steps of modules that are imported already."""
        self._clock = clock
        self._steps: dict[str, list[tuple[str, str]]] = {}
        for phase, place in STEPS.items():
            module = place.partition(":")[0]
            self._steps.setdefault(module, []).append((phase, place))
        for module in self._steps.keys() & sys.modules.keys():
            self._replace(module)

    def _replace(self, module: str) -> None:
        for phase, place in self._steps[module]:
            owner, name = find_owner(place)
            setattr(owner, name, self._clock.timed(phase, getattr(owner, name)))

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return how a module with steps is imported; ``None`` for others."""
        spec = None
        if fullname in self._steps:
            spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_replace(module: ModuleType) -> None:
            execute(module)
            self._replace(fullname)

        vars(spec.loader)["exec_module"] = execute_and_replace
        return spec


def _started(workload: str, contender: str) -> Mapping[str, Any]:
    """Return the phases of this process."""
    (chosen,) = (each for each in CONTENDERS if each.name == contender)
    (run,) = (each for each in WORKLOADS if each.name == workload)
    torch._dynamo.config.recompile_limit = 64
    torch.manual_seed(0)
    prepared = run.prepare()
    torch.cuda.synchronize()
    clock = Clock()
    sys.meta_path.insert(0, StepTimer(clock))
    step = clock.timed("torch.compile", step_of)(run, chosen, prepared)
    for number in range(3):
        call = clock.timed(f"call {number + 1}", step)
        for each in prepared.inputs:
            call(each)
        clock.timed("wait for the GPU", torch.cuda.synchronize)()
    total = time.perf_counter() - clock.begun
    from torch._dynamo.utils import compilation_time_metrics, counters

    theirs = {
        name: Phase(seconds=sum(spent), count=len(spent))
        for name, metric in _OF_PYTORCH.items()
        if (spent := compilation_time_metrics.get(metric))
    }
    phases = {name: asdict(phase) for name, phase in (clock.phases | theirs).items()}
    counted = {name: dict(counters[name]) for name in _COUNTED}
    return {"total": total, "phases": phases, "counters": counted}


def _child(workload: str, contender: str) -> None:
    output = take_output()
    found: Mapping[str, Any]
    try:
        found = _started(workload, contender)
    except Exception as error:
        traceback.print_exc()
        found = {"skipped": reason_of(error)}
    print(json.dumps(found), file=output, flush=True)


def _show(title: str, found: Mapping[str, Any]) -> None:
    if "skipped" in found:
        print(f"\n{title}: {found['skipped']}", flush=True)
        return
    print(f"\n{title}: {found['total']:.2f} s")
    for name, each in found["phases"].items():
        phase = Phase(**each)
        row = f"  {name:26} {phase.seconds:7.2f} s  x{phase.count}"
        if phase.first is not None:
            row += f"  processor {phase.processor:.2f}"
            row += f"  from {phase.first:.2f} to {phase.last:.2f}"
        print(row)
    for name, counted in found["counters"].items():
        shown = ", ".join(f"{key} {value}" for key, value in counted.items())
        print(f"  {name}: {shown}", flush=True)


def main() -> None:
    """Print the phases of all contenders."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workload", action="append")
    parser.add_argument("--contender", action="append")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        return _child(*options.child)
    from bench.machine import describe_machine  # it imports wrapperir

    print(describe_machine(), torch.cuda.get_device_name(0), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        environment = with_bytecode(Path(folder) / "bytecode")
        for workload in options.workload or _WORKLOADS:
            for contender in options.contender or _CONTENDERS:
                caches = f"{folder}/{workload}-{contender}"
                for kind in ("cold", "warm"):
                    found = start(workload, contender, caches, environment)
                    _show(f"{workload}, {contender}, {kind}", found)


def start(
    workload: str, contender: str, caches: str, environment: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return the phases of a new process with its caches in a directory, or ``skipped``."""
    places = {
        "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
        "TRITON_CACHE_DIR": f"{caches}/triton",
        "XDG_CACHE_HOME": f"{caches}/cache",
    }
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu.start_phases", "--child", workload, contender],
        env={**environment, **places},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    rows = done.stdout.splitlines() or ['{"skipped": "the process ended"}']
    found: Mapping[str, Any] = json.loads(rows[-1])
    return found


if __name__ == "__main__":
    main()
