"""Pools are cut where there is no room for them, in few turns."""

from operator import attrgetter

import pytest

from wrapperir import parse_program
from wrapperir.ir import PlaceLine
from wrapperir.passes import plan_memory, pool_choice
from wrapperir.verify import verify

PLACES = 256
BETWEEN = """\
  %a{0} = allocate f32[16]
  free %a{0}
  %b{0} = allocate f32[16]
  free %b{0}
  %full{0} = extern_kernel aten.ones.default([999]) : f32[999]
  free %full{0}
"""


def test_a_pool_is_cut_at_many_places_in_few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[object] = []
    original = attrgetter("_DevicePools._after")(pool_choice)

    def counted(device: object, pools: object) -> object:
        turns.append(pools)
        return original(device, pools)

    monkeypatch.setattr("wrapperir.passes.pool_choice._DevicePools._after", counted)
    body = "".join(BETWEEN.format(number) for number in range(PLACES))
    planned = plan_memory(
        parse_program(f"wrapperir 1\n\nprogram @main() {{\n{body}  return\n}}\n")
    )
    assert verify(planned) == ()
    assert sum(isinstance(line, PlaceLine) for line in planned.lines) == 2 * PLACES
    assert len(turns) < PLACES, "each takes linear time"
