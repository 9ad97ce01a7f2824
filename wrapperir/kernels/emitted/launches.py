# Triton carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Triton kernels of an emitted program, launched through the CUDA driver.

A kernel is compiled once for all its calls, when the program is loaded or earlier, and
kept in the user's cache; launches.cpp launches it.  Triton launches kernels of tensors of
a subclass or outside CUDA, kernels with large clusters, and every kernel while hooks of its
launches are set or where launches.cpp cannot be compiled.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import torch
import triton
from triton import knobs
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.runtime import _allocation
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

GridLauncher: TypeAlias = Callable[..., object]
"""Takes the launch grid's three extents, then the arguments as the source orders them."""

_HERE = Path(__file__).parent
_KIND = "triton"  # of the user's cache
_MOST_PORTABLE = 8  # programs of a cluster that every GPU with clusters runs
_ALIGNED, _DIVISIBLE = 1, 2  # bits of a variant: checked addresses and numbers
_MOST_IN_THIS_PROCESS = 2  # starting another takes longer than to compile these
_WORKER = _HERE / "triton_worker.py"


_native_module: Any = ModuleType("native_module")
SourceFileLoader("native_module", str(_HERE / "native_module.py")).exec_module(
    _native_module
)
_caching, _worker = (
    _native_module.import_beside(Path(__file__), name)
    for name in ("private_cache", "triton_worker")
)


class DispatchedKernel:
    """A kernel that Triton launches: it looks at each argument, and compiles for them."""

    def __init__(self, path: str) -> None:
        """Load the kernel that a file of facts describes."""
        self.facts = json.loads((_HERE / path).read_text("utf-8"))
        self.source = _HERE / self.facts["source"]
        module = _native_module.import_file(self.source)
        self.function = getattr(module, self.facts["entry"])
        self.names = tuple(name for name, _ in self.facts["signature"])

    def __call__(self, x: int, y: int, z: int, *arguments: object) -> None:
        """Launch the kernel."""
        given = dict(zip(self.names, arguments, strict=True))
        for name, block in self.facts["blocks"].items():
            given[name] = TensorDescriptor.from_tensor(given[name], block)
        if isinstance(_allocation._allocator.get(), _allocation.NullAllocator):  # pyright: ignore[reportPrivateUsage]
            # Kernels that make tensor descriptors need memory; the user's allocator stays.
            triton.set_allocator(_allocate)
        self.function[x, y, z](**given, **self.facts["values"])


def _allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


class _Compiled(NamedTuple):
    """How a kernel is launched, and its code; or an ``error`` and no code."""

    result: dict[str, Any]
    code: bytes


class _Job(NamedTuple):
    """One variant of a kernel for a target, under a key of all that it is compiled from."""

    key: str
    task: dict[str, Any]
    kernel: DispatchedKernel


