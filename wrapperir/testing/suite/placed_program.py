"""A program that a user gives, beside what it is on the CPU."""

from collections.abc import Sequence

from wrapperir import ir as wir
from wrapperir.emit import Emitter
from wrapperir.emit.context import ProgramFacts
from wrapperir.ir.renaming import replace_devices
from wrapperir.testing.suite.devices import Placing, absence_of, placings
from wrapperir.testing.suite.own_kernels import OF_THE_KIT, own_kernels


def placed_program(
    emitter: Emitter, program: wir.Program, device: str | None
) -> tuple[wir.Program, Placing] | str:
    """Return a program on the CPU, and the way to run it; or why there is none.

    Without a ``device``, or with its own, the program runs as it is.
    """
    kinds = _device_kinds(program) - {"cpu"}
    ways = placings(emitter)
    if not kinds:
        way = Placing("cpu") if device in (None, "cpu") else ways[device]
        return way if isinstance(way, str) else (program, way)
    kind = next(iter(kinds))
    if len(kinds) > 1 or device not in (None, kind):
        return f"the program is for {' and '.join(sorted(kinds))}"
    way = ways.get(kind, f"not declared: device {kind}")
    if isinstance(way, str):
        return way
    languages = {x.language for x in _called_kernels(program)} - OF_THE_KIT
    if languages:
        names = ", ".join(sorted(x.value for x in languages))
        return f"the interpreter runs no kernels in {names} to compare with"
    given: list[wir.Input | wir.ConstantInput] = [*program.inputs, *program.constants]
    types = [item.type for item in given]
    there = kind in [x.device.kind for x in types if isinstance(x, wir.TensorType)]
    if there and kind not in emitter.support.hosted:
        absence = absence_of(kind)
        if absence is not None:
            return f"{absence} for inputs"
    own = own_kernels(emitter, kind)
    placed = program if own is None else own.write(program)
    on_cpu = replace_devices(program, lambda each: wir.CPU)
    return on_cpu, Placing(kind, lambda _: placed, is_own=own is not None)


def _device_kinds(program: wir.Program) -> frozenset[str]:
    kinds: set[str] = set()

    def note(device: wir.Device) -> wir.Device:
        kinds.add(device.kind)
        return device

    replace_devices(program, note)
    return frozenset(kinds)


def _called_kernels(program: wir.Program) -> Sequence[wir.KernelDefinitionLine]:
    facts = ProgramFacts(program)
    lines = facts.definitions.values()
    kernels = [line for line in lines if isinstance(line, wir.KernelDefinitionLine)]
    return [line for line in kernels if line.name in facts.kernel_devices]
