"""Emitters that are wrong on purpose, each in one thing, for the checks of plugins to find.

Some change the lines that the Python emitter is given, some the text that it makes, and
some the loaded function.
"""

import ctypes
import os
import re
import signal
from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from attrs import evolve, frozen

from tests.emit.partition.partial_emitter import HOSTED, HostedEmitter
from wrapperir import ir as wir
from wrapperir.emit import Artifact, Loaded, Value
from wrapperir.ir.blocks import rewrite_blocks
from wrapperir_python.emitter import ENTRY, PythonEmitter

L = TypeVar("L", bound=wir.BodyLine)


@frozen
class Wrong:
    """A wrong emitter, and the feature and case that find it."""

    emitter: PythonEmitter
    feature: str
    case: str
    seconds: float = 60
    device: str = "cpu"


class WrongLines(PythonEmitter):
    """Emits lines that differ from those of the program."""

    change: Callable[[wir.Program], wir.Program]

    def emit(self, program: wir.Program) -> Artifact:
        return super().emit(type(self).change(program))


class WrongText(PythonEmitter):
    """Emits Python with some text replaced."""

    pattern: str
    replacement: str

    def emit(self, program: wir.Program) -> Artifact:
        artifact = super().emit(program)
        text = artifact.files[ENTRY]
        assert isinstance(text, str)
        changed = re.sub(self.pattern, self.replacement, text, flags=re.MULTILINE)
        return evolve(artifact, files={**artifact.files, ENTRY: changed})


class WrongCall(PythonEmitter):
    """Loads a function that differs from the program's."""

    wrap: Callable[[Loaded], Loaded]
    constants: Callable[[Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]] = dict

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        wrap = type(self).wrap
        return wrap(super().load(artifact, type(self).constants(constants)))


def lines(change: Callable[[wir.Program], wir.Program], feature: str, case: str) -> Wrong:
    kind = type("Changed", (WrongLines,), {"change": staticmethod(change), "name": "wrong"})
    return Wrong(kind(), feature, case)


def text(pattern: str, replacement: str, feature: str, case: str) -> Wrong:
    fields = {"pattern": pattern, "replacement": replacement, "name": "wrong"}
    return Wrong(type("Changed", (WrongText,), fields)(), feature, case)


def hosted_text(pattern: str, replacement: str, feature: str, case: str) -> Wrong:
    """Return a wrong emitter for a device whose memory is not the host's."""
    fields = {"pattern": pattern, "replacement": replacement, "name": "wrong"}
    kind = type("Changed", (WrongText, HostedEmitter), fields)
    support = hosted_emitter(shared_apart=frozenset()).support
    return Wrong(kind(support=support), feature, case, device=HOSTED)


def hosted_emitter(*, shared_apart: frozenset[str]) -> HostedEmitter:
    devices = frozenset({HOSTED})
    support = evolve(PythonEmitter.support, devices=devices, hosted=devices)
    return HostedEmitter(support=support, shared_apart=shared_apart)


def call(wrap: Callable[[Loaded], Loaded], feature: str, case: str) -> Wrong:
    kind = type("Changed", (WrongCall,), {"wrap": staticmethod(wrap), "name": "wrong"})
    return Wrong(kind(), feature, case)


def each_line(
    change: Callable[[wir.BodyLine], wir.BodyLine],
) -> Callable[[wir.Program], wir.Program]:
    """Return the change of each line of a program, in nested blocks too."""

    def block(given: wir.Block) -> wir.Block:
        return evolve(given, lines=tuple(map(changed, given.lines)))

    def changed(line: wir.BodyLine) -> wir.BodyLine:
        return change(rewrite_blocks(line, block))

    return lambda program: evolve(program, lines=tuple(map(changed, program.lines)))


def without_offset(line: wir.BodyLine) -> wir.BodyLine:
    if isinstance(line, wir.ReinterpretLine):
        return evolve(line, type=evolve(line.type, offset=0))
    return line


def not_zeroed(line: wir.BodyLine) -> wir.BodyLine:
    if isinstance(line, wir.AllocateLine) and line.workspace is wir.ZeroMode.ZERO_ON_CALL:
        return evolve(line, workspace=wir.ZeroMode.UNINITIALIZED)
    return line


