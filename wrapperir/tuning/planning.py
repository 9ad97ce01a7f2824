"""The plan of tuning: the multi-kernels to time, their calls and the values of symbols."""

from collections.abc import Collection, Mapping, Sequence

import torch
from attrs import evolve, frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import Severity
from wrapperir.emit import Emitter, check_support
from wrapperir.emit.torch_dtypes import torch_device
from wrapperir.passes import split_configs_but
from wrapperir.tuning.calls import Call, call_program, calls_of, values_at, with_sizes
from wrapperir.tuning.shapes import NotTunableError, Sampling, Values, samples_of

MOST_CALLS = 16
"""The maximum number of different calls of a multi-kernel that are timed."""

_LEAST_SAMPLES = 4

_STATIC = 4
"""The factor by which static tensors may be larger, since smaller ones are of no use."""


@frozen
class PlannedCall:
    """A call, the programs of its choices, and the values of symbols to time it at."""

    call: Call
    programs: tuple[wir.Program, ...]
    samples: tuple[Values, ...]


@frozen
class PlannedKernel:
    """A multi-kernel and its calls to time; ``reason`` says why there are none, or fewer.

    ``line`` has names for all sizes that distinguish its calls.
    """

    line: wir.MultiKernelLine
    kernels: tuple[wir.KernelDefinitionLine, ...]
    calls: tuple[PlannedCall, ...]
    reason: str


@frozen
class Rules:
    """Rules for what may be timed.

    ``interpreted`` allows Triton kernels on the CPU, where Triton interprets them.
    """

    emitter: Emitter
    sampling: Sampling
    interpreted: bool


def plan_kernels(
    program: wir.Program, rules: Rules, names: Collection[str] | None
) -> tuple[PlannedKernel, ...]:
    """Return the plan of each multi-kernel of a program, in order.

    Multi-kernels whose policy is ``first`` or ``forced`` have no calls to time.  If
    ``names`` is given, only multi-kernels with these names are returned.
    """
    kernels = {line.name: line for line in program.definitions}
    calls = calls_of(program)
    return tuple(
        _plan(program, line, kernels, calls.get(line.name, ()), rules)
        for line in program.definitions
        if isinstance(line, wir.MultiKernelLine) and (names is None or line.name in names)
    )


@frozen
class TuningPlan:
    """The kernels to time, of a program whose kernels are split except ``whole``."""

    kernels: tuple[PlannedKernel, ...]
    whole: frozenset[str]

    @classmethod
    def of(
        cls, program: wir.Program, rules: Rules, names: Collection[str] | None
    ) -> "TuningPlan":
        """Plan the kernels; a kernel stays whole unless it is split for timing."""
        after = split_configs_but(program, ())
        planned = plan_kernels(after, rules, names)
        timed = {kernel.line.name for kernel in planned if kernel.calls}
        whole = kept_whole(program, after, timed)
        if not whole:
            return cls(planned, whole)
        again = {
            kernel.line.name: kernel
            for kernel in plan_kernels(split_configs_but(program, whole), rules, names)
        }
        # kernels that are whole now stay in the report, which says why
        return cls(tuple(again.get(k.line.name, k) for k in planned), whole)


def _origins(program: wir.Program, after: wir.Program) -> Mapping[str, frozenset[str]]:
    """Return, for each multi-kernel, the kernels whose configs are its choices, by name.

    ``after`` is the result of :func:`split_configs_but` for the program.
    """
    kernels: dict[wir.KernelDefinitionLine, set[str]] = {}
    for line in program.definitions:
        if isinstance(line, wir.KernelDefinitionLine) and len(line.configs) > 1:
            kernels.setdefault(_bare(line), set()).add(line.name)
    known = {line.name for line in program.definitions}
    made = {
        line.name: kernels.get(_bare(line), set[str]())
        for line in after.definitions
        if isinstance(line, wir.KernelDefinitionLine) and line.name not in known
    }
    return {
        line.name: frozenset(
            name for choice in line.choices for name in made.get(choice.kernel, ())
        )
        for line in after.definitions
        if isinstance(line, wir.MultiKernelLine)
    }


def kept_whole(
    program: wir.Program, after: wir.Program, tuned: Collection[str]
) -> frozenset[str]:
    """Return the kernels that were split only for multi-kernels that are not tuned."""
    needed: set[str] = set()
    left: set[str] = set()
    for name, kernels in _origins(program, after).items():
        (needed if name in tuned else left).update(kernels)
    return frozenset(left - needed)


