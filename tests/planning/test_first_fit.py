import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.memory.check_plan import check_plan
from bench.memory.generators import perfect_packing
from tests.planning.drawn_buffers import buffers, plan_of
from wrapperir.planning import Buffer, Sections
from wrapperir.planning.cores import FirstFit, compile_first_fit
from wrapperir.planning.first_fit import first_fit


def compiled(sections: Sections) -> FirstFit:
    found = compile_first_fit(sections)
    if found is None:
        pytest.skip("no C++ compiler")
    return found


def place_one_by_one(drawn: list[Buffer], order: list[int]) -> list[int]:
    """First fit as it is defined: every buffer is compared with all before it."""
    placed: dict[int, int] = {}
    for index in order:
        mine = drawn[index]
        offset = 0
        meets = True
        while meets:
            meets = False
            for other, start in placed.items():
                end = start + drawn[other].size
                together = mine.begin < drawn[other].end and drawn[other].begin < mine.end
                if together and offset < end and start < offset + mine.size:
                    offset = -(-end // mine.alignment) * mine.alignment
                    meets = True
        placed[index] = offset
    return [placed[index] for index in range(len(drawn))]


@st.composite
def ordered(draw: st.DrawFn) -> tuple[list[Buffer], Sections, list[int]]:
    drawn = draw(buffers())
    sections = Sections.of(drawn)
    kept = [drawn[index] for index in sections.buffers]
    return kept, sections, draw(st.permutations(range(len(kept))))


@given(ordered())
def test_each_buffer_is_as_low_as_it_fits(
    case: tuple[list[Buffer], Sections, list[int]],
) -> None:
    kept, sections, order = case
    expected = place_one_by_one(kept, order)
    offsets, _ = first_fit(sections, order, below=None, probes=1 << 60)
    assert offsets == expected


@given(ordered(), st.none() | st.integers(0, 300), st.integers(0, 60))
def test_compiled_gives_the_same_offsets(
    case: tuple[list[Buffer], Sections, list[int]], below: int | None, probes: int
) -> None:
    kept, sections, order = case
    python, took = first_fit(sections, order, below=below, probes=probes)
    core, core_took = compiled(sections)(order, below=below, probes=probes)
    assert (None if core is None else list(core)) == python
    assert core_took == took <= probes
    if python is not None:
        plan = plan_of(kept, python)
        assert check_plan(kept, plan) == ()
        assert below is None or plan.height < below or not kept
    elif below is not None:
        free, _ = first_fit(sections, order, below=None, probes=probes)
        assert free is not None
        assert plan_of(kept, free).height >= below


def test_compiled_gives_the_same_offsets_for_many_buffers() -> None:
    many = perfect_packing(3000, 5)
    sections = Sections.of(many)
    order = list(range(len(many)))
    random.Random(5).shuffle(order)
    for probes in (10 * len(many), 1 << 60):
        python, took = first_fit(sections, order, below=None, probes=probes)
        core, core_took = compiled(sections)(order, below=None, probes=probes)
        assert core is not None
        assert list(core) == python
        assert core_took == took


def test_sizes_beyond_the_machine_word_stay_in_python() -> None:
    huge = (Buffer(1 << 62, 0, 2), Buffer(1 << 70, 1, 3, 3))
    sections = Sections.of(huge)
    assert compile_first_fit(sections) is None
    offsets, _ = first_fit(sections, [0, 1], below=None, probes=100)
    assert offsets == [0, -(-(1 << 62) // 3) * 3]