def swapped_arguments(line: wir.BodyLine) -> wir.BodyLine:
    if isinstance(line, wir.KernelCallLine) and len(line.arguments) > 3:
        first, second, *rest = line.arguments
        return evolve(line, arguments=(second, first, *rest))
    return line


def other_branch(line: wir.BodyLine) -> wir.BodyLine:
    if isinstance(line, wir.ConditionalLine):
        return evolve(line, on_true=line.on_false, on_false=line.on_true)
    return line


def one_more_iteration(line: wir.BodyLine) -> wir.BodyLine:
    if isinstance(line, wir.WhileLoopLine):
        (condition,) = line.condition.results
        assert isinstance(condition, wir.Operation)
        late = evolve(condition, op=wir.ExprOp.LE)
        return evolve(line, condition=evolve(line.condition, results=(late,)))
    return line


def rounded_to_zero(program: wir.Program) -> wir.Program:
    """Divide toward zero, as C does."""

    def changed(expr: wir.Expr) -> wir.Expr:
        if not isinstance(expr, wir.Operation):
            return expr
        args = tuple(map(changed, expr.args))
        if expr.op is not wir.ExprOp.FLOORDIV:
            return evolve(expr, args=args)
        quotient = wir.Operation(wir.ExprOp.TRUEDIV, args)
        return wir.Operation(wir.ExprOp.TRUNC, (quotient,))

    def change(line: wir.BodyLine) -> wir.BodyLine:
        source = line.source if isinstance(line, wir.SymbolDefinitionLine) else None
        if not isinstance(source, wir.Operation):
            return line
        assert isinstance(line, wir.SymbolDefinitionLine)
        return evolve(line, source=changed(source))

    return each_line(change)(program)


def whole_literals(program: wir.Program) -> wir.Program:
    """Write every floating-point literal of a call as a whole number."""

    def change(line: wir.BodyLine) -> wir.BodyLine:
        if isinstance(line, wir.KernelCallLine):
            given = (int(a) if isinstance(a, float) else a for a in line.arguments)
            return evolve(line, arguments=tuple(given))
        return line

    return each_line(change)(program)


def late_side_stream(program: wir.Program) -> wir.Program:
    """Run all work of other streams at the end, as if no event ordered it."""

    def is_late(line: wir.BodyLine) -> bool:
        return isinstance(line, wir.KernelCallLine) and line.stream != 0

    early = [line for line in program.lines if not is_late(line)]
    late = [line for line in program.lines if is_late(line)]
    return evolve(program, lines=(*early, *late))


def size_of_the_first_input(program: wir.Program) -> wir.Program:
    first = program.inputs[0].name
    symbols = tuple(
        evolve(line, source=wir.SizeOf(first, 0), lower=None, upper=None)
        if isinstance(line.source, wir.SizeOf)
        else line
        for line in program.symbols
    )
    return evolve(program, symbols=symbols)


def reused_live_memory(program: wir.Program) -> wir.Program:
    """Put each buffer into the memory of the one before, of the same type."""
    known: dict[wir.TensorType, str] = {}
    changed: list[wir.BodyLine] = []
    for line in program.lines:
        if isinstance(line, wir.AllocateLine) and line.type in known:
            source = known[line.type]
            line = wir.ReinterpretLine(result=line.result, source=source, type=line.type)
        elif isinstance(line, wir.AllocateLine):
            known[line.type] = line.result
        changed.append(line)
    # Views are of names that live.
    kept = [x for x in changed if not isinstance(x, wir.FreeLine)]
    return evolve(program, lines=tuple(kept))


def placed_at_the_start(line: wir.BodyLine) -> wir.BodyLine:
    if isinstance(line, wir.PlaceLine) and isinstance(line.type, wir.TensorType):
        return evolve(line, offset=0)
    return line


def kept_to_the_end(program: wir.Program) -> wir.Program:
    """Free nothing before a block ends, as locals of Python go."""

    def kept(given: wir.Block) -> wir.Block:
        return evolve(given, lines=tuple(map(changed, frees_left_out(given.lines))))

    def changed(line: wir.BodyLine) -> wir.BodyLine:
        return rewrite_blocks(line, kept)

    return evolve(program, lines=tuple(map(changed, frees_left_out(program.lines))))