def _bare(line: wir.KernelDefinitionLine) -> wir.KernelDefinitionLine:
    return evolve(line, name="", configs=())


def _plan(
    program: wir.Program,
    line: wir.MultiKernelLine,
    definitions: Mapping[str, wir.DefinitionLine],
    calls: Sequence[Call],
    rules: Rules,
) -> PlannedKernel:
    kernels = tuple(_kernel(definitions, choice.kernel) for choice in line.choices)
    settled = _settled(line)
    if settled is not None:
        return PlannedKernel(line, kernels, (), settled)
    planned: list[PlannedCall] = []
    reasons = [] if calls else ["nothing calls it"]
    timed = calls[:MOST_CALLS]
    varying = sum(bool(call.symbols) for call in timed)
    for call in timed:
        try:
            _check_device(call, kernels, rules)
            programs = tuple(
                call_program(program, call, at) for at in range(len(line.choices))
            )
            _check_support(programs, rules.emitter)
            sampling = _sampling(call, rules.sampling, varying)
            samples = _whole(line, call, samples_of(call, sampling))
        except NotTunableError as error:
            reasons.append(str(error))
        else:
            planned.append(PlannedCall(call, programs, samples))
    if len(calls) > MOST_CALLS:
        reasons.append(f"{MOST_CALLS} of its {len(calls)} different calls are timed")
    named = with_sizes(line, calls) if calls else line
    return PlannedKernel(named, kernels, tuple(planned), "; ".join(dict.fromkeys(reasons)))


def _settled(line: wir.MultiKernelLine) -> str | None:
    """Return why a multi-kernel's policy needs no timing, or ``None`` if it needs it."""
    if isinstance(line.selection, wir.FirstChoice):
        policy = "first"
    elif isinstance(line.selection, wir.ForcedChoice):
        policy = f"forced({line.selection.index})"
    else:
        return None
    return f"its policy is `{policy}`; write `select benchmark` to have it timed"


def _sampling(call: Call, sampling: Sampling, varying: int) -> Sampling:
    """Return the sampling for a call, one of ``varying`` calls that have symbols."""
    if not call.symbols:
        return evolve(sampling, largest_bytes=_STATIC * sampling.largest_bytes)
    least = min(_LEAST_SAMPLES, sampling.count)
    return evolve(sampling, count=max(sampling.count // varying, least))


def _whole(
    line: wir.MultiKernelLine, call: Call, samples: Sequence[Values]
) -> tuple[Values, ...]:
    """Return the samples at which all arguments have values, integers for integer types."""
    kept: list[Values] = []
    problem = ""
    for values in samples:
        try:
            values_at(line, call, values)
            for argument in call.arguments:
                if not isinstance(argument, wir.TensorType):
                    wir.evaluate(argument, values)
        except wir.EvaluationError as error:
            problem = str(error)
        else:
            kept.append(values)
    if not kept:
        raise NotTunableError(f"an argument has no value: {problem}")
    return tuple(kept)


def _kernel(
    definitions: Mapping[str, wir.DefinitionLine], name: str
) -> wir.KernelDefinitionLine:
    kernel = definitions[name]
    assert isinstance(kernel, wir.KernelDefinitionLine)
    return kernel


def _check_device(
    call: Call, kernels: Sequence[wir.KernelDefinitionLine], rules: Rules
) -> None:
    missing = _missing_device(call.device)
    if missing is not None:
        raise NotTunableError(missing)
    is_interpreted = call.device.kind == "cpu" and any(
        kernel.language is wir.Language.TRITON for kernel in kernels
    )
    if is_interpreted and not rules.interpreted:
        raise NotTunableError(
            "Triton kernels on the CPU are interpreted, and the times of that say nothing"
        )


def _missing_device(device: wir.Device) -> str | None:
    """Return why kernels cannot be timed on a device; ``None`` where they can."""
    if device.kind == "cpu":
        return None
    try:
        module = torch.get_device_module(torch_device(device))
        count = int(module.device_count()) if module.is_available() else 0
    except (RuntimeError, ValueError, AttributeError):
        return f"PyTorch has no device {device} here"
    wanted = device.index or 0
    return None if wanted < count else f"there is no device {device} here"


def _check_support(programs: Sequence[wir.Program], emitter: Emitter) -> None:
    """Refuse a call if the emitter supports none of its choices."""
    reason = ""
    for program in programs:
        found = check_support(program, emitter.name, emitter.support)
        errors = [d.message for d in found if d.severity is Severity.ERROR]
        if not errors:
            return
        reason = errors[0]
    raise NotTunableError(reason)
