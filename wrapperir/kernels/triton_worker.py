# Triton carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Compiles Triton kernels, which executes their sources, mostly in processes of its own.

The process reads a command a line.  ``run PATH`` forks a process that reads ``jobs.json``
in that directory, and writes the compiled kernels beside it and ``results.json``; the
answer is the line ``STATUS PATH`` once that process has ended, maybe after later commands.
A job that fails has an ``error``.  ``end PATH`` kills the process of a directory.
``import NAME ...`` imports modules that sources import, and has Triton digest its own
files, once for all later processes.

The text of this module is copied beside emitted Python.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import re
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

_LONGEST_ERROR = 1000
# Triton's numbers of element types in descriptors that differ from the driver's.
_HOST_TYPES = {8: 10, 9: 8, 10: 9}


def compile_jobs(directory: Path) -> None:
    """Do the jobs of a directory."""
    jobs: list[dict[str, Any]] = json.loads((directory / "jobs.json").read_text())
    load = _Sources(directory)
    results: list[dict[str, Any]] = []
    for job in jobs:
        result, code = attempt(job, load)
        if "error" not in result:
            (directory / job["file"]).write_bytes(code)
        results.append(result)
    (directory / "results.json").write_text(json.dumps(results))


class _Sources:
    """Executes each source once, and returns the function that a job asks for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._modules: dict[str, Any] = {}

    def __call__(self, path: str, entry: str) -> Any:
        from triton.runtime.jit import JITFunction

        module = self._modules.get(path)
        if module is None:
            spec = importlib.util.spec_from_file_location(
                f"kernel_{len(self._modules)}", self._directory / path
            )
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self._modules[path] = module
        function = getattr(module, entry, None)
        if not isinstance(function, JITFunction):
            raise TypeError(f"its source defines no kernel {entry} of triton.jit's")
        return function


def attempt(
    job: Mapping[str, Any], load: Callable[[str, str], Any]
) -> tuple[dict[str, Any], bytes]:
    """Return how a kernel is launched, and its code; or an ``error`` and no code.

    ``load`` returns the function of a source's path and an entry.
    """
    try:
        return _compile(job, load(job["source"], job["entry"]))
    except Exception as error:  # it is the program's own code that runs
        text = f"{type(error).__name__}: {error}"
        return {"error": text.strip()[-_LONGEST_ERROR:]}, b""


def _compile(job: Mapping[str, Any], function: Any) -> tuple[dict[str, Any], bytes]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names: list[str] = list(function.arg_names)
    given: dict[str, str] = dict(job["signature"])
    values: dict[str, Any] = dict(job["values"])
    constants = {name: values.pop(name) for name in names if name in values}
    for name in names:
        if name not in given and name not in constants:
            default = function.signature.parameters[name].default
            if default is function.signature.empty:
                raise TypeError(f"it is given no {name}")
            constants[name] = default
    passed = [name for name in names if name not in constants]
    if passed != list(given) or any(name in function.constexprs for name in given):
        raise TypeError(f"its parameters are {names}, and it is given {list(given)}")
    signature = {name: given.get(name, "constexpr") for name in names}
    divisible = {
        (names.index(passed[position]),): [["tt.divisibility", 16]]
        for position in sorted(job["aligned"])  # their order is in Triton's key
    }
    target = GPUTarget(job["backend"], job["architecture"], job["lanes"])
    compiled = triton.compile(
        ASTSource(function, signature, constants, divisible),
        target=target,
        options=_options(values),
    )
    metadata = compiled.metadata
    maps = getattr(metadata, "tensordesc_meta", None) or []
    flags = 0
    if job["suffix"] == "cubin":
        flags = _flags(compiled.asm["ptx"], metadata.name, list(given.values()), bool(maps))
    cluster = getattr(metadata, "cluster_dims", None) or (metadata.num_ctas,)
    result = {
        "triton": triton.__version__,
        "function": metadata.name,
        "threads": metadata.num_warps * job["lanes"],
        "shared_bytes": metadata.shared,
        "cluster": cluster[0],
        "scratch_bytes": getattr(metadata, "global_scratch_size", 0),
        "is_cooperative": bool(getattr(metadata, "launch_cooperative_grid", False)),
        "is_dependent": bool(getattr(metadata, "launch_pdl", False)),
        "maps": [
            {
                "swizzle": entry["swizzle"],
                "item_bytes": entry["elem_size"],
                "type": _HOST_TYPES.get(entry["elem_type"], entry["elem_type"]),
                "block": list(entry["block_size"]),
            }
            for entry in maps
        ],
        "flags": flags,
    }
    return result, compiled.asm[job["suffix"]]


def _flags(ptx: str, name: str, signature: list[str], are_encoded: bool) -> int:
    """Return how many flags follow the parts of a descriptor, from what the code takes.

    A kernel takes its arguments and up to two addresses of scratch memory.
    """
    head = ptx[ptx.index(f".entry {name}(") :]
    count = len(re.findall(r"\.param\b", head[: head.index(")")]))
    ranks = [s.count(",") + 1 for s in signature if s.startswith("tensordesc")]
    own = len(signature) - len(ranks)
    parts = sum(1 + (2 if are_encoded else 4) * rank for rank in ranks)
    flags, scratch = 0, count - own - parts
    if ranks and not are_encoded:
        flags = max(scratch - 2, 0) // len(ranks)
        scratch -= flags * len(ranks)
    if not 0 <= scratch <= 2:
        raise TypeError(f"its code takes {count} arguments, not {own + parts}")
    return flags


def _options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return launch options; one that no backend of Triton's knows is an error."""
    from triton.backends.amd.compiler import HIPOptions
    from triton.backends.nvidia.compiler import CUDAOptions

    known = {*CUDAOptions.__dataclass_fields__, *HIPOptions.__dataclass_fields__}
    unknown = sorted(set(values) - known)
    if unknown:
        raise TypeError(f"it has no parameter and Triton no option {', '.join(unknown)}")
    return dict(values)