def frees_left_out(given: tuple[wir.BodyLine, ...]) -> list[wir.BodyLine]:
    return [line for line in given if not isinstance(line, wir.FreeLine)]


def without_asserts(program: wir.Program) -> wir.Program:
    kept = [x for x in program.lines if not isinstance(x, wir.AssertScalarLine)]
    return evolve(program, lines=tuple(kept))


def copied_inputs(loaded: Loaded) -> Loaded:
    def run(args: list[Value]) -> tuple[Value, ...]:
        given = [x.clone() if isinstance(x, torch.Tensor) else x for x in args]
        args.clear()
        return loaded(given)

    return run


def copies_written_back(loaded: Loaded) -> Loaded:
    """Work on a copy of each input, and copy it back at the end."""

    def run(args: list[Value]) -> tuple[Value, ...]:
        given = [x.clone() if isinstance(x, torch.Tensor) else x for x in args]
        kept = list(zip(args, given, strict=True))
        args.clear()
        outputs = loaded(given)
        for old, new in kept:
            if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
                old.copy_(new)
        return outputs

    return run


def one_set_of_outputs(loaded: Loaded) -> Loaded:
    """Return the same output tensors from every call."""
    kept: list[Value] = []

    def run(args: list[Value]) -> tuple[Value, ...]:
        made = loaded(args)
        if not kept:
            kept.extend(made)
        for old, new in zip(kept, made, strict=True):
            if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
                old.copy_(new)
        return tuple(kept)

    return run


def one_set_of_inputs(loaded: Loaded) -> Loaded:
    """Keep inputs in memory that all calls share."""
    kept: list[Value] = []

    def run(args: list[Value]) -> tuple[Value, ...]:
        if not kept:
            kept.extend(x.clone() if isinstance(x, torch.Tensor) else x for x in args)
        for old, new in zip(kept, args, strict=True):
            if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
                old.copy_(new)
        args.clear()
        return loaded(list(kept))

    return run


def kept_inputs(loaded: Loaded) -> Loaded:
    """Keep inputs after the call, donated ones too."""
    kept: list[Value] = []

    def run(args: list[Value]) -> tuple[Value, ...]:
        kept.extend(args)
        return loaded(args)

    return run


def full_list(loaded: Loaded) -> Loaded:
    return lambda args: loaded(list(args))


def one_output_less(loaded: Loaded) -> Loaded:
    return lambda args: loaded(args)[:-1]


