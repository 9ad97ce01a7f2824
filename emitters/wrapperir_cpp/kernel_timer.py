# Neither Triton nor torch's CUDA bindings carry types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Times Triton kernels on this machine's GPU."""

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch

from wrapperir.emit.torch_dtypes import TORCH_DTYPES
from wrapperir.ir.kernel import KernelConfig, runtime_parameters
from wrapperir.ir.line import KernelDefinitionLine
from wrapperir.ir.program import Program
from wrapperir_cpp.triton_kernels import format_kernel_source
from wrapperir_cpp.tuning import Buffer, Case, Tuning, needs_tuning, parse_tuning, tune

_WARMUP_MS, _TIMED_MS = 2, 10


def timing_facts() -> dict[str, str]:
    """Return what times depend on, beside the kernels."""
    import triton

    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
    }


def tune_here(program: Program, record: str | bytes | None) -> Tuning | None:
    """Return the times of kernels on this machine's GPU, if they have a choice of configs.

    Times that a ``record`` has from such a GPU are kept.
    """
    if not needs_tuning(program) or not torch.cuda.is_available():
        return None
    known = None if record is None else parse_tuning(record)
    return tune(program, KernelTimer(), timing_facts(), known)


class KernelTimer:
    """A timer of launches; a kernel's source is executed, and the kernel run."""

    def __init__(self) -> None:
        """Start with no kernels."""
        self._functions: dict[str, Any] = {}
        self._arguments: tuple[Case, dict[str, Any]] | None = None

    def __call__(self, case: Case, config: KernelConfig) -> float | None:
        """Return the microseconds of a launch; ``None`` where it fails."""
        from triton.testing import do_bench

        try:
            launch = self.launch(case, config)
            median = do_bench(
                launch, warmup=_WARMUP_MS, rep=_TIMED_MS, return_mode="median"
            )
        except Exception:  # it is the program's own code that runs: the next config may
            return None
        return float(cast(float, median)) * 1000

    def launch(self, case: Case, config: KernelConfig) -> Callable[[], object]:
        """Return what launches a kernel once; its memory is kept until the next case."""
        function = self._function(case.kernel)
        arguments = self._made_arguments(case)
        grid = case.grid(config)
        values = dict(case.kernel.constants) | dict(config.values)
        return lambda: function[grid](**arguments, **values)

    def _made_arguments(self, case: Case) -> dict[str, Any]:
        # All configs of a case are timed on the same memory.
        if self._arguments is None or self._arguments[0] is not case:
            names = [
                parameter.name for parameter in runtime_parameters(case.kernel.parameters)
            ]
            made = {
                name: _tensor(value) if isinstance(value, Buffer) else value
                for name, value in zip(names, case.arguments, strict=True)
            }
            self._arguments = case, made
        return self._arguments[1]

    def _function(self, kernel: KernelDefinitionLine) -> Any:
        known = self._functions.get(kernel.name)
        if known is None:
            known = self._functions[kernel.name] = _load(kernel)
        return known


def _tensor(buffer: Buffer) -> torch.Tensor:
    """Return numbers that overflow nowhere; whole ones are 0, as they may be indices."""
    dtype: torch.dtype = getattr(torch, TORCH_DTYPES[buffer.dtype])
    made = torch.zeros(buffer.elements, dtype=dtype, device="cuda")
    if dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        made.uniform_(-1, 1)
    return made


def _load(kernel: KernelDefinitionLine) -> Any:
    # Triton reads a function's source from its file.
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "kernel.py"
        path.write_text(format_kernel_source(kernel), encoding="utf-8")
        spec = importlib.util.spec_from_file_location("kernel", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, kernel.entry)
