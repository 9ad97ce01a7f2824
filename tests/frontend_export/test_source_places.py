"""The place of a node is the nearest in the user's own source."""

from pathlib import Path

import pytest
import torch

import wrapperir
from wrapperir.frontend.export import lower_exported
from wrapperir.frontend.provenance import user_place
from wrapperir.ir import ExternKernelLine, OriginTable, SourcePlace

TORCH = Path(torch.__file__).parent / "nn/modules/linear.py"
OURS = Path(wrapperir.__file__).parent / "cli/lowering.py"


def trace_of(*frames: tuple[str | Path, int]) -> str:
    return "\n".join(
        f'  File "{file}", line {line}, in forward\n    x' for file, line in frames
    )


USER = ("/home/me/model.py", 7)


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([USER], USER),
        ([("/home/me/main.py", 1), USER], USER),
        ([USER, (TORCH, 134)], USER),
        ([(OURS, 22), USER, (TORCH, 134), ("<eval_with_key>.3", 6)], USER),
        ([(OURS, 22), (TORCH, 134)], (str(TORCH), 134)),
        (
            [("/home/me/torch_models/wrapperir.py", 3)],
            ("/home/me/torch_models/wrapperir.py", 3),
        ),
        ([(OURS, 22)], None),
        ([("<eval_with_key>.3", 6)], None),
        ([], None),
    ],
)
def test_the_innermost_frame_of_the_user(
    frames: list[tuple[str | Path, int]], expected: tuple[str, int] | None
) -> None:
    place = None
    if expected is not None:
        file, line = expected
        place = SourcePlace(file=file, line=line, function="forward")
    assert user_place(trace_of(*frames)) == place


def test_what_is_no_trace_has_no_place() -> None:
    assert user_place(None) is None
    assert user_place('File "cut off') is None


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.inner(x)
        return y


def test_a_module_of_torch_is_placed_where_it_is_called() -> None:
    exported = torch.export.export(Outer(), (torch.randn(2, 4),))
    program = lower_exported(exported).program
    (line,) = [line for line in program.lines if isinstance(line, ExternKernelLine)]
    table = OriginTable(program)
    (origin,) = table.of(line.provenance)
    place = table.place(origin)
    assert place is not None
    assert place.file == __file__
    called = Path(__file__).read_text().splitlines()[place.line - 1]
    assert "self.inner(x)" in called
