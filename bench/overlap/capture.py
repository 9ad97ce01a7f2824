"""Captures the programs of a training step of a split model, without running any of them.

The ranks are those of PyTorch's fake process group: one process stands for any number.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from attrs import define, field
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from bench.overlap.models import SPLITS, Layer, Shape
from wrapperir.emit import Artifact
from wrapperir.ir import BufferRef, Program, TensorType, evaluate_int
from wrapperir.ir.line_effects import value_types
from wrapperir_python.emitter import PythonEmitter

BEFORE = "insert_frees, free_early, use_out_variants"
"""The passes before those for collectives, as ``torch.compile`` runs them."""


@define(eq=False)
class _Recorder(PythonEmitter):
    """Keeps programs; what it loads returns tensors without content."""

    programs: list[Program] = field(factory=list[Program])

    def emit(self, program: Program) -> Artifact:
        """Keep the number of the program as its only file."""
        number = str(len(self.programs))
        self.programs.append(program)
        return Artifact(emitter=self.name, files={"number": number}, entry="number")

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Any:
        """Return a function that returns empty tensors of the outputs' types."""
        program = self.programs[int(str(artifact.files["number"]))]
        types = _output_types(program)

        def run(inputs: Sequence[object]) -> tuple[object, ...]:
            given = {
                each.name: value for each, value in zip(program.inputs, inputs, strict=True)
            }
            found: list[object] = []
            for output, type in zip(program.outputs, types, strict=True):
                if isinstance(output, BufferRef) and output.name in given:
                    found.append(given[output.name])
                elif type is None:
                    found.append(None)
                else:
                    found.append(_empty(type))
            return tuple(found)

        return run


def _empty(type: TensorType) -> torch.Tensor:
    size = [evaluate_int(each, {}) for each in type.size]
    stride = [evaluate_int(each, {}) for each in type.stride]
    return torch.empty_strided(size, stride, dtype=getattr(torch, type.dtype.torch_name))


def _output_types(program: Program) -> list[TensorType | None]:
    types = value_types(program)
    found: list[TensorType | None] = []
    for output in program.outputs:
        type = types[output.name] if isinstance(output, BufferRef) else None
        found.append(type if isinstance(type, TensorType) else None)
    return found


def capture_step(split: str, shape: Shape, ranks: int, regather: bool) -> list[Program]:
    """Return the programs of a rank's forward and backward pass, not yet planned."""
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        mesh = init_device_mesh("cpu", (ranks,))
        with torch.device("meta"):
            whole = torch.nn.Sequential(*(Layer(shape) for _ in range(shape.layers)))
        whole = whole.to(torch.bfloat16).to_empty(device="cpu")
        model = SPLITS[split](whole, mesh, regather)
        programs: list[Program] = []

        def keep(program: Program) -> Program:
            programs.append(program)
            return program

        torch._dynamo.reset()
        passes = [BEFORE, keep]
        options: Any = {"emitter": _Recorder(), "frontend": "lowering", "passes": passes}
        run = torch.compile(model, backend="wrapperir", options=options)
        size = (shape.batch, shape.length, shape.width)
        x = torch.empty(size, dtype=torch.bfloat16, requires_grad=True)
        torch.autograd.backward(run(x), torch.empty(size, dtype=torch.bfloat16))
        return programs
    finally:
        distributed.destroy_process_group()
