from hypothesis import given
from hypothesis import strategies as st

from wrapperir.passes.live_units import RangeMaximum


@given(
    numbers=st.lists(st.integers(-50, 50), min_size=1, max_size=40),
    changes=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(-9, 9)), max_size=20
    ),
)
def test_it_is_as_a_list(numbers: list[int], changes: list[tuple[int, int, int]]) -> None:
    found = RangeMaximum(numbers)
    for first, second, amount in changes:
        begin, end = sorted((first % len(numbers), second % (len(numbers) + 1)))
        found.add(begin, end, amount)
        numbers = [n + amount * (begin <= i < end) for i, n in enumerate(numbers)]
        for at in range(len(numbers)):
            assert found.maximum(at, at + 1) == numbers[at]
        if begin < end:
            assert found.maximum(begin, end) == max(numbers[begin:end])
        assert found.maximum(0, len(numbers)) == max(numbers)