class _Processes:
    """The processes that are doing jobs, by the directories of these."""

    def __init__(self, answers: int) -> None:
        """Write the answers to a file descriptor."""
        self._answers = answers
        self._directories: dict[int, str] = {}

    def start(self, directory: str) -> None:
        """Do the jobs of a directory in a new process."""
        process = os.fork()
        if not process:
            _do_jobs(directory)
        self._directories[process] = directory

    def end(self, directory: str) -> None:
        """Kill the process of a directory, if there is one."""
        for process, its_directory in list(self._directories.items()):
            if its_directory == directory:
                os.kill(process, signal.SIGKILL)

    def reap(self, options: int = os.WNOHANG) -> None:
        """Answer for each process that has ended."""
        with contextlib.suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, options)
                if not process:
                    return
                directory = self._directories.pop(process, None)
                if directory is not None:
                    code = os.waitstatus_to_exitcode(status)
                    os.write(self._answers, f"{code} {directory}\n".encode())


def _do_jobs(directory: str) -> None:
    """Do the jobs of a directory, and end this process; its output is in ``output``."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        path = Path(directory, "output")
        output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        compile_jobs(Path(directory))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def import_modules(names: Iterable[str]) -> None:
    """Import modules, and have Triton digest its own files if it is one of them."""
    for name in names:
        with contextlib.suppress(Exception):  # the source that needs it says more
            importlib.import_module(name)
    for name in ("triton.runtime.cache", "triton.compiler.compiler"):  # by its version
        digest = getattr(sys.modules.get(name), "triton_key", None)
        if digest is not None:
            digest()  # this takes longer than to compile a kernel, and is remembered


def main() -> None:
    """Follow the commands of standard input."""
    # Interpreted kernels cannot be compiled.
    os.environ.pop("TRITON_INTERPRET", None)
    # Output of a module must not mix with answers.
    processes = _Processes(os.dup(1))
    os.dup2(2, 1)

    for line in _lines(processes.reap):
        command, _, words = line.partition(" ")
        if command == "run":
            processes.start(words)
        elif command == "end":
            processes.end(words)
        elif command == "import":
            import_modules(words.split())
    processes.reap(0)


def _do_nothing(*_: object) -> None:
    """Handle a signal: one that has a handler is written to the pipe of signals."""


def _lines(reap: Callable[[], None]) -> Iterator[str]:
    """Yield the lines of standard input, and call ``reap`` where a process has ended.

    A signal that comes just before a wait for input does not end that wait, and its
    handler would run after the next input only.  So signals are input, too.
    """
    signals, wake = os.pipe()
    for end in (signals, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, _do_nothing)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    begun = b""
    while True:
        ready, _, _ = select.select([0, signals], [], [])
        if signals in ready:
            os.read(signals, 4096)
            reap()
        if 0 in ready:
            read = os.read(0, 1 << 16)
            if not read:
                break
            *lines, begun = (begun + read).split(b"\n")
            for line in lines:
                yield os.fsdecode(line)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


if __name__ == "__main__":
    main()
