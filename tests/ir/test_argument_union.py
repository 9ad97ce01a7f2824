"""The union of what several kernels are given: each argument once, where each takes it."""

import math
from collections import Counter
from collections.abc import Hashable

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.ir import (
    Access,
    BufferParameter,
    BufferRef,
    DescriptorParameter,
    DType,
    KernelDefinitionLine,
    Language,
    Parameter,
    ScalarParameter,
    Symbol,
)
from wrapperir.ir.multi_kernel_builder import argument_union, union_parameters

CALLS = st.lists(st.lists(st.sampled_from("abcde"), max_size=8), max_size=5)


@given(calls=CALLS)
def test_every_call_finds_its_arguments(calls: list[list[str]]) -> None:
    union = argument_union(calls)
    for call, places in zip(calls, union.positions, strict=True):
        assert [union.arguments[place] for place in places] == call
        assert len(set(places)) == len(places)


@given(calls=CALLS)
def test_nothing_is_there_more_often_than_some_call_needs(calls: list[list[str]]) -> None:
    most: Counter[str] = Counter()
    for call in calls:
        most |= Counter(call)
    assert Counter(argument_union(calls).arguments) == most


@given(calls=CALLS)
def test_the_kth_of_one_call_is_the_kth_of_another(calls: list[list[str]]) -> None:
    places: dict[tuple[str, int], set[int]] = {}
    for call, positions in zip(calls, argument_union(calls).positions, strict=True):
        seen: Counter[str] = Counter()
        for argument, position in zip(call, positions, strict=True):
            places.setdefault((argument, seen[argument]), set()).add(position)
            seen[argument] += 1
    assert all(len(found) == 1 for found in places.values())


@given(calls=CALLS.filter(bool))
def test_the_first_call_keeps_its_order(calls: list[list[str]]) -> None:
    first = argument_union(calls).positions[0]
    assert list(first) == sorted(first)


def test_an_argument_that_is_passed_twice() -> None:
    union = argument_union([("x", "x", "out"), ("x", "out"), ("x", "ws", "x", "out")])
    assert union.arguments == ("x", "ws", "x", "out")
    assert union.positions == ((0, 2, 3), (0, 3), (0, 1, 2, 3))


def test_no_call_need_have_all_arguments() -> None:
    union = argument_union([("a", "out"), ("b", "out")])
    assert sorted(union.arguments) == ["a", "b", "out"]
    assert union.arguments[-1] == "out"


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, 1.0), (1, True), (0.0, -0.0), (Symbol("s") + 1, Symbol("s") + 1.0)],
)
def test_numbers_of_two_types_are_two_arguments(left: Hashable, right: Hashable) -> None:
    assert len(argument_union([[left], [right]]).arguments) == 2


def test_equal_arguments_are_one() -> None:
    calls = [[BufferRef("x"), Symbol("s") * 2, math.nan] for _ in range(2)]
    assert len(argument_union(calls).arguments) == 3


@frozen(eq=False)
class Counted:
    """An argument that counts how often it is looked up."""

    name: int
    counts: Counter[str] = field()

    def __hash__(self) -> int:
        self.counts["hash"] += 1
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        self.counts["eq"] += 1
        return isinstance(other, Counted) and self.name == other.name


def looks(number: int) -> int:
    counts: Counter[str] = Counter()
    names = [[n % number for n in range(shift, number + shift)] for shift in range(4)]
    argument_union([[Counted(n, counts) for n in each] for each in names])
    return counts.total()


def test_looks_grow_with_the_arguments_alone() -> None:
    assert looks(2000) <= 11 * looks(200)


def kernel(name: str, *parameters: Parameter) -> KernelDefinitionLine:
    return KernelDefinitionLine(
        name=name,
        language=Language.CPP,
        parameters=parameters,
        entry=name,
        source="",
    )


def buffer(name: str, access: Access, dtype: DType = DType.F32) -> BufferParameter:
    return BufferParameter(name, dtype, access)


def test_parameters_do_what_each_kernel_does() -> None:
    one = kernel("one", buffer("x", Access.READ), buffer("y", Access.WRITE))
    two = kernel("two", buffer("p", Access.WRITE), buffer("q", Access.WRITE))
    found = union_parameters([one, two], [(0, 1), (0, 1)])
    assert found == (buffer("x", Access.READ_WRITE), buffer("y", Access.WRITE))


def test_one_name_in_two_places_becomes_two() -> None:
    one = kernel("one", buffer("p", Access.READ), buffer("p_0", Access.READ))
    two = kernel("two", buffer("p", Access.READ))
    found = union_parameters([one, two], [(0, 1), (2,)])
    assert [parameter.name for parameter in found] == ["p", "p_0", "p_1"]


@pytest.mark.parametrize(
    ("parameter", "what"),
    [
        (buffer("x", Access.READ, DType.F64), "a buffer of f64"),
        (ScalarParameter("x", DType.F32), "the scalar f32"),
        (DescriptorParameter("x", DType.F32, (8,), Access.READ), "blocks (8,) of f32"),
    ],
)
def test_kernels_that_disagree_are_refused(parameter: Parameter, what: str) -> None:
    kernels = [kernel("one", buffer("x", Access.READ)), kernel("two", parameter)]
    with pytest.raises(ValueError, match="a buffer of f32, but x of @two") as error:
        union_parameters(kernels, [(0,), (0,)])
    assert what in str(error.value)
    assert "@one" in str(error.value)
