"""An emitter that lacks what a test says, and is the Python emitter otherwise."""

from collections.abc import Mapping

import torch
from attrs import define, evolve

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit import Artifact, Loaded, Support, Value
from wrapperir.emit.checked_inputs import sharing_checker
from wrapperir.emit.support import on_host
from wrapperir.ir import ExternKernelLine, Program
from wrapperir.ir.blocks import walk_places
from wrapperir.text import format_program, parse_program
from wrapperir_python.emitter import PythonEmitter


@define(eq=False, kw_only=True, slots=False)
class PartialEmitter(PythonEmitter):
    """The Python emitter with less support; it refuses some operators when it emits."""

    name = "partial"
    support: Support = PythonEmitter.support
    refused: frozenset[str] = frozenset()

    def emit(self, program: Program) -> Artifact:
        found = [
            Diagnostic(Code.UNSUPPORTED_FEATURE, "no", path=path, subject=line.operator)
            for line, path in walk_places(program.lines)
            if isinstance(line, ExternKernelLine) and line.operator in self.refused
        ]
        if found:
            raise DiagnosticError(*found)
        return super().emit(program)


HOSTED = "acme"
"""A kind of device whose memory is not the host's."""


@define(eq=False, kw_only=True, slots=False)
class HostedEmitter(PartialEmitter):
    """Copies all tensors where a program begins, and what it mutates where it ends."""

    name = "hosted"
    shared_apart: frozenset[str] = frozenset({HOSTED})
    """The devices for which inputs that share memory are refused if one is written."""

    def emit(self, program: Program) -> Artifact:
        """Emit the program on the host, and keep which inputs it mutates."""
        found = super().emit(on_host(program, frozenset({HOSTED})))
        text = format_program(program)
        found = evolve(found, metadata={**found.metadata, "program": text})
        mutated = ",".join(str(n) for n, each in enumerate(program.inputs) if each.mutated)
        return evolve(found, metadata={**found.metadata, "mutated": mutated})

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        """Return the program with copies at its borders."""
        text = artifact.metadata["mutated"]
        mutated = [int(number) for number in text.split(",") if number]
        program = parse_program(artifact.metadata["program"])
        check = sharing_checker(program, self.shared_apart, constants)
        call = super().load(artifact, constants)

        def run(given: list[Value]) -> tuple[Value, ...]:
            check(given)
            host = list(given)
            given.clear()
            device = [copied(x) if isinstance(x, torch.Tensor) else x for x in host]
            kept = {number: device[number] for number in mutated}
            outputs = call(device)
            for number, value in kept.items():
                target = host[number]
                assert isinstance(target, torch.Tensor)
                assert isinstance(value, torch.Tensor)
                target.copy_(value)
            return outputs

        return run


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in a copy of its storage."""
    memory: torch.UntypedStorage = tensor.untyped_storage().clone()  # type: ignore[no-untyped-call]
    place = (tensor.storage_offset(), tensor.size(), tensor.stride())
    return torch.empty(0, dtype=tensor.dtype).set_(memory, *place)
