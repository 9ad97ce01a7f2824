"""Reports made by hand, to render."""

from wrapperir.report.timeline import (
    BufferKind,
    MemoryReport,
    MemoryTimeline,
    ProgramTimeline,
    SymbolValue,
    TimelineBuffer,
    TimelineLine,
    TimelinePool,
)

HOSTILE = "</script><img src=x onerror=alert(1)><!-- & \" ' \x07 \u202e {{ 7 * 7 }}"
"""Text that must reach no reader as anything but text."""


def line(number: int, text: str, depth: int = 0) -> TimelineLine:
    return TimelineLine(number=number, text=text, depth=depth)


def buffer(
    name: str,
    size: int,
    begin: int,
    end: int,
    *,
    address: int = 0,
    kind: BufferKind = BufferKind.ALLOCATED,
    pool: str | None = None,
    provenance: str = "",
) -> TimelineBuffer:
    return TimelineBuffer(
        name=name,
        kind=kind,
        type=f"f32[{size // 4}]",
        size=size,
        begin=begin,
        end=end,
        address=address,
        pool=pool,
        offset=None if pool is None else address,
        line=begin if kind.counted else None,
        provenance=provenance,
    )


def memory(
    buffers: list[TimelineBuffer], lines: int, pools: tuple[TimelinePool, ...] = ()
) -> MemoryTimeline:
    """Return the timeline of buffers; curves are counted line by line."""

    def alive(spans: list[TimelineBuffer | TimelinePool]) -> tuple[int, ...]:
        return tuple(
            sum(s.size for s in spans if s.begin <= at < s.end) for at in range(lines)
        )

    own = [b for b in buffers if b.kind.counted]
    return MemoryTimeline(
        memory="cpu",
        buffers=tuple(buffers),
        pools=pools,
        live=alive([*own]),
        held=alive([*pools, *(b for b in own if b.pool is None)]),
        uncounted=alive([b for b in buffers if not b.kind.counted]),
    )


def small_report() -> MemoryReport:
    """Return a report on a program as given and planned; %c is largest, the peak line 5."""
    given = [
        buffer("x", 4096, 0, 4, address=9216, kind=BufferKind.INPUT),
        buffer("a", 1024, 0, 2),
        buffer("b", 2048, 1, 4, address=1024, kind=BufferKind.RESULT, provenance="m.py:7"),
        buffer("c", 6144, 2, 4, address=3072),
    ]
    planned = [
        given[0],
        buffer("a", 1024, 1, 3, address=6144, kind=BufferKind.PLACED, pool="p"),
        buffer("b", 2048, 2, 5, kind=BufferKind.RESULT, address=8192),
        buffer("c", 6144, 3, 5, kind=BufferKind.PLACED, pool="p"),
    ]
    pool = TimelinePool(name="p", size=8192, begin=0, end=5, address=0, line=0)
    texts = ["%a = allocate f32[256]", "%b = extern_kernel aten.f(%a)", "%c = ...", "free"]
    lines = tuple(line(i + 3, text) for i, text in enumerate(texts))
    return MemoryReport(
        program="main",
        source="small.wir",
        symbols=(SymbolValue(name="s0", value=64, reason="given"),),
        versions=(
            ProgramTimeline(label="as given", lines=lines, memories=(memory(given, 4),)),
            ProgramTimeline(
                label="after plan_memory",
                lines=(line(3, "%p = allocate_pool"), *lines),
                memories=(memory(planned, 5, (pool,)),),
            ),
        ),
    )


def hostile_report() -> MemoryReport:
    """Return a report all of whose strings are :data:`HOSTILE`."""
    held = TimelineBuffer(
        name=HOSTILE,
        aliases=(HOSTILE,),
        kind=BufferKind.PLACED,
        type=HOSTILE,
        size=64,
        begin=0,
        end=1,
        address=0,
        pool=HOSTILE,
        offset=0,
        line=0,
        provenance=HOSTILE,
    )
    pool = TimelinePool(name=HOSTILE, size=64, begin=0, end=1, address=0, line=0)
    timeline = evolve_memory(memory([held], 1, (pool,)), HOSTILE)
    lines = (line(1, HOSTILE),)
    version = ProgramTimeline(label=HOSTILE, lines=lines, memories=(timeline,))
    symbols = (SymbolValue(name=HOSTILE, value=1, reason=HOSTILE),)
    return MemoryReport(
        program=HOSTILE, source=HOSTILE, symbols=symbols, versions=(version,)
    )


def evolve_memory(timeline: MemoryTimeline, name: str) -> MemoryTimeline:
    from attrs import evolve

    return evolve(timeline, memory=name)


def large_report(count: int) -> MemoryReport:
    """Return a report on ``count`` lines, each of which makes a buffer."""
    buffers = [
        buffer(f"buf{i}", 64 + i % 977 * 64, i, min(count, i + 1 + i % 40))
        for i in range(count)
    ]
    lines = tuple(line(i + 3, f"%buf{i} = allocate f32[16]") for i in range(count))
    changes = [0] * (count + 1)
    for b in buffers:
        changes[b.begin] += b.size
        changes[b.end] -= b.size
    live: list[int] = []
    for change in changes[:-1]:
        live.append(change + (live[-1] if live else 0))
    nothing = (0,) * count
    timeline = MemoryTimeline(
        memory="cpu",
        buffers=tuple(buffers),
        live=tuple(live),
        held=tuple(live),
        uncounted=nothing,
    )
    version = ProgramTimeline(label="as given", lines=lines, memories=(timeline,))
    return MemoryReport(program="main", source="large.wir", versions=(version,))
