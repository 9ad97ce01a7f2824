"""Programs have the names of the user's functions, modules and arguments."""

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from torch._functorch._aot_autograd.descriptors import ParamAOTInput

from wrapperir.backend import wrapperir_backend
from wrapperir.frontend.inductor import capture
from wrapperir.frontend.named_program import (
    ProgramNames,
    identifier_of,
    name_program,
)
from wrapperir.frontend.user_names import InputName, UserNames, dynamo_names
from wrapperir.ir import Program, is_identifier
from wrapperir.ir.line_effects import value_names
from wrapperir.ir.renaming import rename_program
from wrapperir.testing import programs
from wrapperir.text import parse_program
from wrapperir.verify import verify

pytestmark = pytest.mark.usefixtures("triton_on_cpu")
NAMES = st.sampled_from(["x", "fc.weight", "x\u00e4", "", "0", "a" * 300]) | st.text(
    max_size=9
)


@given(programs(languages=()), st.data())
def test_a_named_program_is_the_same_but_for_names(
    program: Program, data: st.DataObject
) -> None:
    old = list(value_names(program))
    values = data.draw(
        st.dictionaries(
            st.sampled_from([*old, "none"]), NAMES | st.sampled_from([*old, "s0"])
        )
    )
    inputs = st.sampled_from([*[each.name for each in program.inputs], "none"])
    paths = data.draw(st.dictionaries(inputs, NAMES))
    tied = data.draw(st.dictionaries(inputs, st.tuples(NAMES)))
    names = ProgramNames(data.draw(st.none() | NAMES), values, paths, tied)
    named = name_program(program, names)
    new = list(value_names(named))
    assert len(set(new)) == len(new)
    assert all(map(is_identifier, (*new, named.name)))
    assert verify(named) == ()
    back = dict(zip(new, old, strict=True))
    original = rename_program(named, back.__getitem__)
    assert [x.path for x in original.inputs] == [
        paths.get(x.name, x.path) for x in program.inputs
    ]
    assert [x.tied for x in original.inputs] == [
        tied.get(x.name, x.tied) for x in program.inputs
    ]
    assert evolve(original, name=program.name, inputs=program.inputs) == program
    assert [evolve(x, path=None, tied=()) for x in original.inputs] == [
        evolve(x, path=None, tied=()) for x in program.inputs
    ]
    assert named.name == (identifier_of(names.program or "") or program.name)
    for name in old:
        if identifier_of(values.get(name, "")) is None:
            assert back[name] == name


@given(NAMES)
def test_an_identifier_is_made_of_any_text(text: str) -> None:
    name = identifier_of(text)
    assert name is None or is_identifier(name)
    if is_identifier(text) and len(text) <= 200 and text.strip("_") == text:
        assert name == text


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
        result: torch.Tensor = self.fc(x).relu() + self.mean + rest[0]["bias"][0]
        scaled: torch.Tensor = result * options["scale"]
        return scaled


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor, buf0: torch.Tensor, **options: Any) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, {"bias": [buf0]}, **options)
        return x.neg()


def of_layer(number: int) -> set[str]:
    return {f"layers_{number}_{name}" for name in ("fc_weight", "fc_bias", "mean")}


def dumped(
    folder: Path,
    function: Any,
    *args: Any,
    dynamic: bool = False,
    frontend: str = "lowering",
    **kwargs: Any,
) -> list[Program]:
    """Return the programs that a call compiles; with a gradient the backward first."""
    torch._dynamo.reset()
    options: Any = {"frontend": frontend, "dump_dir": folder, "passes": ()}
    call: Any = torch.compile(
        function, backend="wrapperir", dynamic=dynamic, options=options
    )
    result = call(*args, **kwargs)
    if result.requires_grad:
        loss: Any = result.sum()
        loss.backward()
    texts = [(each / "program.wir").read_text() for each in sorted(folder.iterdir())]
    return [parse_program(text) for text in texts]


def inputs_of(program: Program) -> list[str]:
    return [each.name for each in program.inputs]