def freed_twice(loaded: Loaded) -> Loaded:
    """Free memory twice through the C library, as code in C could."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p

    def run(args: list[Value]) -> tuple[Value, ...]:
        address = ctypes.c_void_p(library.malloc(64))
        library.free(address)
        library.free(address)
        return loaded(args)

    return run


def hangs(loaded: Loaded) -> Loaded:
    def run(args: list[Value]) -> tuple[Value, ...]:
        signal.pause()
        return loaded(args)

    return run


def exits(loaded: Loaded) -> Loaded:
    def run(args: list[Value]) -> tuple[Value, ...]:
        os._exit(0)

    return run


class ZeroConstants(WrongCall):
    """Loads no constants: all are zero."""

    name = "wrong"
    wrap = staticmethod(lambda loaded: loaded)
    constants = staticmethod(
        lambda given: {key: torch.zeros_like(value) for key, value in given.items()}
    )


class Unrepeatable(PythonEmitter):
    """Emits other code for the same program each time."""

    name = "wrong"
    count = 0

    def emit(self, program: wir.Program) -> Artifact:
        Unrepeatable.count += 1
        artifact = super().emit(program)
        remark = f"# {self.count}\n{artifact.files[ENTRY]!s}"
        return evolve(artifact, files={**artifact.files, ENTRY: remark})


_COPY_OF_RESULT = r"(?<=^        )\w+ = empty_strided_cpu\(.*\)\.copy_\(\w+\)$"
"""Python that copies what a loop without iterations is given."""

WRONG: Mapping[str, Wrong] = {
    "leak": text(
        r"^    (buf\d+) = (.*empty.*)$",
        r"    \1 = \2; call.__dict__.setdefault('kept', []).append(\1)",
        "leaks",
        "kernel_buffers_cpp",
    ),
    "wrong_offset": lines(each_line(without_offset), "buffers", "kernel_buffers_cpp"),
    "missed_zeroing": lines(each_line(not_zeroed), "workspaces", "kernel_workspaces_cpp"),
    "swapped_arguments": lines(
        each_line(swapped_arguments), "conditionals", "kernel_conditional_cpp"
    ),
    "stale_view": text(
        r"^    (view\d+) = (.*)$", r"    \1 = (\2).clone()", "buffers", "kernel_buffers_cpp"
    ),
    "wrong_stream_order": lines(late_side_stream, "streams", "kernel_streams_cpp"),
    "wrong_rounding": lines(rounded_to_zero, "symbols", "kernel_symbols_cpp"),
    "output_not_copied": call(one_set_of_outputs, "buffers", "kernel_buffers_cpp"),
    "double_free": call(freed_twice, "buffers", "kernel_buffers_cpp"),
    "ignored_donation": call(kept_inputs, "leaks", "kernel_donated_cpp"),
    "ignored_mutation": call(copied_inputs, "inputs and constants", "kernel_mutation_cpp"),
    "wrong_branch": lines(
        each_line(other_branch), "conditionals", "kernel_conditional_cpp"
    ),
    "loop_off_by_one": lines(each_line(one_more_iteration), "loops", "kernel_loop_cpp"),
    **{
        f"kept_to_the_end_in_{case}": lines(kept_to_the_end, "peak memory", case)
        for case in ("peak_buffers", "peak_views", "peak_pools", "peak_conditional")
    },
    "kept_iterations": text(
        r"^        del (buf\d+, buf\d+)$",
        r"        kept = [*locals().get('kept', ()), \1]",
        "peak memory",
        "peak_loop",
    ),
    "results_of_a_loop_share_memory": text(
        _COPY_OF_RESULT, "pass", "loops", "kernel_loop_results_cpp"
    ),
    "results_of_a_loop_share_memory_of_a_device": hosted_text(
        _COPY_OF_RESULT, "pass", "loops", "kernel_loop_results_cpp"
    ),
    "copies_of_one_tensor": Wrong(
        hosted_emitter(shared_apart=frozenset()),
        "inputs and constants",
        "shared_inputs",
        device=HOSTED,
    ),
    "copies_of_one_tensor_on_the_host": call(
        copies_written_back, "inputs and constants", "shared_inputs"
    ),
    "ignored_offset": text(
        r"= \w+\.storage_offset\(\)", "= 1", "symbols", "kernel_offsets_cpp"
    ),
    "offset_in_the_storage_of_the_caller": text(
        r"^    s1 = 3$", "    s1 = arg1.storage_offset()", "symbols", "kernel_offsets_cpp"
    ),
    "size_of_the_wrong_input": lines(
        size_of_the_first_input, "symbols", "kernel_symbols_cpp"
    ),
    "unchecked_dtype": text(
        r"check_tensor\((\w+), ('\S+'), float32",
        r"check_tensor(\1, \2, \1.dtype",
        "wrong inputs",
        "kernel_mutation_cpp",
    ),
    "unchecked_size_and_stride": text(
        r"^    .*check_layout\(.*$", "    pass", "wrong inputs", "kernel_mutation_cpp"
    ),
    "constant_not_loaded": Wrong(
        ZeroConstants(), "inputs and constants", "kernel_mutation_cpp"
    ),
    "reused_live_memory": lines(reused_live_memory, "streams", "kernel_streams_cpp"),
    "missing_output": call(one_output_less, "outputs", "kernel_outputs_cpp"),
    "wrong_dtype_of_a_literal": lines(whole_literals, "kernels", "kernel_numbers_cpp"),
    "overlapping_placements": lines(
        each_line(placed_at_the_start), "pools", "kernel_pools_cpp"
    ),
    "ignored_assert": lines(without_asserts, "asserts", "kernel_false_condition_cpp"),
    "list_not_emptied": call(full_list, "buffers", "kernel_buffers_cpp"),
    "one_memory_for_all_threads": call(one_set_of_inputs, "calls at once", "threads"),
    "code_differs_each_time": Wrong(Unrepeatable(), "buffers", "kernel_buffers_cpp"),
    "hang": evolve(call(hangs, "buffers", "kernel_buffers_cpp"), seconds=4),
    "exit": call(exits, "buffers", "kernel_buffers_cpp"),
}
