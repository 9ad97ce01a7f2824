"""Triton kernels that are compiled before their program is emitted."""

from collections.abc import Collection, Iterator

from attrs import evolve

from wrapperir.emit.python.kernels import format_kernel_file
from wrapperir.emit.triton_signature import ArgumentFacts, compilation_facts
from wrapperir.ir import KernelDefinitionLine, runtime_parameters
from wrapperir.kernels import CompileFacts, Target, TritonJob
from wrapperir.kernels.triton_compile import WORKERS

_SOURCE = "kernel.py"
_ASKED_FOR = 16


def compile_early(line: KernelDefinitionLine, multiples: Collection[str]) -> None:
    """Begin to compile a Triton kernel for the current GPU, in each of its configs.

    ``multiples`` are the parameters whose addresses or numbers are multiples of 16.
    Nothing is begun where no process waits for kernels to compile.
    """
    if not WORKERS.is_running:
        return
    import torch

    major, minor = torch.cuda.get_device_capability()
    source = format_kernel_file(line)
    for task in early_tasks(line, multiples, Target(f"sm_{major}{minor}")):
        WORKERS.ahead.begin(task, source)


def early_tasks(
    line: KernelDefinitionLine, multiples: Collection[str], target: Target
) -> Iterator[CompileFacts]:
    """Yield what emitted programs may ask to compile of a kernel: each of its configs."""
    facts = [
        ArgumentFacts(_ASKED_FOR if parameter.name in multiples else 1)
        for parameter in runtime_parameters(line.parameters)
    ]
    variants = [evolve(line, configs=(config,)) for config in line.configs] or [line]
    for variant in variants:
        found = compilation_facts(variant, _SOURCE, facts)
        yield TritonJob("kernel", target, True, "kernel.cubin", found, {}).task