FRONTENDS = pytest.mark.parametrize("frontend", ["inductor", "lowering"])


@FRONTENDS
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_module_in_training(frontend: str, dynamic: bool, tmp_path: Path) -> None:
    given = torch.randn(3, 4, requires_grad=True), torch.ones(3, 4)
    backward, forward = dumped(
        tmp_path, Network(), *given, dynamic=dynamic, frontend=frontend, scale=torch.ones(4)
    )
    assert (forward.name, backward.name) == ("Network", "Network_backward")
    # One of Inductor's buffers is buf0 too.
    other = "buf0_1" if frontend == "inductor" else "buf0"
    sizes = {"x_size_0"} if dynamic else set()
    names = {"x", other, "options_scale", *sizes, *of_layer(0), *of_layer(1)}
    assert set(inputs_of(forward)) == names
    saved = set(inputs_of(backward))
    assert saved >= {"x", "layers_1_fc_weight", "grad_output_0", *sizes}
    assert not any(name.startswith(("primals", "tangents")) for name in saved)


scale = torch.ones(4)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).eval()


def my_function(a: torch.Tensor, /, b: torch.Tensor, number: int) -> torch.Tensor:
    if number > 2:
        torch._dynamo.graph_break()
    result: torch.Tensor = model(a + b) * number + scale
    return result


class Trainer:
    def __init__(self) -> None:
        self.tables = {"a b": [scale]}

    def step(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return batch["images"] + self.tables["a b"][0]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.step({"images": x})


PARAMETERS = ["0_weight", "0_bias", "1_running_mean", "1_running_var", "1_weight", "1_bias"]
OF_SEQUENTIAL = [f"{'b' if 'running' in name else 'p'}_{name}" for name in PARAMETERS]
OF_MODEL = [f"model_{name}" for name in PARAMETERS]


@FRONTENDS
@pytest.mark.parametrize(
    ("function", "args", "name", "inputs"),
    [
        (my_function, (2,), "my_function", ["a", "b", *OF_MODEL, "scale"]),
        (my_function, (3,), "my_function", ["a", "b", *OF_MODEL, "scale"]),
        (
            functools.partial(my_function, number=2),
            (),
            "my_function",
            ["a", "b", *OF_MODEL, "scale"],
        ),
        (Trainer(), None, "Trainer", ["x", "tables_a_b_0"]),
        (Trainer().step, {}, "step", ["batch_images", "tables_a_b_0"]),
        (model, None, "Sequential", ["input", *OF_SEQUENTIAL]),
        (torch.neg, None, "neg", ["args_0"]),
        (lambda x: x.neg(), None, "lambda", ["x"]),
    ],
)
def test_what_is_compiled_gives_its_name(
    frontend: str, function: Any, args: Any, name: str, inputs: list[str], tmp_path: Path
) -> None:
    x = torch.ones(3, 4)
    match args:
        case None:
            given: tuple[Any, ...] = (x,)
        case dict():
            given = ({"images": x},)
        case _:
            given = (x, torch.ones(4), *args)
    with torch.no_grad():
        (program,) = dumped(tmp_path, function, *given, frontend=frontend)
    assert program.name == name
    assert sorted(inputs_of(program)) == sorted(inputs)


@FRONTENDS
def test_parameters_have_their_paths_in_the_model(frontend: str, tmp_path: Path) -> None:
    model = Network()
    given = torch.randn(3, 4, requires_grad=True), torch.ones(3, 4)
    backward, forward = dumped(
        tmp_path, model, *given, frontend=frontend, scale=torch.ones(4)
    )
    held = {*dict(model.named_parameters()), *dict(model.named_buffers())}
    assert {each.path for each in forward.inputs} == {*held, None}
    for each in (*forward.inputs, *backward.inputs):
        if each.path is not None:
            assert each.name == each.path.replace(".", "_")
    assert "layers.1.fc.weight" in {each.path for each in backward.inputs}
    modules = {each.module for each in forward.origins if each.module is not None}
    assert "layers.0.fc" in modules  # so that a module has its parameters
    assert not any(each.path for each in forward.inputs if each.name.startswith("x"))


@FRONTENDS
@pytest.mark.parametrize(
    ("function", "paths"),
    [
        (my_function, [f"model.{name.replace('_', '.', 1)}" for name in PARAMETERS]),
        (model, [name.replace("_", ".", 1) for name in PARAMETERS]),
        (Trainer(), ["tables.a b.0"]),
        (torch.neg, []),
    ],
)
def test_a_path_begins_where_the_function_finds_its_model(
    frontend: str, function: Any, paths: list[str], tmp_path: Path
) -> None:
    x = torch.ones(3, 4)
    given: tuple[Any, ...] = (x, torch.ones(4), 2) if function is my_function else (x,)
    with torch.no_grad():
        (program,) = dumped(tmp_path, function, *given, frontend=frontend)
    found = [each.path for each in program.inputs if each.path is not None]
    assert sorted(found) == sorted(paths)


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(6, 4)
        self.head = torch.nn.Linear(4, 6)
        self.head.weight = self.table.weight

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(index))  # type: ignore[no-any-return]


