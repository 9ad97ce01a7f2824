"""Programs that all ranks of a group run: collectives, and work that needs them or not."""

from attrs import define, field
from hypothesis import strategies as st

from wrapperir import ir as wir
from wrapperir.ir.builder import NamedValue, ProgramBuilder

ROWS = 16
"""Elements of an input, one for each rank of four in each part."""


@define
class _Draft:
    """A program while it grows: values that may be read, and collectives in flight."""

    builder: ProgramBuilder
    values: list[NamedValue] = field(factory=list[NamedValue])
    works: list[tuple[NamedValue, list[NamedValue], NamedValue]] = field(
        factory=list[tuple[NamedValue, list[NamedValue], NamedValue]]
    )


@st.composite
def common_programs(draw: st.DrawFn, ranks: int = 2, most: int = 14) -> wir.Program:
    """Draw a program for all ranks of the group ``all``; it returns some of its values."""
    builder = ProgramBuilder("main")
    x = builder.input(wir.tensor("f32", (ROWS,)), name="x", mutated=True)
    builder.process_group("all", ranks)
    draft = _Draft(builder, [x])
    for _ in range(draw(st.integers(2, most))):
        step = draw(st.sampled_from((_compute, _compute, _start, _start, _wait, _write)))
        step(draft, draw)
    while draft.works:
        _wait(draft, draw)
    kept = draw(st.lists(st.sampled_from(draft.values), unique_by=id, min_size=1))
    return builder.build(*kept)


def _large(draft: _Draft) -> list[NamedValue]:
    return [value for value in draft.values if _rows(value) == ROWS]


def _rows(value: NamedValue) -> wir.Expr:
    assert isinstance(value.type, wir.TensorType)
    return value.type.size[0]


def _compute(draft: _Draft, draw: st.DrawFn) -> None:
    """Add a sum of two values, in a buffer or as a result."""
    one, other = (draw(st.sampled_from(_large(draft))) for _ in range(2))
    type = wir.tensor("f32", (ROWS,))
    if draw(st.booleans()):
        made = draft.builder.extern("aten.add.Tensor", one, other, type=type)
    else:
        made = draft.builder.allocate(type)
        draft.builder.extern_out("aten.add.out", one, other, out=made, writes=[made])
    draft.values.append(made)


def _write(draft: _Draft, draw: st.DrawFn) -> None:
    """Change a value that no collective in flight reads or writes."""
    busy = {id(value) for _, read, _ in draft.works for value in read}
    free = [value for value in _large(draft) if id(value) not in busy]
    if free:
        value = draw(st.sampled_from(free))
        draft.builder.extern_out("aten.add_.Scalar", value, 1.0, writes=[value])


def _start(draft: _Draft, draw: st.DrawFn) -> None:
    """Start a collective, which has written nothing before its wait."""
    names = ("all_reduce", "all_gather", "reduce_scatter")
    operation = wir.Collective(draw(st.sampled_from(names)))
    source = draw(st.sampled_from(_large(draft)))
    busy = {id(value) for _, read, _ in draft.works for value in read}
    builder, ranks = draft.builder, 2
    reduction = "sum" if operation.reduces else None
    if operation.in_place:
        if id(source) in busy or len(_large(draft)) < 2:
            return
        work = builder.collective(operation, "all", [source], reduction=reduction)
        draft.values = [value for value in draft.values if value is not source]
        draft.works.append((work, [source], source))
        return
    rows = ROWS * ranks if operation is wir.Collective.ALL_GATHER else ROWS // ranks
    target = builder.allocate(wir.tensor("f32", (rows,)))
    work = builder.collective(operation, "all", [source], [target], reduction=reduction)
    draft.works.append((work, [source], target))


def _wait(draft: _Draft, draw: st.DrawFn) -> None:
    """Wait for a collective in flight."""
    if draft.works:
        place = draw(st.integers(0, len(draft.works) - 1))
        work, _, target = draft.works.pop(place)
        draft.builder.wait_collective(work)
        if draw(st.booleans()):
            assert isinstance(target.type, wir.TensorType)
            target = draft.builder.reinterpret(target, target.type)
        draft.values.append(target)
