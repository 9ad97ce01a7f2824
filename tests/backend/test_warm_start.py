"""Graphs that an earlier process compiled load without the modules that compile others."""

import json
import operator
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
from torch import _decomp
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._inductor import config
from torch._inductor.codegen import common
from torch._inductor.custom_graph_pass import CustomGraphModulePass, CustomGraphPass
from torch._inductor.utils import run_and_get_code

from tests.backend.program_calls import Calls, compiled_anew
from tests.forked_processes import ProcessServer
from wrapperir.frontend.kept_programs import SETTING
from wrapperir.frontend.lowering.graph_key import dynamo_graph_key

pytestmark = pytest.mark.usefixtures("calls")

SCRIPT = textwrap.dedent(
    """
    import json, sys
    from unittest import mock
    import torch
    from torch._dynamo.utils import counters

    torch._inductor.config.cpp.vec_isa_ok = True  # else it tries each set of vectors
    options = json.loads(sys.argv[1])

    def product(x, scale):
        return x @ x * scale

    def compiled(**settings):
        # Where there is a GPU, a reset imports what records graphs, and what compiles.
        with mock.patch("torch.cuda.is_available", return_value=False):
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
    heavy = (
        *("torch._inductor.compile_fx", "torch._inductor.graph"),
        *("torch._inductor.codegen.cpp", "torch._inductor.decomposition"),
        *("wrapperir.frontend.lowering.lower", "wrapperir.frontend.lowering.partition"),
        *("wrapperir.passes", "wrapperir.verify"),
    )
    print([name for name in heavy if name in sys.modules])
    """
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"emitter": emitter, "frontend": frontend}
        for emitter in ("python", "cpp")
        for frontend in ("inductor", "lowering")
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_a_second_process_imports_no_compiler(
    options: dict[str, str], tmp_path: Path, process_server: ProcessServer
) -> None:
    places = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), SETTING: ""}
    environment = {**os.environ, **places, "XDG_CACHE_HOME": str(tmp_path)}
    arguments = "-c", SCRIPT, json.dumps(options)
    first = process_server.run(*arguments, env=environment)
    assert first.returncode == 0, first.stderr
    second = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert second.returncode == 0, second.stderr
    assert first.stdout.split("\n")[0] == "0"
    *found, imported = second.stdout.splitlines()
    assert found == ["3", "3"]
    assert imported == "[]"


def products(x: torch.Tensor) -> torch.Tensor:
    """Return a result that takes no kernel."""
    return x @ x @ x


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
    "a pass before the graph is traced": lambda: config.patch(
        pre_grad_custom_pass=UsersPass("early")
    ),
    "a pass of a back end": lambda: passes_of_cpu(BackEndsPass()),
}


def replacing_products(replacement: Callable[..., object]) -> Callable[..., None]:
    """Return a pass over a graph that Dynamo traced; all have one name."""

    def replace_products(graph: torch.fx.Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=operator.matmul):
            node.target = replacement

    replace_products.__qualname__ = "replace_products"
    return replace_products


BOTH = pytest.mark.parametrize("calls", ["inductor", "lowering"], indirect=True)


def hits() -> int:
    """Return how many graphs were loaded without being traced, in the last compilation."""
    return int(counters["aot_autograd"]["autograd_cache_hit"])


@BOTH
@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_changes_a_program_is_another_graph(name: str) -> None:
    x = torch.rand(4, 4)
    found, results = [], []
    with torch.no_grad():
        for enter in (nullcontext, DIFFERENCES[name]) * 2:
            with enter():
                results.append(compiled_anew(products)(x))
                found.append(hits())
                torch.testing.assert_close(results[-1], products(x))
    assert found == [0, 0, 1, 1]
    assert torch.equal(results[0], results[2])
    assert torch.equal(results[1], results[3])


@pytest.mark.parametrize("calls", ["inductor"], indirect=True)
@pytest.mark.usefixtures("calls")
def test_a_pass_is_not_known_by_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(4, 4)
    for expected, replacement in ((x * x * x, operator.mul), (3 * x, operator.add)) * 2:
        found = replacing_products(replacement)
        monkeypatch.setitem(globals(), "replace_products", found)
        with config.patch(pre_grad_custom_pass=found):
            torch.testing.assert_close(compiled_anew(products)(x), expected)


def scaled(x: torch.Tensor) -> torch.Tensor:
    """Return a result with a constant that the graph holds."""
    return x @ torch.tensor([[1.0, 2.0], [3.0, SCALE]])


SCALE = 4.0


@BOTH
@pytest.mark.usefixtures("calls")
def test_a_constant_that_changed_is_another_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(2, 2)
    for scale, hit in ((4.0, 0), (5.0, 0), (4.0, 1), (5.0, 1)):
        monkeypatch.setitem(globals(), "SCALE", scale)
        torch.testing.assert_close(compiled_anew(scaled)(x), scaled(x))
        assert hits() == hit


def test_elements_of_a_held_tensor_are_in_the_key() -> None:
    held = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
    keys: list[str | None] = []
    for elements in ([1.0], [2.0], [1.0], [0.0] * (1 << 19)):
        held.constant = torch.tensor(elements)
        keys.append(dynamo_graph_key(held, []))
    first, second, again, large = keys
    assert first == again != second
    assert large is None


@BOTH
@pytest.mark.usefixtures("calls")
def test_a_loaded_graph_writes_to_its_inputs_and_returns_their_memory() -> None:
    def changed(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.mul_(2)
        return y.t(), x @ y

    for hit in (0, 1):
        x, y = torch.ones(3, 3), torch.rand(3, 3)
        view, product = compiled_anew(changed)(x, y)
        assert hits() == hit
        assert torch.equal(x, torch.full((3, 3), 2.0))
        assert view.data_ptr() == y.data_ptr()
        torch.testing.assert_close(product, x @ y)


@BOTH
def test_debugging_tools_see_a_loaded_graph(calls: Calls) -> None:
    x = torch.rand(4, 4)
    shown = [run_and_get_code(compiled_anew(products), x)[1] for _ in range(2)]
    assert shown[0] == shown[1] != []
    assert calls.built == 1


@pytest.mark.parametrize("calls", ["lowering"], indirect=True)
def test_a_decomposition_of_the_users_keeps_no_graph(calls: Calls) -> None:
    with torch.library._scoped_library("wrapperir_warm", "FRAGMENT") as library:
        library.define("doubled(Tensor x) -> Tensor")
        library.impl("doubled", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("doubled", torch.empty_like, "Meta")
        operator = torch.ops.wrapperir_warm.doubled
        decomposed = {operator.default: lambda x: x + x}
        with mock.patch.dict(_decomp.decomposition_table, decomposed):
            for _ in range(2):
                x = torch.rand(4, 4)
                torch.testing.assert_close(compiled_anew(operator)(x), x * 2)
                assert hits() == 0
    assert calls.built == 2
