"""Arrays of ``f16`` lanes, which vector instructions convert before and after a loop.

GCC has no such instructions for conversions inside of a loop::

    alignas(64) f32 h0[64], h1[64];
    read_f16(h0, &p0[base], n);
    #pragma omp simd
    for (i64 l = 0; l < n; ++l) { f32 v1 = exp(h0[l]); h1[l] = v1; }
    write_f16(&p1[base], h1, n);

The arrays are as long as a strip of lanes, so that the compiler keeps them in registers.
"""

from collections.abc import Collection, Iterator, Sequence

from attrs import frozen

from wrapperir.ir import DType
from wrapperir.lowering.cpp.body import CppWriter
from wrapperir.lowering.loops import Apply, Instruction, Load, Store, StoreMode
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.substitution import names_used


@frozen(kw_only=True)
class Strip:
    """Lanes ``l < n`` of an axis, ``width`` at most, from the position ``base`` on.

    ``kept`` are values that are used after the loop over them.
    """

    axis: str
    width: int
    base: str = "base"
    kept: Collection[str] = ()


class HalfArrays:
    """Arrays in place of the contiguous ``f16`` loads and stores of a loop over a strip.

    What is loaded is only cast to ``f32``; what is stored is cast from it, and only stored.
    """

    def __init__(
        self,
        writer: CppWriter,
        steps: Sequence[Instruction],
        varying: frozenset[str],
        strip: Strip,
    ) -> None:
        """Find the loads and stores."""
        self._writer, self._strip = writer, strip
        self._loads: dict[str, Load] = {}
        self._stores: dict[str, Store] = {}
        self._sources: dict[str, str] = {}
        users: dict[str, list[Instruction]] = {}
        dtypes = dict(writer.dtypes)
        for step in steps:
            for name in names_used(step):
                users.setdefault(name, []).append(step)
            if isinstance(step, Load | Apply):
                dtypes[step.result] = step.dtype
            if isinstance(step, Apply) and step.op is ScalarOp.CAST:
                self._sources[step.result] = step.operands[0]
        fixed = {*strip.kept, *writer.rows.read, *writer.rows.stored}
        for step in _movable(steps):
            value = step.result if isinstance(step, Load) else step.value
            is_half = dtypes.get(value) is DType.F16 and value not in fixed
            if not is_half or not self._is_contiguous(step, varying):
                continue
            uses = users.get(value, [])
            if isinstance(step, Load):
                if uses and all(map(_is_cast_to_f32, uses)):
                    self._loads[value] = step
            elif uses == [step] and dtypes.get(self._sources.get(value, "")) is DType.F32:
                self._stores[value] = step
        self._arrays = dict.fromkeys((*self._loads, *self._stores), "")

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._arrays)

    def _is_contiguous(self, step: Load | Store, varying: frozenset[str]) -> bool:
        if isinstance(step, Load) and step.result in self._writer.elements:
            return True
        stride = self._writer.lanes.stride(step, self._strip.axis, varying)
        return stride == 1 and step.mask is None

    def write_before(self) -> None:
        """Write the arrays, and read what is loaded."""
        for name in self._arrays:
            self._arrays[name] = self._writer.add_array(DType.F32, self._strip.width)
        for name, load in self._loads.items():
            self._write_call(
                load, f"read_f16({self._arrays[name]}, {self._place(load)}, n);"
            )

    def write_after(self) -> None:
        """Write what is stored."""
        for name, store in self._stores.items():
            place = self._place(store)
            self._write_call(store, f"write_f16({place}, {self._arrays[name]}, n);")

    def write(self, step: Instruction) -> bool:
        """Write a step of the loop, and return whether it is one that arrays stand for."""
        if isinstance(step, Load):
            return step.result in self._loads
        if isinstance(step, Store):
            if step.value not in self._stores:
                return False
            value = self._writer.names[self._sources[step.value]]
            self._write_call(step, f"{self._arrays[step.value]}[l] = {value};")
            return True
        if not isinstance(step, Apply) or step.result not in self._sources:
            return False
        source = self._sources[step.result]
        if source in self._loads:
            with self._writer.source.computing(step.origins):
                self._writer.define(step.result, step.dtype, f"{self._arrays[source]}[l]")
            return True
        return step.result in self._stores

    def _write_call(self, step: Load | Store, text: str) -> None:
        with self._writer.source.computing(step.origins):
            self._writer.source.write(text)

    def _place(self, step: Load | Store) -> str:
        """Return the address of the first lane's element."""
        if isinstance(step, Load) and step.result in self._writer.elements:
            return f"&{self._writer.elements[step.result].replace('[l]', '[0]')}"
        names = self._writer.indices.names
        axis = names[self._strip.axis]
        names[self._strip.axis] = self._strip.base
        place = self._writer.place(step)
        names[self._strip.axis] = axis
        return place


def _is_cast_to_f32(step: Instruction) -> bool:
    return isinstance(step, Apply) and step.op is ScalarOp.CAST and step.dtype is DType.F32


def _movable(steps: Sequence[Instruction]) -> Iterator[Load | Store]:
    """Yield the loads that may be before a loop over lanes, and the stores after it.

    A buffer with a store has no other store, and no load after it.
    """
    accesses: dict[str, list[Load | Store]] = {}
    for step in steps:
        if isinstance(step, Load | Store):
            accesses.setdefault(step.buffer, []).append(step)
    for same in accesses.values():
        if any(isinstance(step, Store) for step in same[:-1]):
            continue
        for step in same:
            if isinstance(step, Load) or step.mode is StoreMode.OVERWRITE:
                yield step
