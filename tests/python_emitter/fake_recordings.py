"""Recordings of captures that are made by hand, as the made-up driver sees them."""

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.python_emitter.fake_captures import (
    current,
    driver,
    floats,
    function,
    graphs,
    launch,
    nothing_lives_after,
    on,
)
from tests.python_emitter.fake_launches import raises

MOVED = 1 << 40
"""Where operands are displaced to."""


def native_region(
    tensors: int, numbers: int = 0, slow: Any = None, recordings: int = 8, plain: Any = None
) -> tuple[Any, Callable[[Callable[[], None]], Any]]:
    """Return a region without a recorder, and a function that captures work."""
    native = graphs()._native()
    made = native.Region(plain, slow, tensors, numbers, 0, recordings)

    def capture(work: Callable[[], None]) -> Any:
        with on(0x900):
            native.begin(0x900)
            work()
            return native.end(0x900)

    return made, capture


def made_up(address: int, size: int = 1 << 20) -> torch.Tensor:
    """Return a tensor whose memory nobody may touch."""
    make: Any = torch._C._construct_storage_from_data_pointer
    empty = torch.empty(0, dtype=torch.uint8)
    return empty.set_(make(address, torch.device("cpu"), size), 0, (size,), (1,))


def check_numbers_and_alignments_are_keys() -> None:
    keys: list[bytes] = []
    made, _ = native_region(2, 2, lambda given, key, copied, stream: keys.append(key))
    base, other = made_up(1 << 20), made_up(1 << 21)
    numbers = (0, 1, -1, True, False, 0.0, -0.0, 1.0, 5e-324, 2**62, -(2**63))
    for number in numbers:
        for _ in range(2):
            made(base, other, number, 3)
        assert keys.pop() == keys[-1]
        made(base, other, 3, number)
    assert len(set(keys)) == 2 * len(numbers)
    keys.clear()
    for shift in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256):
        made(base[shift:], other, 3, 3)
        made(base, other[shift:], 3, 3)
    assert len(set(keys)) == 19
    keys.clear()
    for shift in (512, 1024, 4096):
        made(base[shift:], other[shift:], 3, 3)
    assert len(set(keys)) == 1
    with on(0x80 << 32):
        made(base, other, 3, 3)
    assert len(set(keys)) == 2


def check_many_numbers_and_tensors_are_keys() -> None:
    keys: set[bytes] = set()
    made, _ = native_region(40, 70, lambda given, key, copied, stream: keys.add(key))
    tensors = [made_up(1 << 20) for _ in range(40)]
    numbers: list[Any] = [1] * 70
    for index in range(40):
        made(*tensors[:index], made_up((1 << 20) + 8), *tensors[index + 1 :], *numbers)
    for index in range(70):
        made(*tensors, *numbers[:index], True, *numbers[index + 1 :])
    assert len(keys) == 110


def check_other_objects_are_the_block_s() -> None:
    seen: list[Any] = []
    made, _ = native_region(1, 1, None, plain=lambda *given: seen.append(given))

    class Other(torch.Tensor):
        pass

    x = floats(4)
    wrong: Any
    for wrong in (2**63, -(2**63) - 1, "1", None, 1j, x):
        made(x, wrong)
        assert seen.pop()[1] is wrong
    for wrong in (x.as_subclass(Other), None, 3, x.to_sparse()):
        made(wrong, 1)
        assert seen.pop()[0] is wrong


@nothing_lives_after()
def check_errors_of_python_are_raised() -> None:
    keys: list[bytes] = []
    made, capture = native_region(1, slow=lambda given, key, *_: keys.append(key))
    x = floats(16)
    made(x)
    place = (x.data_ptr(), x.data_ptr(), 64, x.data_ptr() + MOVED, 64, False, False)

    def fail() -> None:
        raise MemoryError("no memory")

    graph = capture(lambda: None)
    assert made.add(keys[0], graph, graph, graph, (place,), False, fail, None)
    for _ in range(3):
        with raises(MemoryError, "no memory"):
            made(x)


