"""The option ``profile`` of the backend."""

import json
from pathlib import Path

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from wrapperir.backend import cache_key, read_options
from wrapperir.text import parse_program


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = self.norm(torch.nn.functional.dropout(x.sin(), 0.5))
        return normed.cos()


def test_each_program_is_profiled_once_and_computes_the_same(tmp_path: Path) -> None:
    torch.manual_seed(3)
    model = Model()
    root = tmp_path / "profiles"
    compiled = torch.compile(
        model,
        backend="wrapperir",
        options={"frontend": "lowering", "profile": str(root)},
    )
    state = torch.get_rng_state()
    x = torch.randn(8, 4, requires_grad=True)
    for _ in range(2):
        compiled(x).sum().backward()
    assert model.norm.num_batches_tracked is not None
    assert int(model.norm.num_batches_tracked) == 2
    after = torch.rand(1)
    folders = sorted(path.name for path in root.iterdir())
    assert folders == ["backward-1", "forward-0"]
    for folder in folders:
        program = parse_program((root / folder / "program.wir").read_text())
        found = json.loads((root / folder / "profile.json").read_text())
        assert found["program"] == program.name
        assert any(each["source"] for each in found["lines"])
        assert (root / folder / "profile.txt").read_text().startswith("profile of @")
        json.loads((root / folder / "profile.trace.json").read_text())

    # Without a profile the same random numbers are drawn.
    torch._dynamo.reset()
    torch.set_rng_state(state)
    plain = torch.compile(model, backend="wrapperir", options={"frontend": "lowering"})
    x = torch.randn(8, 4, requires_grad=True)
    for _ in range(2):
        plain(x).sum().backward()
    assert torch.equal(torch.rand(1), after)


def test_profiled_programs_are_not_kept(tmp_path: Path) -> None:
    assert cache_key(read_options({})) is not None
    assert cache_key(read_options({"profile": tmp_path})) is None


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    compiled = torch.compile(torch.sin, backend="wrapperir", options={"profile": str(file)})
    with pytest.raises(BackendCompilerFailed, match=r"option 'profile'.*cannot be written"):
        compiled(torch.ones(2))
