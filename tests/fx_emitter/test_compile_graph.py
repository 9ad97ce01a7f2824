"""What is done with a function given as ``compile_graph``, and with what it returns."""

import copy
import functools
import gc
import importlib.util
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from wrapperir import compile_program
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit import GraphCompiler, Value
from wrapperir.ir import Program
from wrapperir.text import parse_program
from wrapperir_fx.emitter import FxEmitter

ROOT = Path(__file__).parents[2]
PROGRAM = parse_program("""\
wrapperir 1

program @main(%x: f32[s0, 4], %y: f32[4, 8]) {
  symbol s0: int 2..16 = size(%x, 0)
  %z = allocate f32[s0, 8]
  extern_kernel aten.mm.out(%x, %y, out = %z) writes(%z)
  free %x
  free %y
  return %z, s0
}
""")
Run = Callable[..., tuple[Value, ...]]


def run(compile_graph: GraphCompiler, program: Program = PROGRAM) -> tuple[object, ...]:
    call = compile_program(program, emitter=FxEmitter(compile_graph=compile_graph))
    return call([torch.ones(3, 4), torch.ones(4, 8)])


def found(compile_graph: object) -> Diagnostic:
    with pytest.raises(DiagnosticError) as caught:
        run(compile_graph)  # type: ignore[arg-type]
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code is Code.GRAPH_COMPILER_FAILED
    return diagnostic


def assert_result(outputs: tuple[object, ...]) -> None:
    z, s0 = outputs
    assert isinstance(z, torch.Tensor)
    assert torch.equal(z, torch.full((3, 8), 4.0))
    assert s0 == 3


def forward(module: GraphModule) -> Run:
    call: Run = module.forward
    return call


def lists(module: GraphModule) -> Callable[..., list[Value]]:
    return lambda *inputs: list(module(*inputs))


@pytest.mark.parametrize("compile_graph", [forward, lists, copy.deepcopy, lambda m: m])
def test_what_it_returns_runs_in_the_place_of_the_graph(
    compile_graph: GraphCompiler,
) -> None:
    assert_result(run(compile_graph))


def test_the_graph_is_given_with_its_values_and_lines() -> None:
    seen: list[GraphModule] = []

    def look(module: GraphModule) -> Run:
        seen.append(module)
        return forward(module)

    assert_result(run(look))
    (module,) = seen
    graph = module.graph
    graph.lint()
    (product,) = graph.find_nodes(op="call_function", target=torch.ops.aten.mm.out)
    assert product.meta["wrapperir"] == (PROGRAM.lines[1],)
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    assert names == ["x", "y"]
    assert [len(node.meta["val"].shape) for node in list(graph.nodes)[:2]] == [2, 2]


def test_what_it_changes_in_the_graph_is_what_runs() -> None:
    def negate(module: GraphModule) -> Run:
        (output,) = module.graph.find_nodes(op="output")
        z, s0 = output.args[0]
        with module.graph.inserting_before(output):
            output.args = ((module.graph.call_function(torch.neg, (z,)), s0),)
        module.recompile()
        return forward(module)

    z, _ = run(negate)
    assert isinstance(z, torch.Tensor)
    assert torch.equal(z, torch.full((3, 8), -4.0))


def test_another_compiler_may_take_the_graph() -> None:
    def again(module: GraphModule) -> Run:
        compiled: Run = torch.compile(module, backend="eager", fullgraph=True)
        return compiled

    assert_result(run(again))


def test_a_boxed_function_is_given_the_list() -> None:
    alive: list[bool] = []

    def boxing(module: GraphModule) -> Run:
        def call(inputs: list[Value]) -> tuple[Value, ...]:
            x, y = inputs
            inputs.clear()
            assert isinstance(x, torch.Tensor)
            seen, outputs = weakref.ref(x), module(x, y)
            del x
            alive.append(seen() is not None)
            return tuple(outputs)

        vars(call)["_boxed_call"] = True
        return call

    gc.disable()
    try:
        assert_result(run(boxing))
    finally:
        gc.enable()
    assert alive == [False]


@pytest.mark.parametrize("boxed", [False, True])
def test_a_call_empties_the_list_of_inputs(boxed: bool) -> None:
    def compile_graph(module: GraphModule) -> Run:
        def call(*given: Any) -> tuple[Value, ...]:
            outputs: tuple[Value, ...] = module(*given[0]) if boxed else module(*given)
            return outputs

        vars(call)["_boxed_call"] = boxed
        return call

    inputs: list[Value] = [torch.ones(3, 4), torch.ones(4, 8)]
    emitter = FxEmitter(compile_graph=compile_graph)
    assert_result(compile_program(PROGRAM, emitter=emitter)(inputs))
    assert inputs == []


@pytest.mark.parametrize("changed", [lambda module: module, copy.deepcopy])
def test_another_compiler_takes_the_graph_while_dynamo_compiles(
    changed: Callable[[GraphModule], GraphModule],
) -> None:
    seen: list[GraphModule] = []

    def backend(module: GraphModule, inputs: object) -> Run:
        seen.append(module)
        return forward(module)

    def again(module: GraphModule) -> Run:
        compiled: Run = torch.compile(changed(module), backend=backend, fullgraph=True)
        return compiled

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y).relu()

    torch._dynamo.reset()
    options: Any = {"emitter": "fx", "compile_graph": again}
    compiled: Any = torch.compile(product, backend="wrapperir", options=options)
    x, y = torch.ones(3, 4), torch.ones(4, 8)
    assert torch.equal(compiled(x, y), product(x, y))
    (module,) = seen
    targets = [node.target for node in module.graph.nodes]
    assert torch.ops.aten.mm.out in targets
    assert torch.ops.wrapperir.call_kernel.default in targets


