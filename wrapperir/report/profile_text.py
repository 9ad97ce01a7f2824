"""Writes a profile as text: where the time goes, and the slowest lines and kernels."""

from collections.abc import Iterator, Sequence

from wrapperir.report.equal_lines import join_modules
from wrapperir.report.explanation_text import listed
from wrapperir.report.profile import KernelProfile, MemoryPeak, Profile
from wrapperir.report.text import counted, format_bytes, shortened, visible

_MOST = 15
"""Lines, and kernels, that the text shows."""

_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3))


def format_profile(profile: Profile) -> str:
    """Return a profile as lines of text; control characters are shown escaped."""
    return "".join(f"{visible(line)}\n" for line in _rows(profile))


def _rows(profile: Profile) -> Iterator[str]:
    calls = counted(profile.repeats, "call")
    yield f"profile of @{profile.program} with {profile.emitter}, medians of {calls}"
    for name, value in profile.symbols:
        yield f"with {name} = {value}"
    yield ""
    for name, text in _summary(profile):
        yield f"  {name:<12} {text}"
    shown = _slowest(profile)
    if shown:
        yield ""
        yield from _line_table(profile, shown)
    kernels = profile.kernels
    if len(kernels) > 1:
        yield ""
        yield from _kernel_table(profile, kernels)
    if any(each.moved_bytes and not each.touched for each in (*shown, *kernels[:_MOST])):
        yield ""
        yield "* bytes of whole values: how much of them is touched is not known"


def _summary(profile: Profile) -> Iterator[tuple[str, str]]:
    yield "a call", format_ns(profile.unprofiled_ns)
    longer = "" if profile.overhead is None else f" ({profile.overhead:+.0%})"
    marks = counted(profile.marks, "mark")
    yield "with marks", f"{format_ns(profile.profiled_ns)}{longer}, for {marks}"
    if profile.opened_regions:
        yield "", "graph regions are replayed in a call, and opened with marks"
    launching = sum(line.launches for line in profile.lines)
    lines = counted(launching, "line")
    yield "work", f"{format_ns(profile.work_ns)}, of {lines} with kernels and operators"
    yield "gaps", f"{format_ns(profile.gaps_ns)}, in which a device waits for these lines"
    around = f"{format_ns(profile.entry_ns)} and {format_ns(profile.return_ns)}"
    yield "host", f"{around} before the first line and after the last one"
    yield "memory", _memory(profile)


def _memory(profile: Profile) -> str:
    peaks = [each for each in profile.peaks if each.bytes]
    if len(peaks) > 1:
        text = "; ".join(
            f"{each.memory} {format_bytes(each.bytes)}{_at(each)}" for each in peaks
        )
    else:
        text = f"{format_bytes(profile.peak_bytes)} at most, of the program's own"
        text += _at(peaks[0], ", ") if peaks else ""
    if profile.allocator_peak_bytes is not None:
        text += f"; {format_bytes(profile.allocator_peak_bytes)} of the GPU's allocator"
    return text


def _at(peak: MemoryPeak, before: str = " ") -> str:
    return "" if peak.number is None else f"{before}at line {peak.number}"


def _slowest(profile: Profile) -> list[KernelProfile]:
    """Return the slowest equal lines; where a GPU works, those that give it work."""
    on_gpu = any(line.device_ns is not None for line in profile.lines)
    equal = profile.equal_lines
    return [x for x in equal if x.ns and (x.launches or not on_gpu)][:_MOST]


def _line_table(profile: Profile, shown: Sequence[KernelProfile]) -> Iterator[str]:
    yield "the slowest lines:"
    rows = [("time", "share", "gap before", "moved", "GB/s", "line")]
    for equal in shown:
        gap = "" if equal.gap_ns is None else format_ns(equal.gap_ns)
        number = equal.lines[0].number
        figures = (
            *(_time(equal), _share(equal.ns, profile), gap),
            *(_moved(equal), _rate(equal.bandwidth)),
        )
        text = shortened(equal.name) + _times(equal)
        rows.append((*figures, text if number is None else f"{number}: {text}"))
    origins = ["", *map(_origin, shown)]
    for row, origin in zip(_aligned(rows), origins, strict=True):
        yield row
        if origin:
            yield f"      from {origin}"
    launching = sum(len(each.lines) for each in shown if each.launches)
    hidden = sum(line.launches for line in profile.lines) - launching
    if hidden > 0:
        yield f"  and {counted(hidden, 'line')} more with kernels and operators"


def _kernel_table(profile: Profile, kernels: Sequence[KernelProfile]) -> Iterator[str]:
    yield "kernels and operators:"
    rows = [("time", "share", "calls", "moved", "GB/s", "name")]
    for kernel in kernels[:_MOST]:
        rows.append(
            (
                *(_time(kernel), _share(kernel.ns, profile), str(kernel.calls)),
                *(_moved(kernel), _rate(kernel.bandwidth), kernel.name),
            )
        )
    yield from _aligned(rows)
    if len(kernels) > _MOST:
        yield f"  and {len(kernels) - _MOST} more"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows with all columns but the last to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for *figures, last in rows:
        padded = (f"{x:>{w}}" for x, w in zip(figures, widths, strict=False))
        yield f"  {'  '.join(padded)}  {last}".rstrip()


def _times(equal: KernelProfile) -> str:
    """Return how often equal lines run, and in which layers."""
    if equal.calls < 2:
        return ""
    modules = (path for line in equal.lines for path in line.modules)
    where = join_modules(modules) if len(equal.lines) > 1 else ""
    return f" ({equal.calls} times, in {where})" if where else f" ({equal.calls} times)"


def _origin(equal: KernelProfile) -> str:
    line, *others = equal.lines
    nodes = listed(line.nodes)
    if line.source is not None:
        nodes = f"{line.source} ({nodes})" if nodes else line.source
    numbers = listed(tuple(f"{each.number}" for each in others))
    return f"{nodes}; also lines {numbers}" if nodes and numbers else nodes


def _time(timed: KernelProfile) -> str:
    """Return a time, or what it is shorter than, where no more is known."""
    if timed.ns < timed.resolution_ns:
        return f"<{format_ns(timed.resolution_ns)}"
    return format_ns(timed.ns)


def _share(ns: int, profile: Profile) -> str:
    whole = profile.work_ns + profile.gaps_ns
    return f"{ns / whole:.0%}" if whole else ""


def _moved(moving: KernelProfile) -> str:
    bytes = moving.moved_bytes
    return "" if not bytes else format_bytes(bytes) + ("" if moving.touched else "*")


def _rate(bandwidth: float | None) -> str:
    if bandwidth is None:
        return ""
    value = bandwidth / 1e9
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def format_ns(ns: int) -> str:
    """Return a time in the largest unit that leaves at least one: ``12.3 µs``."""
    for unit, size in _UNITS:
        if abs(ns) >= size:
            value = ns / size
            digits = 2 if value < 10 else 1 if value < 100 else 0
            return f"{value:.{digits}f} {unit}"
    return f"{ns} ns"
