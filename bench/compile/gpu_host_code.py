"""Time to compile the host code of a training step for a GPU, without a GPU.

The model is a GPT-2 of 12 layers of width 256 in bfloat16.  Inductor writes its forward and
backward with Triton kernels for the CPU; the programs are then moved to a GPU and emitted
as C++.  Seconds are the least processor seconds of compiling ``program.cpp``.  Kernels and
runtime are not built.

    python -m bench.compile.gpu_host_code [rounds]
"""

import sys
import tempfile
from collections.abc import Sequence
from unittest import mock

import torch

from bench.compile.cpp_build import HOST, processor_seconds
from bench.machine import describe_machine
from bench.small_models import VOCABULARY, gpt2
from tests.cpp_emitter.moved import on_gpu
from wrapperir.emit import Artifact
from wrapperir.emit.default_passes import passes_to_run
from wrapperir.emit.pipeline import emit_program, prepare_program
from wrapperir.frontend.inductor import capture
from wrapperir.ir import Program
from wrapperir_cpp import build
from wrapperir_cpp.emitter import CppEmitter


def training_programs() -> Sequence[Program]:
    """Return the forward and the backward program, on a GPU."""
    torch.manual_seed(0)
    model = gpt2(256, 12).to(torch.bfloat16).train()
    tokens = torch.randint(0, VOCABULARY, (2, 64))

    def loss(tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = model(input_ids=tokens, labels=tokens).loss
        return found

    found = capture(loss, (tokens,), cpu_backend="triton", training=True)
    return [on_gpu(lowered.program) for lowered in found]


def compile_seconds(artifact: Artifact, rounds: int) -> float:
    """Return the least processor seconds of compiling ``program.cpp``."""
    sources, included = build.host_sources(artifact.files)
    found: list[float] = []
    for number in range(rounds):
        begun = processor_seconds()
        # What was built before is kept, so the text is another one each time.
        build.build_object(HOST, f"{sources[HOST]}// {number}\n", included)
        found.append(processor_seconds() - begun)
    return min(found)


def main() -> None:
    """Print the seconds of both programs."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(describe_machine())
    emitter = CppEmitter().trusting_inputs()
    passes = passes_to_run(None, emitter, graphs=False)
    for role, program in zip(("forward", "backward"), training_programs(), strict=True):
        artifact = emit_program(prepare_program(program, passes), emitter)
        seconds = compile_seconds(artifact, rounds)
        print(f"{role:9} {len(program.lines):5} lines {seconds:6.2f} s")


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as caches,
        mock.patch.dict("os.environ", {"XDG_CACHE_HOME": caches}),
    ):
        main()
