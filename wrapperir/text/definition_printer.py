"""Prints kernel definitions: each as its lines, at the left margin."""

from wrapperir.ir.line import KernelDefinitionLine, MultiKernelLine
from wrapperir.ir.selection import FirstChoice
from wrapperir.text.literals import format_integer, format_string
from wrapperir.text.part_printer import PartPrinter


def format_kernel_definition(line: KernelDefinitionLine, part: PartPrinter) -> list[str]:
    """Return the lines of a kernel definition.

    Raises:
        Malformed: no text reads as this definition.
    """
    parameters = ", ".join([part.parameter(p) for p in line.parameters])
    out = [
        f"kernel_definition @{part.name(line.name)} {line.language.value}"
        f"({parameters}){part.origin(line.provenance)} {{"
    ]
    if line.grid:
        out.append(f"  grid = ({part.expressions(line.grid)})")
    for name, value in line.constants:
        out.append(f"  constant {part.name(name)} = {part.constant(value)}")
    for config in line.configs:
        values = [f"{part.name(n)} = {part.constant(v)}" for n, v in config.values]
        out.append(f"  config {', '.join(values)}".rstrip(" "))
    out.append(f"  entry = {part.name(line.entry)}")
    for key, value in line.metadata:
        out.append(f"  metadata {format_string(key)} = {part.constant(value)}")
    out.append("  source {")
    out += [f"    | {text}" if text else "    |" for text in line.source.split("\n")]
    return [*out, "  }", "}"]


def format_multi_kernel(line: MultiKernelLine, part: PartPrinter) -> list[str]:
    """Return the lines of a multi-kernel.

    Raises:
        Malformed: no text reads as this definition.
    """
    parameters = ", ".join([part.parameter(p) for p in line.parameters])
    origin = part.origin(line.provenance)
    out = [f"multi_kernel @{part.name(line.name)}({parameters}){origin} {{"]
    for choice in line.choices:
        positions = ", ".join([format_integer(a) for a in choice.arguments])
        out.append(f"  choice @{part.name(choice.kernel)}({positions})")
    selection = line.selection
    if isinstance(selection, FirstChoice):
        out.append("  select first")
    else:
        out.append(f"  select forced({format_integer(selection.index)})")
    return [*out, "}"]
