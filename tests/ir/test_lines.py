"""Line kinds: keywords, visitor, uses and definitions, immutability."""

import inspect

import attrs
import pytest
from hypothesis import given, settings

from wrapperir.ir import (
    BODY_LINES,
    KEYWORDS,
    LINES,
    AllocateLine,
    FreeLine,
    KernelCallLine,
    Line,
    LineVisitor,
    Program,
    ReuseLine,
    tensor,
)
from wrapperir.ir.blocks import blocks_of
from wrapperir.ir.line_effects import definitions, drops, uses
from wrapperir.testing.arbitrary import programs


def test_keywords_come_from_class_names_and_are_unique() -> None:
    assert KEYWORDS[KernelCallLine] == "kernel_call"
    assert len(set(KEYWORDS.values())) == len(LINES)


def test_every_line_class_is_listed() -> None:
    def leaves(kind: type[Line]) -> set[type[Line]]:
        return {kind}.union(*(leaves(child) for child in kind.__subclasses__()))

    # attrs replaces a class to add slots; the replaced one lingers among the subclasses
    # under the same name.
    assert {kind.__name__ for kind in leaves(Line)} - {"Line"} == {
        kind.__name__ for kind in LINES
    }


@pytest.mark.parametrize("kind", LINES)
def test_lines_are_frozen_and_slotted(kind: type[Line]) -> None:
    assert attrs.has(kind)
    assert "__slots__" in vars(kind)
    assert kind.__setattr__ is not object.__setattr__


def test_a_line_cannot_be_changed() -> None:
    line = FreeLine(buffer="buf0")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        line.buffer = "buf1"  # type: ignore[misc]


def test_the_visitor_has_one_abstract_method_a_line_kind() -> None:
    abstract = {
        name
        for name, member in inspect.getmembers(LineVisitor)
        if getattr(member, "__isabstractmethod__", False)
    }
    assert abstract == {f"visit_{keyword}" for keyword in KEYWORDS.values()}


def test_a_visitor_that_lacks_a_kind_cannot_be_made() -> None:
    class Incomplete(LineVisitor[None]):
        pass

    with pytest.raises(TypeError, match="visit_kernel_call"):
        Incomplete()  # type: ignore[abstract]


def test_reuse_drops_its_source_and_free_its_buffer() -> None:
    four = tensor("f32", (4,))
    assert drops(ReuseLine(result="b", source="a", type=four)) == "a"
    assert drops(FreeLine(buffer="a")) == "a"
    assert drops(AllocateLine(result="a", type=four)) is None


@settings(max_examples=50)
@given(programs)
def test_uses_and_definitions_are_names_on_any_line(program: Program) -> None:
    lines = list(program.lines)
    while lines:
        line = lines.pop()
        assert type(line) in BODY_LINES
        assert all(isinstance(name, str) for name in uses(line))
        assert all(isinstance(name, str) for name, _ in definitions(line))
        dropped = drops(line)
        assert dropped is None or dropped in uses(line)
        for block in blocks_of(line):
            lines.extend(block.lines)