def _drop_recordings_that_run_python() -> None:
    keys: list[bytes] = []
    made, capture = native_region(
        1, slow=lambda given, key, *_: keys.append(key), recordings=2
    )
    x = floats(16)
    place = (x.data_ptr(), x.data_ptr(), 64, x.data_ptr() + MOVED, 64, False, False)
    graph = capture(lambda: None)
    counts = []

    class Held:
        def __init__(self, key: bytes, depth: int) -> None:
            self.key, self.depth = key, depth

        def __del__(self) -> None:
            made(x)
            counts.append(made.count())
            if self.depth:
                store(self.key, self.depth - 1)

    def store(key: bytes, depth: int) -> None:
        made.add(key, graph, graph, graph, (place,), False, None, Held(key, depth))

    for key in (b"8bytes_1", b"8bytes_2", b"8bytes_1", b"8bytes_3", b"8bytes_4"):
        store(key, 2)
    assert made.count() == 2
    assert set(counts) == {2}, counts
    Held.__del__ = lambda self: None  # type: ignore[method-assign]


@nothing_lives_after()
def check_python_may_run_when_recordings_go() -> None:
    _drop_recordings_that_run_python()


@nothing_lives_after()
def check_wrong_recordings_are_errors() -> None:
    made, capture = native_region(1)
    graph = capture(lambda: None)
    for operand, text in ((3, "."), ((512, 512, 64, 1024, 64, False, True), "not found")):
        with pytest.raises((RuntimeError, SystemError), match=text):
            made.add(b"12345678", graph, graph, graph, (operand,), True, None, None)


# Nodes that are made by hand: their memory is not touched.


class Word(NamedTuple):
    """A word of a parameter: an address in an operand, or a number, or what differs."""

    operand: int | None
    value: int  # a distance from the operand's begin, or the number
    is_noise: bool = False


