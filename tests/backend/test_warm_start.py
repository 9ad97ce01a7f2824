"""Graphs that an earlier process compiled load without the modules that compile others."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch._functorch import config as functorch_config
from torch._inductor import config
from torch._inductor.codegen import common
from torch._inductor.custom_graph_pass import CustomGraphModulePass, CustomGraphPass

from tests.backend.program_calls import compiled_anew
from tests.forked_processes import ProcessServer
from wrapperir.frontend.inductor import compilation
from wrapperir.frontend.kept_programs import SETTING

pytestmark = pytest.mark.usefixtures("calls")

SCRIPT = textwrap.dedent(
    """
    import json, sys
    import torch
    from torch._dynamo.utils import counters

    torch._inductor.config.cpp.vec_isa_ok = True  # else it tries each set of vectors
    options = json.loads(sys.argv[1])

    def product(x, scale):
        return x @ x * scale

    def compiled(**settings):
        torch._dynamo.reset()
        return torch.compile(product, backend="wrapperir", options=options, **settings)

    x = torch.rand(3, 3)
    assert torch.equal(compiled()(x, 2), product(x, 2))

    leaf = torch.rand(3, 3, requires_grad=True)
    expected, = torch.autograd.grad(product(leaf, 2).sum(), leaf)
    gradient, = torch.autograd.grad(compiled()(leaf, 2).sum(), leaf)
    torch.testing.assert_close(gradient, expected)

    several = compiled(dynamic=True)
    for rows in (3, 5):
        x = torch.rand(rows, rows)
        torch.testing.assert_close(several(x, 2), product(x, 2))
    print(counters["aot_autograd"]["autograd_cache_hit"])
    print(counters["stats"]["unique_graphs"])
    heavy = "compile_fx", "graph", "lowering", "codegen.cpp", "decomposition"
    print([name for name in heavy if f"torch._inductor.{name}" in sys.modules])
    """
)


@pytest.mark.parametrize("options", ["{}", '{"emitter": "cpp"}'])
def test_a_second_process_imports_no_compiler(
    options: str, tmp_path: Path, process_server: ProcessServer
) -> None:
    places = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), SETTING: ""}
    environment = {**os.environ, **places}
    first = process_server.run("-c", SCRIPT, options, env=environment)
    assert first.returncode == 0, first.stderr
    second = subprocess.run(
        [sys.executable, "-c", SCRIPT, options],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert second.returncode == 0, second.stderr
    assert first.stdout.split("\n")[0] == "0"
    hits, graphs, heavy = second.stdout.splitlines()
    assert (hits, graphs, heavy) == ("3", "3", "[]")


def products(x: torch.Tensor) -> torch.Tensor:
    """Return a result that takes no kernel."""
    return x @ x @ x


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each graph that is not loaded before the compiler is imported."""
    noted: list[str] = []
    compile_anew = compilation.compile_anew

    def noting(*arguments: Any, **named: Any) -> Any:
        noted.append("anew")
        return compile_anew(*arguments, **named)

    monkeypatch.setattr(compilation, "compile_anew", noting)
    return noted


class UsersPass(CustomGraphPass):
    """A pass that does nothing, and says so by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, graph: torch.fx.Graph) -> None:
        """Change nothing."""

    def uuid(self) -> str:
        """Return the name, which stands for what the pass does."""
        return self.name


class BackEndsPass(CustomGraphModulePass):
    """A pass of a back end that does nothing."""

    def __call__(self, module: torch.fx.GraphModule) -> None:
        """Change nothing."""

    def uuid(self) -> str:
        """Return what stands for the pass."""
        return "of a back end"


@contextmanager
def set_to(
    read: Callable[[], Any], write: Callable[[Any], object], value: Any
) -> Iterator[None]:
    """Change a setting of PyTorch's within the context."""
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


def passes_of_cpu(found: object) -> AbstractContextManager[object]:
    return mock.patch.dict(common.custom_backend_passes, {"cpu": found})


REDUCED = "allow_bf16_reduced_precision_reduction"

DIFFERENCES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "a setting of Inductor": lambda: config.patch(epilogue_fusion=False),
    "a setting of AOTAutograd": lambda: functorch_config.patch(
        treat_parameters_as_free_to_save=False
    ),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast to another dtype": lambda: torch.autocast("cpu", torch.float16),
    "gradients": torch.enable_grad,
    "deterministic algorithms": lambda: set_to(
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
        True,
    ),
    "sums of products in halves": lambda: set_to(
        lambda: torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        partial(setattr, torch.backends.cuda.matmul, REDUCED),
        False,
    ),
    "the default dtype": lambda: set_to(
        torch.get_default_dtype, torch.set_default_dtype, torch.float64
    ),
    "the number of threads": lambda: set_to(
        torch.get_num_threads, torch.set_num_threads, torch.get_num_threads() + 1
    ),
    "a pass of the user's": lambda: config.patch(
        post_grad_custom_pre_pass=UsersPass("one")
    ),
    "another pass": lambda: config.patch(post_grad_custom_pre_pass=UsersPass("two")),
    "a pass of a back end": lambda: passes_of_cpu(BackEndsPass()),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_changes_a_program_is_another_graph(name: str, compiled: list[str]) -> None:
    x = torch.rand(4, 4)
    results = []
    with torch.no_grad():
        for enter in (nullcontext, DIFFERENCES[name]) * 2:
            with enter():
                results.append(compiled_anew(products)(x))
                torch.testing.assert_close(results[-1], products(x))
    assert len(compiled) == 2
    assert torch.equal(results[0], results[2])
    assert torch.equal(results[1], results[3])
