"""An emitter that keeps the programs it is given and what their first calls did."""

from collections.abc import Mapping

import torch
from attrs import define

from wrapperir.emit import Artifact, Emitter, Loaded, Value
from wrapperir.ir import Program


@define
class Recorded:
    """A program, its constants, and the inputs and outputs of its first call."""

    program: Program
    artifact: Artifact
    constants: Mapping[str, torch.Tensor]
    inputs: list[Value] | None = None
    outputs: tuple[Value, ...] = ()


class RecordingEmitter(Emitter):
    """Emits with another emitter; ``recorded`` holds every program, in order."""

    def __init__(self, inner: Emitter) -> None:
        """Record what ``inner`` is given."""
        self.name = inner.name
        self.support = inner.support
        self.recorded: list[Recorded] = []
        self._inner = inner

    def emit(self, program: Program) -> Artifact:
        """Emit with the inner emitter."""
        artifact = self._inner.emit(program)
        self.recorded.append(Recorded(program, artifact, {}))
        return artifact

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        """Load with the inner emitter; the first call is recorded."""
        loaded = self._inner.load(artifact, constants)
        record = next(r for r in self.recorded if r.artifact is artifact)
        record.constants = {key: copy_tensor(value) for key, value in constants.items()}

        def call(inputs: list[Value]) -> tuple[Value, ...]:
            if record.inputs is not None:
                return loaded(inputs)
            record.inputs = [copied(value) for value in inputs]
            outputs = loaded(inputs)
            record.outputs = tuple(copied(value) for value in outputs)
            return outputs

        return call


def copied(value: Value) -> Value:
    """Return a copy of a tensor; other values are themselves."""
    return copy_tensor(value) if isinstance(value, torch.Tensor) else value


def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides."""
    copy = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return copy.copy_(tensor.detach())