class Node(NamedTuple):
    """A kernel with parameters of some sizes, or a copy or fill, and its words."""

    kind: str
    words: tuple[Word, ...]
    sizes: tuple[int, ...] = ()

    def give(self, addresses: Sequence[int], noise: int) -> None:
        """Give the current stream this work."""
        values = []
        for word in self.words:
            base = 0 if word.operand is None else addresses[word.operand]
            values.append((base + word.value + noise * word.is_noise) % 2**64)
        stream = ctypes.c_void_p(current())
        if self.kind == "copy":
            driver().fake_copy(values[0], values[1], 64, 1, 2, stream)
        elif self.kind == "fill":
            driver().fake_fill(values[0], 7, 64, 1, stream)
        elif self.kind == "empty":
            driver().fake_node(5, stream)
        else:
            parts, left = [], [struct.pack("<Q", value) for value in values]
            for size in self.sizes:
                count = -(-size // 8)
                parts.append(b"".join(left[:count])[:size])
                del left[:count]
            is_kernel = self.kind == "kernel of a library"
            what = function("nothing", *self.sizes, is_kernel=is_kernel)
            launch(what, b"".join(parts), packed=self.kind == "packed")


class Case(NamedTuple):
    """Nodes; and operands by their storage and where they begin in it."""

    storages: tuple[tuple[int, int], ...]  # address and bytes
    operands: tuple[tuple[int, int], ...]
    nodes: tuple[Node, ...]
    moves: tuple[tuple[int, ...], ...]  # by how much, of each operand, in each call
    given_places: tuple[tuple[int, ...], ...] = ()

    @property
    def addresses(self) -> list[int]:
        return [self.storages[index][0] + offset for index, offset in self.operands]

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """Return the operands as recordings take them; displaced as in a real capture."""
        if self.given_places:
            return self.given_places
        result = []
        distances: set[int] = set()
        for storage, offset in self.operands:
            begin, size = self.storages[storage]
            distance = MOVED - begin // 512 * 512
            while distance in distances:
                distance += 512
            distances.add(distance)
            moved = begin + offset + distance
            result.append((begin + offset, begin, size, moved, size - offset, True, False))
        return tuple(result)


def replay(case: Case) -> list[str]:
    """Check that replays have the parameters of captures at their addresses."""
    keys: list[bytes] = []
    made, capture = native_region(
        len(case.operands), slow=lambda given, key, *_: keys.append(key)
    )

    def graph(addresses: Sequence[int], noise: int) -> Any:
        def work() -> None:
            for node in case.nodes:
                node.give(addresses, noise)

        return capture(work)

    def tensors(addresses: Sequence[int]) -> list[torch.Tensor]:
        return [made_up(address) for address in addresses]

    made(*tensors(case.addresses))
    displaced = [place[3] for place in case.places]
    graphs = (
        graph(case.addresses, 0),
        graph(case.addresses, 0x1234567),
        graph(displaced, 0x7654321),
    )
    assert made.add(keys[0], *graphs, case.places, False, None, None)
    driver().fake_run_graphs(False)
    driver().fake_instantiated()
    shown = []
    try:
        for moves in case.moves:
            addresses = [x + y for x, y in zip(case.addresses, moves, strict=True)]
            made(*tensors(addresses))
            assert len(keys) == 1
            shown.append(driver().fake_replayed().decode())
            wanted = text_of(graph(addresses, 0))
            assert shown[-1] == wanted
            # The driver looks up the memory of copies and fills: what is gone is a fault.
            instance = driver().fake_instantiated().decode()
            assert not instance or copies_and_fills(instance) == copies_and_fills(wanted)
    finally:
        driver().fake_run_graphs(True)
    return shown


def text_of(graph: Any) -> str:
    """Return the nodes of a captured graph."""
    get: Any = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    handle = ctypes.c_void_p(get(graph, b"graphs.graph"))
    return str(driver().fake_graph_text(handle).decode())


def copies_and_fills(text: str) -> list[str]:
    """Return the lines of copies, of type 1, and fills, of type 2."""
    return [line for line in text.splitlines() if line[0] in "12"]


_SIZES = (1, 2, 4, 8, 8, 8, 12, 16, 40, 256)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return nodes whose words are addresses in operands, or numbers."""
    end = 1 << 33
    storages = []
    for _ in range(draw(st.integers(1, 4))):
        end += draw(st.sampled_from((0, 512, 4096, 1 << 32)))
        begin = end + draw(st.sampled_from((0, 0, 64, 256)))
        size = draw(st.sampled_from((64, 512, 1000, 1 << 20)))
        storages.append((begin, size))
        end = -(-(begin + size) // 512) * 512
    operands = draw(
        st.lists(
            st.integers(0, len(storages) - 1).flatmap(
                lambda index: st.tuples(
                    st.just(index),
                    st.integers(0, storages[index][1] // 16 - 1).map(lambda x: 16 * x),
                )
            ),
            min_size=1,
            max_size=5,
        )
    )

    def pointer(index: int) -> st.SearchStrategy[Word]:
        storage, offset = operands[index]
        inside = st.integers(-offset, storages[storage][1] - offset)
        return (st.just(0) | inside).map(lambda value: Word(index, value))

    numbers = st.integers(0, 2**64 - 1) | st.sampled_from(
        [begin + extra for begin, _ in storages for extra in (0, 8, MOVED)] + [0, 1]
    )
    pointers = st.integers(0, len(operands) - 1).flatmap(pointer)
    others = st.builds(Word, st.none(), numbers, st.booleans())

    def node() -> Node:
        kind = draw(
            st.sampled_from(
                (
                    "kernel",
                    "kernel",
                    "kernel of a library",
                    "packed",
                    "copy",
                    "fill",
                    "empty",
                )
            )
        )
        if kind in ("copy", "fill", "empty"):
            count = {"copy": 2, "fill": 1, "empty": 0}[kind]
            words = draw(st.lists(pointers | others, min_size=count, max_size=count))
            return Node(kind, tuple(words))
        sizes = draw(st.lists(st.sampled_from(_SIZES), max_size=6))
        words = []
        for size in sizes:
            words += [draw(pointers | others) for _ in range(size // 8)]
            if size % 8:
                words.append(draw(others))
        return Node(kind, tuple(words), tuple(sizes))

    nodes = tuple(node() for _ in range(draw(st.integers(1, 4))))
    nodes *= draw(st.sampled_from((1, 8)))  # an instance with many changes is renewed
    distance = st.just(0) | st.integers(0, 1 << 22).map(lambda x: 512 * x)
    one = st.tuples(*(distance for _ in operands))
    seen = draw(st.lists(one, min_size=1, max_size=5))
    moves = draw(st.lists(st.sampled_from(seen), min_size=1, max_size=8))
    moves += moves[-1:] * draw(st.sampled_from((0, 16)))
    return Case(tuple(storages), tuple(operands), nodes, tuple(moves))


@nothing_lives_after()
def check_replays_have_the_parameters_of_captures() -> None:
    @settings(max_examples=25, deadline=None, database=None)
    @given(cases())
    def check(case: Case) -> None:
        replay(case)

    check()


@nothing_lives_after()
def check_pointers_and_nothing_else_move() -> None:
    begin = 1 << 33
    words = (
        *(Word(0, 0), Word(0, 40), Word(1, 0), Word(None, begin), Word(None, 5, True)),
        *(Word(0, -16), Word(1, 3)),
    )
    case = Case(
        ((begin, 512), (begin + 512, 512)),
        ((0, 16), (1, 0)),
        (
            *(Node(kind, words, (8,) * 7) for kind in ("kernel", "packed")),
            *(Node("kernel", words, (56,)), Node("copy", words[1:3])),
        ),
        ((0, 0), (512, 0), (512, 1024), (0, 0), (0, 512), (1024, 512), (512, 0)),
    )
    shown = replay(case)
    assert shown[0] == shown[3]
    moved = struct.pack("<Q", begin + 16 + 512).hex()
    assert shown[1].count(moved) == 3


def _is_movable(case: Case, change: int = 0) -> bool:
    """Return whether operands may move; a number changes as they are displaced."""
    made, capture = native_region(len(case.operands))
    displaced = [place[3] for place in case.places]

    def graph(addresses: Sequence[int], change: int = 0) -> Any:
        def work() -> None:
            for node in case.nodes:
                node.give(addresses, 0)
            launch(function("nothing", 8), struct.pack("<Q", 100 + change))

        return capture(work)

    graphs = graph(case.addresses), graph(case.addresses), graph(displaced, change)
    return bool(made.add(b"8bytes_k", *graphs, case.places, False, None, None))


@nothing_lives_after()
def check_what_is_not_explained_does_not_move() -> None:
    begin = 1 << 33

    def case(*words: Word) -> Case:
        storages = (begin, 512), (begin + 512, 512)
        return Case(storages, ((0, 0), (1, 0)), (Node("kernel", words, (8, 8)),), ())

    right = case(Word(0, 500), Word(1, 8))
    assert _is_movable(right)
    assert not _is_movable(right, 1)
    # The distance of the first operand, but not in its memory.
    first, second = right.places
    assert not _is_movable(right, first[3] - first[0])
    assert not _is_movable(case(Word(0, 513), Word(1, 0)))
    assert not _is_movable(case(Word(0, -1), Word(1, 0)))
    # Operands that are displaced by the same distance.
    second = (*second[:3], second[0] + first[3] - first[0], *second[4:])
    same = right._replace(given_places=(first, second))
    assert _is_movable(same)
    first = (*first[:2], 1024, *first[3:])
    assert not _is_movable(right._replace(given_places=(first, second)))


def check_captures_of_other_work_do_not_move() -> None:
    made, capture = native_region(1)
    place = (1 << 33, 1 << 33, 64, MOVED, 64, True, False)
    stream = ctypes.c_void_p(0x900)

    def one(size: int = 8, packed: bool = False) -> None:
        launch(function("nothing", size), struct.pack("<Q", 3)[:size], packed)

    def two() -> None:
        one()
        one()

    def fill(value: int, size: int = 64) -> None:
        driver().fake_fill(5, value, size, 1, stream)

    def copy(size: int) -> None:
        driver().fake_copy(5, 6, size, 1, 2, stream)

    works: list[Callable[[], None]] = [
        *(lambda: None, one, lambda: one(4), lambda: one(8, True)),
        *(two, lambda: driver().fake_node(5, stream)),
        *(lambda: fill(1), lambda: fill(2), lambda: fill(1, 32)),
        *(lambda: copy(8), lambda: copy(16)),
    ]
    for i, a in enumerate(works):
        for j, b in enumerate(works):
            graphs = [capture(work) for work in (a, a, b)]
            movable = made.add(b"8bytes_k", *graphs, (place,), False, None, None)
            assert movable == (i == j), (i, j)
            graphs = [capture(work) for work in (a, b, a)]
            movable = made.add(b"8bytes_k", *graphs, (place,), False, None, None)
            assert movable == (i == j), (i, j)


CHECKS: dict[str, Callable[[], None]] = {
    name[6:]: check for name, check in globals().items() if name.startswith("check_")
}
