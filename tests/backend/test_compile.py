"""``torch.compile(..., backend="wrapperir")`` from end to end.

One C++ build takes seconds, so most tests have Inductor write Triton for the CPU.
"""

from pathlib import Path

import pytest
import torch

from tests.frontend_inductor.captured import while_loop
from wrapperir.text import parse_program
from wrapperir.verify import verify


@pytest.fixture(autouse=True)
def _forget() -> None:
    torch._dynamo.reset()


def test_a_model_trains_in_cpp(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3)
    )
    x = torch.randn(4, 8)
    expected = model(x)
    expected.square().sum().backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad(set_to_none=True)

    compiled = torch.compile(
        model, backend="wrapperir", options={"dump_dir": str(tmp_path)}
    )
    actual = compiled(x)
    actual.square().sum().backward()
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close([p.grad for p in model.parameters()], gradients)
    dumped = sorted(path.name for path in tmp_path.iterdir())
    assert [name.split("-")[0] for name in dumped] == ["backward", "forward"]
    for folder in tmp_path.iterdir():
        program = parse_program((folder / "program.wir").read_text())
        assert verify(program) == ()
        assert (folder / "python").is_dir()


@pytest.mark.usefixtures("triton_on_cpu")
@pytest.mark.parametrize("frontend", ["inductor", "lowering"])
@pytest.mark.parametrize("is_symbolic", [False, True])
def test_pytorch_compiles_a_backward_when_it_first_runs(
    frontend: str, is_symbolic: bool, tmp_path: Path
) -> None:
    # So nothing of it can be done while the forward is built, but where sizes that it is
    # given are symbolic: then both are compiled before the forward runs.
    def dumped() -> list[str]:
        return sorted(path.name.partition("-")[0] for path in tmp_path.iterdir())

    compiled = torch.compile(
        lambda x: x.sin().sum(0),
        backend="wrapperir",
        dynamic=is_symbolic,
        options={"frontend": frontend, "dump_dir": str(tmp_path)},
    )
    total = compiled(torch.randn(4, 3, requires_grad=True)).sum()
    assert dumped() == (["backward", "forward"] if is_symbolic else ["forward"])
    total.backward()
    assert dumped() == ["backward", "forward"]


@pytest.mark.usefixtures("triton_on_cpu")
def test_a_dynamic_size_needs_one_compilation() -> None:
    compiled = torch.compile(
        lambda x: torch.softmax(x, -1) + x.shape[0], backend="wrapperir", dynamic=True
    )
    for rows in (4, 7, 11):
        x = torch.randn(rows, 9)
        torch.testing.assert_close(compiled(x), torch.softmax(x, -1) + rows)


@pytest.mark.usefixtures("triton_on_cpu")
def test_inputs_that_begin_within_their_storage() -> None:
    x = torch.randn(6, 9)[2:, 3:]
    y = torch.randn(50)[7:]

    def views(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x @ x.t(), y.as_strided((3, 3), (2, 1), 9) + 1, y[4:6]

    for actual, expected in zip(
        torch.compile(views, backend="wrapperir")(x, y), views(x, y), strict=True
    ):
        torch.testing.assert_close(actual, expected)


@pytest.mark.usefixtures("triton_on_cpu")
def test_mutation_is_seen_by_the_caller() -> None:
    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[1:].add_(y)
        return x.sum()

    x, y = torch.randn(4, 3), torch.randn(3, 3)
    expected = x.clone()
    total = change(expected, y)
    actual = torch.compile(change, backend="wrapperir")(x, y)
    torch.testing.assert_close(x, expected)
    torch.testing.assert_close(actual, total)


@pytest.mark.usefixtures("triton_on_cpu")
def test_random_numbers_follow_the_seed() -> None:
    compiled = torch.compile(
        lambda x: torch.nn.functional.dropout(x, 0.5), backend="wrapperir"
    )
    x = torch.ones(64)
    torch.manual_seed(3)
    first = compiled(x)
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(x), first)
    assert 0 < int((first == 0).sum()) < 64


@pytest.mark.usefixtures("triton_on_cpu")
@pytest.mark.parametrize("flag", [True, False])
def test_control_flow(flag: bool) -> None:
    x = torch.randn(5)
    expected = (x.sin() if flag else x * 2) + 3

    def run(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        x = torch.cond(p, lambda x: x.sin(), lambda x: x * 2, (x,))
        result: torch.Tensor = while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, x + 1), (torch.tensor(0), x)
        )[1]
        return result

    actual = torch.compile(run, backend="wrapperir")(torch.tensor(flag), x)
    torch.testing.assert_close(actual, expected)


def test_an_unknown_option_reaches_the_user() -> None:
    compiled = torch.compile(
        lambda x: x + 1, backend="wrapperir", options={"emiter": "python"}
    )
    with pytest.raises(Exception, match=r"WIR660.*emiter"):
        compiled(torch.randn(2))


def test_an_unknown_emitter_reaches_the_user() -> None:
    compiled = torch.compile(
        lambda x: x + 1, backend="wrapperir", options={"emitter": "cobol"}
    )
    with pytest.raises(Exception, match=r"WIR7\d\d.*cobol"):
        compiled(torch.randn(2))
