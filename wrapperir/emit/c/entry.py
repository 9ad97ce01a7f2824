"""The beginning and the end of a program's function: inputs, constants and outputs."""

from wrapperir import ir as wir
from wrapperir.emit.c.context import CContext
from wrapperir.emit.c.expressions import format_int, format_string
from wrapperir.emit.c.symbols import converted, emit_symbol, format_source, item_type
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.source_text import Fragment, fragment


class ProgramBorders:
    """Emits checks of what the caller gave, and copies between the host and the device.

    Constants follow the inputs in the caller's array.
    """

    def __init__(self, context: CContext) -> None:
        """Emit the borders of the program of ``context``."""
        self._context = context
        self._program = context.facts.program
        inputs: list[wir.Input | wir.ConstantInput] = [*self._program.inputs]
        inputs += self._program.constants
        self._given = {each.name: n for n, each in enumerate(inputs)}
        self._tensors = [
            (each, each.type) for each in inputs if isinstance(each.type, wir.TensorType)
        ]
        self._mutated: list[tuple[Fragment, wir.TensorType, Fragment]] = []

    def emit_inputs(self) -> None:
        """Append numbers, symbols, checks of tensors, and their copies to the device."""
        context = self._context
        for index, number in enumerate(self._program.inputs):
            context.at(("inputs",), index)
            if isinstance(number.type, wir.ScalarType):
                name = context.declare(number.name, number.type)
                is_real = kind_of(number.type.dtype) is wir.SymbolKind.FLOAT
                member = fragment("real") if is_real else fragment("whole")
                given = self._value(number.name)
                context.writer.emit_line("{} = {}.{};", name, given, member)
            elif isinstance(number.type, wir.TensorType):
                context.check_memory(number.type)
        for index, line in enumerate(self._program.symbols):
            context.at(("symbols",), index)
            emit_symbol(context, line, self._source(line))
        for item, type in self._tensors:
            given, name = self._value(item.name), format_string(f"%{item.name}")
            layout = (
                context.format_layout(type),
                context.expressions.format_index(type.offset),
            )
            context.emit_step("wir_check_input(r, &{}, {}, {}, {})", given, name, *layout)
        self._emit_overlaps()
        for item, type in self._tensors:
            self._emit_taken(item, type)

    def _value(self, name: str) -> Fragment:
        return fragment("inputs[{}]", Fragment(str(self._given[name])))

    def _source(self, line: wir.SymbolDefinitionLine) -> Fragment:
        """Return the value of a symbol, by what the caller gave."""
        match line.source:
            case wir.SizeOf(name, dim):
                return fragment("{}.size[{}]", self._value(name), Fragment(str(dim)))
            case wir.StrideOf(name, dim):
                return fragment("{}.stride[{}]", self._value(name), Fragment(str(dim)))
            case wir.OffsetOf(name) if line.symbol in self._context.facts.measured_offsets:
                return fragment("{}.offset", self._value(name))
            case wir.ItemOf(name):
                return self._item(name, line.kind)
            case _:
                return format_source(self._context, line)

    def _item(self, name: str, kind: wir.SymbolKind) -> Fragment:
        """Append the read of an input's one element, which may have no memory."""
        context, type = self._context, self._context.facts.tensor_type(name)
        spelled = item_type(type.dtype)
        if spelled is None:
            context.report(f"the host cannot read a {type.dtype.value}", name)
            return fragment("0")
        item, given = context.names.claim(f"{name}_item"), self._value(name)
        rank, ones = (
            Fragment(str(len(type.size))),
            context.format_array([1] * len(type.size)),
        )
        context.writer.emit_line("{} {} = 0;", spelled, item)
        parts = (given, format_string(f"%{name}"), rank, ones, given)
        context.emit_step("wir_check_input(r, &{}, {}, {}, {}, {}.stride, 0)", *parts)
        context.writer.emit_line("memcpy(&{}, {}.data, sizeof {});", item, given, item)
        return converted(item, type.dtype, kind)

    def _emit_overlaps(self) -> None:
        """Append checks that no copy is of memory that is written under another name."""
        context = self._context
        for item, type in self._tensors:
            if not item.mutated:
                continue
            for other, other_type in self._tensors:
                is_compared = (
                    other.mutated and self._given[other.name] <= self._given[item.name]
                )
                is_copied = context.is_copied(type) or context.is_copied(other_type)
                if other is item or is_compared or not is_copied:
                    continue
                shared = f"shares memory with %{other.name}"
                said = f"WIR801: %{item.name} is written and {shared}"
                context.emit_step(
                    "wir_disjoint(r, {}, &{}, {}, &{}, {})",
                    *(format_string(said), self._value(item.name)),
                    *(context.format_span(type), self._value(other.name)),
                    context.format_span(other_type),
                )

    def _emit_taken(
        self, item: wir.Input | wir.ConstantInput, type: wir.TensorType
    ) -> None:
        context = self._context
        is_copied = context.is_copied(type)
        is_donated = is_copied and isinstance(item, wir.Input) and item.donated
        source = format_int(-1 if is_donated else self._given[item.name])
        name = context.declare(item.name, type)
        given, offset = self._value(item.name), context.format_offset(type)
        span = context.format_span(type)
        parts = (name, format_int(is_copied), given, source, offset, span)
        context.emit_step("wir_take(r, &{}, {}, &{}, {}, {}, {})", *parts)
        if item.mutated and is_copied:
            kept = context.names.claim(f"{item.name}_given")
            context.writer.emit_line("wir_tensor {} = wir_none();", kept)
            context.emit_step("wir_share(r, &{}, {})", kept, name)
            self._mutated.append((kept, type, given))

    def emit_outputs(self) -> None:
        """Append copies of outputs and of what was mutated to the host."""
        context, program = self._context, self._program
        context.emit_step("wir_driver_wait(r)")
        for index, output in enumerate(program.outputs):
            context.at(("outputs",), index)
            target = fragment("outputs[{}]", Fragment(str(index)))
            if isinstance(output, wir.BufferRef):
                type = context.facts.types[output.name]
                value = context.values[output.name]
                if isinstance(type, wir.TensorType):
                    layout = context.format_layout(type)
                    context.emit_step("wir_output(r, &{}, &{}, {})", target, value, layout)
                elif isinstance(type, wir.ScalarType):
                    self._emit_number(target, kind_of(type.dtype), value)
                else:
                    context.report(f"%{output.name} is neither a tensor nor a number")
            elif isinstance(output, int | float | wir.Symbol | wir.Operation):
                kind = kind_of(context.facts.kinds.dtype(output))
                if context.facts.kinds.kind(output) is None:
                    context.report("an output is a number of several kinds")
                value = context.expressions.format_number(output, kind)
                self._emit_number(target, kind, value)
            elif output is not None:
                context.report("an output is neither a tensor nor a number")
        context.emit_step('wir_check(r, 1, "")')
        for kept, type, given in self._mutated:
            parts = (given, kept, kept, context.format_span(type))
            context.emit_step("wir_read(r, {}.data, {}.memory, {}.first, {})", *parts)

    def _emit_number(self, target: Fragment, kind: wir.SymbolKind, value: Fragment) -> None:
        member = "real" if kind is wir.SymbolKind.FLOAT else "whole"
        self._context.writer.emit_line("{}.{} = {};", target, Fragment(member), value)