def _job(kernel: DispatchedKernel, capability: int, variant: int) -> _Job:
    facts = kernel.facts
    aligned = list(facts["aligned"])
    aligned += facts["checked"] if variant & _ALIGNED else ()
    aligned += facts["numbers"] if variant & _DIVISIBLE else ()
    kept = {key: facts[key] for key in ("entry", "signature", "values")}
    target = {"backend": "cuda", "architecture": capability, "lanes": 32, "suffix": "cubin"}
    task = {**kept, "aligned": sorted(aligned), **target}
    compiler = triton.__version__, sorted(get_cache_invalidating_env_vars().items())
    text = json.dumps([task, kernel.source.read_text("utf-8"), compiler], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()
    return _Job(key, {**task, "source": str(kernel.source)}, kernel)


def _variants(facts: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the variants that are compiled before the first launch.

    That for addresses that are not multiples of 16 is rarely launched.
    """
    if facts["is_lazy"]:
        return ()
    return (_ALIGNED,) if facts["checked"] else (0,)


def _open_cache() -> Any:
    try:
        cache = _caching.user_cache(_KIND)
        if cache is not None:
            cache.folder()
    except OSError:  # it is not this user's alone
        return None
    return cache


_cache = _open_cache()
_done: dict[str, _Compiled] = {}  # compiled by this program, or failed to
_kernels: list[DispatchedKernel] = []
_native: Any = None
if torch.cuda.is_available() and torch.version.hip is None:
    _native = _native_module.build(
        *(_HERE / "launches.cpp", "arguments.h", "driver_functions.h"),
        *("descriptors.h", "descriptor_parts.h", "special_launches.h"),
    )


def kernel(path: str) -> GridLauncher:
    """Return the kernel that a file of facts describes; :func:`build` compiles it."""
    made = DispatchedKernel(path)
    debugs = knobs.runtime.debug or getattr(made.function, "debug", False)
    # Others, as a source may define, decide at each launch.
    if _native is None or debugs or type(made.function) is not JITFunction:
        return made
    _kernels.append(made)

    def load(device: int, variant: int) -> tuple[object, ...] | None:
        """Return the code of a variant for a device; ``None`` if Triton launches it."""
        job = _job(made, _capability(device), variant)
        found = _find(job)
        if found is None:
            _compile_here(job)
            found = _done[job.key]
        result = found.result
        if "error" in result:
            raise RuntimeError(_explain(job, result["error"]))
        if result["cluster"] > _MOST_PORTABLE:
            return None
        shown = result["function"], result["threads"], result["shared_bytes"]
        keys = "swizzle", "item_bytes", "type"
        maps = tuple(
            (*(entry[key] for key in keys), *entry["block"]) for entry in result["maps"]
        )
        kind = result["cluster"], result["is_cooperative"], result["is_dependent"]
        scratch = result["scratch_bytes"]
        return job.key, found.code, *shown, maps, result["flags"], *kind, scratch

    masks = [
        sum(1 << position for position in made.facts.get(name, ()))
        for name in ("checked", "numbers")
    ]
    types = tuple(type for _, type in made.facts["signature"])
    name = made.facts["name"]
    direct: GridLauncher = _native.Kernel(
        *(name, made.function, made, load, made.names, types, *masks)
    )
    return direct


def build() -> None:
    """Compile what the cache lacks of all kernels, for the current device.

    Raises:
        RuntimeError: a kernel does not compile, and no other can be picked instead.
    """
    if not _kernels:
        return
    capability = _capability(torch.cuda.current_device())
    jobs = [
        _job(kernel, capability, variant)
        for kernel in _kernels
        for variant in _variants(kernel.facts)
    ]
    missing = list({job.key: job for job in jobs if _find(job) is None}.values())
    # A process of wrapperir's that runs has Triton's compiler imported; this one may not.
    own = _own_compiler()
    runs = own is not None and getattr(own.WORKERS, "is_running", False)
    if len(missing) > (0 if runs else _MOST_IN_THIS_PROCESS):
        count = min(os.cpu_count() or 1, len(missing))
        ends = [len(missing) * part // count for part in range(count + 1)]
        parts = [missing[begin:end] for begin, end in pairwise(ends)]
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(_compile_apart, parts))
    for job in missing:
        # This process has executed the source, which may import what another cannot find.
        if job.key not in _done or "error" in _done[job.key].result:
            _compile_here(job)
        error = _done[job.key].result.get("error")
        if error is not None and not job.kernel.facts["is_choice"]:
            raise RuntimeError(_explain(job, error))


def _capability(device: int) -> int:
    major, minor = torch.cuda.get_device_capability(device)
    return major * 10 + minor


def _explain(job: _Job, error: str) -> str:
    target = f"sm_{job.task['architecture']}"
    shown = " ".join(error.split())
    return f"{job.kernel.facts['name']} does not compile for {target}: {shown}"


def _find(job: _Job) -> _Compiled | None:
    """Return a compiled kernel, if there is one."""
    path = None
    if job.key not in _done and _cache is not None:
        path = _cache.found(f"{job.key}.{_KIND}")
    if path is not None:
        head, _, code = path.read_bytes().partition(b"\n")
        _done[job.key] = _Compiled(json.loads(head), code)
    return _done.get(job.key)


def _keep(job: _Job, result: dict[str, Any], code: bytes) -> None:
    _done[job.key] = _Compiled(result, code)

    def write(path: Path) -> None:
        path.write_bytes(json.dumps(result).encode() + b"\n" + code)

    if _cache is not None and "error" not in result:
        with suppress(OSError):  # of a disk that is full
            _cache.built(f"{job.key}.{_KIND}", write)


def _compile_here(job: _Job) -> None:
    """Compile in this process, which has executed the kernel's source."""

    def function(source: str, entry: str) -> Any:
        return job.kernel.function

    _keep(job, *_worker.attempt(job.task, function))


def _compile_apart(jobs: Sequence[_Job]) -> None:
    """Compile in a process of its own, beside others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tasks = [{**job.task, "file": str(index)} for index, job in enumerate(jobs)]
        (folder / "jobs.json").write_text(json.dumps(tasks), encoding="utf-8")
        _run_worker(folder, jobs)
        results = json.loads((folder / "results.json").read_text("utf-8"))
        for index, (job, result) in enumerate(zip(jobs, results, strict=True)):
            failed = "error" in result
            _keep(job, result, b"" if failed else (folder / str(index)).read_bytes())


def _own_compiler() -> Any:
    """Return the module of wrapperir's processes that compile; ``None`` without them."""
    found: Any = sys.modules.get("wrapperir.kernels.triton_compile")
    theirs = found and Path(found.__file__).with_name(_WORKER.name)
    return found if theirs and theirs.read_bytes() == _WORKER.read_bytes() else None


def _run_worker(folder: Path, jobs: Sequence[_Job]) -> None:
    """Do the jobs in a folder: in a process of wrapperir's where it is loaded."""
    names = ", ".join(job.kernel.facts["name"] for job in jobs)
    own = _own_compiler()
    if own:
        sources = (job.kernel.source.read_text("utf-8") for job in jobs)
        own.WORKERS.compile(folder, names, own.imported_modules(sources))
        return
    command = [sys.executable, "-P", str(_WORKER)]
    given = f"run {folder}\n"
    done = subprocess.run(  # noqa: S603
        command, input=given, capture_output=True, text=True, errors="replace"
    )
    if not (folder / "results.json").exists():
        output = folder / "output"
        said = output.read_text(errors="replace") if output.exists() else done.stderr
        raise RuntimeError(f"{names}: the compiler of kernels ended: {said[-1000:]}")
