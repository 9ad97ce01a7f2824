"""Inductor's size-hint multi-kernels on a machine without a GPU: nothing is timed."""

import contextlib
import itertools
from collections.abc import Callable, Generator
from typing import Any
from unittest import mock

from torch._inductor import config
from torch._inductor.scheduler import Scheduler
from torch._inductor.select_algorithm import AlgorithmSelectorCache, TritonTemplateCaller


def _timings(
    _: Any, *arguments: Any, hint_override: int | None = None, **keywords: Any
) -> dict[Any, float]:
    """Have one template be the fastest for sizes below 100, another for those above."""
    (choices,) = (a for a in arguments if isinstance(a, list) and _are_templates(a))
    best = choices[0 if hint_override is None or hint_override < 100 else -1]
    return {choice: 1.0 if choice is best else 2.0 for choice in choices}


def _are_templates(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(v, TritonTemplateCaller) for v in values)


@contextlib.contextmanager
def size_hints(*hints: int) -> Generator[None]:
    """Have Inductor make a kernel of a matmul for each hint, with times made up."""
    settings: dict[str, Any] = {
        "max_autotune": True,
        "max_autotune_gemm_backends": "TRITON",
        "multi_kernel_hints": list(hints),
    }
    counter = itertools.count()

    def fused(*_: Any, **__: Any) -> tuple[float, str]:
        # With something fused in, another is the fastest for the second hint.
        return (next(counter) * 7 % 11 + 1) / 100, ""

    with contextlib.ExitStack() as stack:
        stack.enter_context(config.patch(settings))
        for owner, name, stand_in in (
            (AlgorithmSelectorCache, "do_autotuning", _timings),
            (AlgorithmSelectorCache, "make_precompile_fn", _no_precompilation),
            (Scheduler, "compile_kernel", _no_kernel),
            (Scheduler, "benchmark_codegened_module", fused),
            (Scheduler, "benchmark_fused_nodes", _apart),
        ):
            stack.enter_context(mock.patch.object(owner, name, stand_in))
        yield


def _no_precompilation(*_: Any, **__: Any) -> Callable[[], None]:
    return lambda: None


def _no_kernel(*_: Any, **__: Any) -> tuple[None, None]:
    return None, None


def _apart(*_: Any) -> tuple[float, str]:
    return 1.0, ""
