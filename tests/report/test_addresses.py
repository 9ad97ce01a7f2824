from hypothesis import given
from hypothesis import strategies as st

from wrapperir.planning import Buffer
from wrapperir.report.build_timeline import lowest_addresses

SPANS = st.lists(
    st.builds(
        lambda size, begin, length: Buffer(size, begin, begin + length),
        st.integers(0, 6),
        st.integers(0, 12),
        st.integers(0, 6),
    ),
    max_size=30,
)


@given(SPANS)
def test_each_has_the_lowest_address_that_is_free(spans: list[Buffer]) -> None:
    addresses = lowest_addresses(spans)
    order = sorted(range(len(spans)), key=lambda i: (spans[i].begin, i))
    before: list[int] = []
    for index in order:
        span = spans[index]
        if span.size == 0 or span.begin == span.end:
            continue
        taken = {
            byte
            for other in before
            if spans[other].end > span.begin
            for byte in range(addresses[other], addresses[other] + spans[other].size)
        }
        free = (
            address
            for address in range(sum(s.size for s in spans) + 1)
            if taken.isdisjoint(range(address, address + span.size))
        )
        assert addresses[index] == next(free)
        before.append(index)
