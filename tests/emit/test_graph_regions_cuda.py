"""Graph regions on a GPU: each call of each emitter computes what the interpreter does."""

import pytest
import torch

from tests.cpp_emitter.moved import on_gpu
from wrapperir.emit import Emitter, Value
from wrapperir.interp import interpret
from wrapperir.testing import CASES, example_constants, example_inputs
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_fx.emitter import FxEmitter
from wrapperir_python.emitter import PythonEmitter

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

EMITTERS = (PythonEmitter(), CppEmitter(), FxEmitter())


def there(value: Value) -> Value:
    return value.cuda() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("emitter", EMITTERS, ids=lambda emitter: emitter.name)
@pytest.mark.parametrize("name", ["graph_regions", "region_streams"])
def test_calls_of_regions(emitter: Emitter, name: str) -> None:
    (case,) = [case for case in CASES if case.name == name]
    program = on_gpu(case.program, is_there=True)
    assert verify(program) == ()
    constants = example_constants(case.program)
    on_device = {key: tensor.cuda() for key, tensor in constants.items()}
    call = emitter.load(emitter.emit(program), on_device)
    kept: list[tuple[Value, Value]] = []
    for seed in (0, 0, 1, 0, 1, 2, 3, 0, 2, 3, 1, 0):  # sizes come again
        wanted = example_inputs(case.program, seed)
        given = [there(value) for value in example_inputs(case.program, seed)]
        inputs = list(given)
        expected = interpret(case.program, wanted, constants)
        outputs = call(inputs)
        kept += zip((*outputs, *given), (*expected, *wanted), strict=True)
    for got, value in kept:  # no later call changed what an earlier one returned
        if isinstance(value, torch.Tensor):
            assert isinstance(got, torch.Tensor)
            torch.testing.assert_close(got.cpu(), value, rtol=1e-4, atol=1e-4)
