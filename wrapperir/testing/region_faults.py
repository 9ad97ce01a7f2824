"""Faults of graph regions, in regions that are put before a program's own lines."""

from random import Random

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.testing.injection import Faulty, Injector, at_start, frees_of

_TYPE = wir.tensor(wir.DType.F32, (4,))


def _full(stream: int = 0) -> wir.ExternKernelLine:
    return wir.ExternKernelLine(
        result="faulty_a",
        type=_TYPE,
        operator="aten.full.default",
        arguments=((4,), 1.0),
        stream=stream,
    )


def _region(program: wir.Program, code: Code, at: int, *lines: wir.BodyLine) -> Faulty:
    """Put a region before a program; its line at index ``at`` is at fault."""
    body = wir.Block(lines=(*lines, *frees_of(lines)))
    line = wir.GraphRegionLine(results=(), name="faulty", operands=(), body=body)
    faulty = at_start(program, code, line)
    return evolve(faulty, path=(*faulty.path, "body", "lines", at))


@Injector
def recorded_host_read(program: wir.Program, rng: Random) -> Faulty:
    """Have the host read, in a graph region, what only the device knows."""
    size = wir.SizeOf(buffer="faulty_a", dim=0)
    reads = (
        wir.AssertNotNanLine(buffer="faulty_a"),
        wir.SymbolDefinitionLine(symbol="faulty_size", source=size),
    )
    return _region(program, Code.GRAPH_HOST_READ, 1, _full(), rng.choice(reads))


@Injector
def recorded_operator(program: wir.Program, rng: Random) -> Faulty:
    """Draw random numbers in a graph region."""
    operator = rng.choice(("aten.rand.default", "aten.randn.default"))
    call = evolve(_full(), operator=operator, arguments=((4,),))
    return _region(program, Code.GRAPH_OPERATOR, 0, call)


@Injector
def recorded_elsewhere(program: wir.Program, rng: Random) -> Faulty:
    """Record an event of another device in a graph region."""
    line = wir.RecordEventLine(result="faulty_event", device=wir.Device("cuda", 0))
    return _region(program, Code.GRAPH_DEVICE, 0, line)


@Injector
def recorded_line(program: wir.Program, rng: Random) -> Faulty:
    """Put a loop, another graph region or a kept workspace in a graph region."""
    condition, kept = wir.Block(results=(0,)), wir.ZeroMode.ZERO_PER_PROGRAM
    lines: tuple[wir.BodyLine, ...] = (
        wir.WhileLoopLine(results=(), carried=(), condition=condition, body=wir.Block()),
        wir.GraphRegionLine(results=(), name="inner", operands=(), body=wir.Block()),
        wir.AllocateLine(result="faulty_kept", type=_TYPE, workspace=kept),
    )
    return _region(program, Code.GRAPH_LINE, 0, rng.choice(lines))


@Injector
def no_recordings(program: wir.Program, rng: Random) -> Faulty:
    """Keep no recording of a graph region."""
    line = wir.GraphRegionLine(
        results=(),
        name="faulty",
        operands=(),
        recordings=-rng.randint(0, 3),
        body=wir.Block(),
    )
    return at_start(program, Code.GRAPH_LINE, line)


@Injector
def recorded_stream(program: wir.Program, rng: Random) -> Faulty:
    """Use a stream in a graph region that is not forked from it, or not joined."""
    stream = rng.randint(1, 9)
    call = _full(stream)
    fork = (
        wir.RecordEventLine(result="faulty_begin"),
        wir.WaitEventLine(event="faulty_begin", stream=stream),
    )
    join = (
        wir.RecordEventLine(result="faulty_end", stream=stream),
        wir.WaitEventLine(event="faulty_end"),
    )
    if rng.random() < 0.5:
        return _region(program, Code.GRAPH_STREAM, 2, *fork, call)
    return _region(program, Code.GRAPH_STREAM, 0, call, *join)


@Injector
def recorded_value(program: wir.Program, rng: Random) -> Faulty:
    """Return a value twice from a graph region, or a number."""
    results: tuple[wir.Argument, ...] = (wir.BufferRef("faulty_a"), 1)
    types: tuple[wir.ValueType, ...] = (_TYPE, wir.ScalarType(wir.DType.I64))
    if rng.random() < 0.5:
        results, types = results[:1] * 2, types[:1] * 2
    named = (wir.Result(f"faulty_{n}", type) for n, type in zip("bc", types, strict=True))
    line = wir.GraphRegionLine(
        results=tuple(named),
        name="faulty",
        operands=(),
        body=wir.Block(lines=(_full(),), results=results),
    )
    faulty = at_start(program, Code.GRAPH_VALUE, line)
    return evolve(faulty, path=(*faulty.path, "body", "results", 1))