@FRONTENDS
def test_a_tied_parameter_has_all_its_paths(frontend: str, tmp_path: Path) -> None:
    backward, forward = dumped(tmp_path, Tied(), torch.tensor([1, 2]), frontend=frontend)
    for program in (forward, backward):
        tied = [{str(x.path), *x.tied} for x in program.inputs if x.tied]
        assert tied == [{"table.weight", "head.weight"}]
    assert ("head.bias", ()) in [(x.path, x.tied) for x in forward.inputs]


def test_a_graph_that_holds_its_parameters_has_their_paths() -> None:
    graph = torch.fx.symbolic_trace(Block().fc)
    names = UserNames(None, (InputName("input"),), ("weight", "bias"))
    placeholder = torch.fx.Graph().placeholder("primals_1")
    placeholder.meta["desc"] = ParamAOTInput("weight")
    assert dynamo_names(graph).held == names.held
    found = names.of_traced(placeholder.graph, backward=False)
    assert found.paths == {"primals_1": "weight"}


@FRONTENDS
def test_parameters_of_an_optimizer_have_its_names(frontend: str, tmp_path: Path) -> None:
    layer = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    loss: Any = layer(torch.ones(2, 4)).sum()
    loss.backward()

    torch._dynamo.reset()
    options: Any = {"frontend": frontend, "dump_dir": tmp_path}
    step: Any = torch.compile(optimizer.step, backend="wrapperir", options=options)
    step()
    program = parse_program((tmp_path / "forward-0" / "program.wir").read_text())
    assert program.name == "step"
    assert sorted(inputs_of(program)) == [
        f"param_groups_0_params_{name}" for name in ("0", "0_grad", "1", "1_grad")
    ]


def test_captured_programs_have_the_names_too() -> None:
    torch._dynamo.reset()
    block, x = torch.nn.Linear(4, 4), torch.ones(3, 4)
    forward, backward = capture(block, (x.requires_grad_(),), training=True)
    assert (forward.program.name, backward.program.name) == ("Linear", "Linear_backward")
    assert set(inputs_of(forward.program)) == {"input", "weight", "bias"}
    assert "grad_output_0" in inputs_of(backward.program)


@FRONTENDS
def test_a_graph_that_dynamo_has_not_traced_has_its_own_names(
    frontend: str, tmp_path: Path
) -> None:
    def add(first: Any, second: Any) -> Any:
        return (first + second,)

    graph = torch.fx.symbolic_trace(add)
    given = (torch.ones(2), torch.ones(2))
    options = {"frontend": frontend, "dump_dir": tmp_path}
    call = wrapperir_backend(graph, given, options=options)
    assert torch.equal(call(*given)[0], torch.full((2,), 2.0))
    program = parse_program((tmp_path / "forward-0" / "program.wir").read_text())
    assert (program.name, inputs_of(program)) == ("main", ["first", "second"])
