import pytest

from bench.memory.generators import perfect_packing, training_step
from wrapperir.planning import lower_bound


@pytest.mark.parametrize("count", [1, 2, 7, 500])
@pytest.mark.parametrize("seed", range(5))
def test_a_perfect_packing_fills_its_rectangle(count: int, seed: int) -> None:
    buffers = perfect_packing(count, seed)
    assert len(buffers) == count
    assert buffers == perfect_packing(count, seed)
    duration = max(buffer.end for buffer in buffers)
    area = sum(buffer.size * (buffer.end - buffer.begin) for buffer in buffers)
    # Nothing is free at any time, so no plan is lower, and the pieces as cut are a plan.
    assert area == lower_bound(buffers) * duration


def test_a_training_step_keeps_activations_until_their_backward() -> None:
    buffers = training_step(1000, 0)
    assert buffers == training_step(1000, 0)
    assert 800 <= len(buffers) <= 1200
    half = max(buffer.end for buffer in buffers) // 3
    across = [buffer for buffer in buffers if buffer.begin < half < buffer.end]
    assert len(across) > 100
    assert {buffer.size % buffer.alignment for buffer in buffers} == {0}
