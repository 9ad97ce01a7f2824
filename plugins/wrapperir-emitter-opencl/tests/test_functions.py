"""Functions through our own lowering compute on the OpenCL device what eager computes."""

from collections.abc import Callable

import pytest
import torch

from lowered_functions import lower_on_device
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import compile_program
from wrapperir.passes import memory_passes
from wrapperir_opencl.emitter import OpenclEmitter

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")
FUNCTIONS: dict[str, Callable[..., object]] = {
    "pointwise": lambda x, i: (torch.relu(x) * 2 - 1, x.sigmoid() + x.tanh(), x > 0),
    "halves": lambda x, i: (x.half() * 3, (x.bfloat16() + 1).float(), x.half().sum(0)),
    "whole": lambda x, i: (i // 3, i % 3, -i, i**2, (i * 7).to(torch.int8), i.double()),
    "softmax": lambda x, i: (torch.softmax(x, -1), torch.log_softmax(x, 0)),
    "norm": lambda x, i: torch.nn.functional.layer_norm(x, (x.shape[1],)),
    "reductions": lambda x, i: (x.sum(), x.mean(0), x.amax(1), x.prod(1), (x > 0).any(0)),
    "batch norm": lambda x, i: torch.nn.functional.batch_norm(
        x.unflatten(1, (3, 3)), None, None, training=True
    ),
    "moments": lambda x, i: (x.var(1), x.std(0, correction=0)),
    "positions": lambda x, i: (x.argmax(1), x.argmin(), i.argmax()),
    "scans": lambda x, i: (x.cumsum(1), x.cummax(0)[0]),
    "gathers": lambda x, i: (x[i], x.index_select(1, i), torch.gather(x, 0, i[None])),
    "scatters": lambda x, i: x.index_add(0, i, x[i]),
    "views": lambda x, i: (x.t()[1:], x[:, ::2] + 1, x.reshape(-1)[3:], x.unsqueeze(0)),
    "masks": lambda x, i: (torch.nn.functional.pad(x, (1, 2)), x.tril(), torch.cat([x, x])),
    "creation": lambda x, i: (
        torch.arange(7, device=x.device) + torch.ones(7, device=x.device)
    ),
}


@pytest.mark.device
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_compute_what_eager_computes(name: str, dynamic: bool) -> None:
    function = FUNCTIONS[name]
    x, i = torch.randn(6, 9), torch.tensor([0, 3, 5, 3])
    rows = torch.export.Dim("rows", min=6, max=40)
    shapes = ({0: rows}, {}) if dynamic else None
    program = lower_on_device(function, (x, i), shapes)
    passes = tuple(memory_passes(OpenclEmitter.support.lines))
    call = compile_program(program, emitter=OpenclEmitter(), passes=passes)
    for count in (6, 23) if dynamic else (6,):
        x = torch.randn(count, 9)
        wanted = function(x, i)
        flat = wanted if isinstance(wanted, tuple) else (wanted,)
        for found, expected in zip(call([x, i]), flat, strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.device
def test_an_index_out_of_range_is_an_error_and_leaves_nothing() -> None:
    x, i = torch.randn(6, 9), torch.tensor([0, 3])
    program = lower_on_device(lambda x, i: x[i] * 2, (x, i))
    call = compile_program(program, emitter=OpenclEmitter())
    for _ in range(3):
        with pytest.raises(RuntimeError, match=r"a check of kernel \w+ failed"):
            call([x, i + 9])
        (found,) = call([x, i])
        assert torch.equal(found, x[i] * 2)  # type: ignore[arg-type]
    assert call.live_bytes == 0  # type: ignore[attr-defined]


def test_operators_without_loops_are_refused() -> None:
    x = torch.randn(6, 6)
    program = lower_on_device(lambda x, y: x @ y, (x, x))
    with pytest.raises(DiagnosticError) as caught:
        compile_program(program, emitter=OpenclEmitter())
    (found,) = caught.value.diagnostics
    assert found.code is Code.UNSUPPORTED_FEATURE
    assert "no support for the operator aten.mm.default" in found.message
