"""Formatting of kernel definitions as lines at the left margin."""

from wrapperir.ir import KernelDefinitionLine, MultiKernelLine
from wrapperir.text.literals import format_string
from wrapperir.text.part_printer import PartPrinter
from wrapperir.text.selections import (
    ParameterNames,
    format_choice,
    format_selection,
    format_size,
)


def format_kernel_definition(line: KernelDefinitionLine, part: PartPrinter) -> list[str]:
    """Return the lines of a kernel definition.

    Raises:
        Malformed: no text can spell this definition.
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
        Malformed: no text can spell this definition.
    """
    shown = ", ".join([part.parameter(p) for p in line.parameters])
    origin = part.origin(line.provenance)
    out = [f"multi_kernel @{part.name(line.name)}({shown}){origin} {{"]
    parameters = ParameterNames(line.parameters)
    for size in line.sizes:
        out.append(f"  size {format_size(size, parameters, part)}")
    for choice in line.choices:
        out.append(f"  choice {format_choice(choice, parameters, part)}")
    return [*out, f"  select {format_selection(line.selection, part)}", "}"]