def test_each_load_has_a_graph_of_its_own() -> None:
    seen: list[GraphModule] = []

    def keep(module: GraphModule) -> Run:
        seen.append(module)
        return forward(module)

    emitter = FxEmitter(compile_graph=keep)
    for _ in range(2):
        compile_program(PROGRAM, emitter=emitter)
    first, second = seen
    assert first.graph is not second.graph


def test_compiling_graphs_leaves_the_emitter_as_it_was() -> None:
    plain = FxEmitter()
    compiling = plain.compiling_graphs(forward)
    assert plain.compile_graph is None
    assert compiling.compile_graph is forward
    assert isinstance(compiling, FxEmitter)


def fails(module: GraphModule) -> Run:
    raise ValueError("no such instruction\nand more")


def test_an_error_in_it_names_it_and_the_place() -> None:
    diagnostic = found(fails)
    place = r"\S+test_compile_graph\.py:\d+, in fails"
    error = rf"test_compile_graph\.fails raised ValueError at {place}: "
    assert re.search(error + r"no such instruction\nand more$", diagnostic.message)
    (note,) = diagnostic.notes
    assert re.search(place + "$", note.message)


def test_an_error_in_pytorch_names_the_place_that_called_it() -> None:
    def erases(module: GraphModule) -> Run:
        module.graph.erase_node(next(iter(module.graph.nodes)))
        return forward(module)

    diagnostic = found(erases)
    assert re.search(r"test_compile_graph\.py:\d+, in erases: ", diagnostic.message)
    (note,) = diagnostic.notes
    assert re.search(r"graph\.py:\d+, in erase_node$", note.message)


def test_a_user_of_torch_compile_sees_the_place() -> None:
    options: Any = {"emitter": "fx", "compile_graph": fails}
    torch._dynamo.reset()
    compiled: Any = torch.compile(torch.sin, backend="wrapperir", options=options)
    with pytest.raises(
        Exception, match=r"WIR713: .*_graph\.py:\d+, in fails: .*\nand more"
    ):
        compiled(torch.ones(2))


def test_a_message_without_end_is_cut() -> None:
    def wordy(module: GraphModule) -> Run:
        raise ValueError("line\n" * 1000 + "word" * 10000)

    assert len(found(wordy).message) < 3000


def test_its_error_is_the_cause() -> None:
    with pytest.raises(DiagnosticError) as caught:
        run(fails)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_diagnostic_of_its_own_stays_as_it_is() -> None:
    own = Diagnostic(code=Code.UNSUPPORTED_FEATURE, message="acme has no products")

    def refuses(module: GraphModule) -> Run:
        raise DiagnosticError(own)

    with pytest.raises(DiagnosticError) as caught:
        run(refuses)
    assert caught.value.diagnostics == (own,)


class Compiler:
    def __init__(self, made: object = None) -> None:
        self.made = made

    def __call__(self, module: GraphModule) -> object:
        return self.made

    def method(self, module: GraphModule) -> object:
        return self.made


@pytest.mark.parametrize(
    ("compile_graph", "name"),
    [
        (Compiler(), "test_compile_graph.Compiler"),
        (Compiler().method, "test_compile_graph.Compiler.method"),
        (functools.partial(fails), "functools.partial"),
    ],
)
def test_whatever_it_is_has_a_name(compile_graph: object, name: str) -> None:
    assert re.search(rf"^compile_graph (\S+\.)?{name} r", found(compile_graph).message)


@pytest.mark.parametrize("made", [None, 3, "graph"])
def test_what_cannot_be_called_is_named(made: object) -> None:
    wanted = f"returned a {type(made).__name__}, which cannot be called"
    assert found(Compiler(made)).message.endswith(wanted)


@pytest.mark.parametrize(
    ("outputs", "problem"),
    [
        (torch.ones(2), "a Tensor, not a tuple or list"),
        (None, "a NoneType, not a tuple or list"),
        ((torch.ones(2),), "1 outputs instead of 2"),
        ([1, 2, 3], "3 outputs instead of 2"),
    ],
)
def test_other_outputs_than_the_program_s_are_named(outputs: object, problem: str) -> None:
    diagnostic = found(lambda module: lambda *inputs: outputs)
    assert diagnostic.message.endswith(f"returned a function that returns {problem}")


def test_what_the_compiled_graph_raises_is_raised() -> None:
    def broken(module: GraphModule) -> Run:
        def call(*inputs: object) -> tuple[Value, ...]:
            raise ZeroDivisionError("on the device")

        return call

    with pytest.raises(ZeroDivisionError, match="on the device"):
        run(broken)


def guide(folder: Path) -> ModuleType:
    """Return the module of the guide, as its readers have it."""
    page = (ROOT / "docs/guides/fx-backend.md").read_text()
    (text,) = re.findall(r"<!-- file: acme.py -->\n```python\n(.*?)```", page, re.S)
    assert text.count("\n") <= 14
    path = folder / "acme.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("acme", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_backend_of_the_guide_multiplies_itself(tmp_path: Path) -> None:
    acme = guide(tmp_path)
    graphs: list[str] = []

    def compile_graph(module: GraphModule) -> Run:
        compiled: Run = acme.compile_graph(module)
        graphs.append(module.code)
        return compiled

    assert_result(run(compile_graph))
    (code,) = graphs
    assert "acme_my_mm(" in code
    assert "aten.mm" not in code
