"""The sample exercises every line kind and every field, and both forms keep them."""

from collections.abc import Iterator

import attrs
import pytest

from wrapperir.ir import (
    LINES,
    Program,
    WorkspaceNeed,
    definition,
    kernel,
    line,
    selection,
    types,
)
from wrapperir.text import format_json, format_program, parse_json, parse_program

from .samples import SAMPLE


def objects(value: object) -> Iterator[object]:
    """Yield ``value`` and every attrs object within it."""
    kind = type(value)
    if attrs.has(kind):
        yield value
        for field in attrs.fields(kind):
            yield from objects(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from objects(item)


def ir_classes() -> list[type]:
    modules = (definition, kernel, line, selection, types)
    found = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and attrs.has(kind) and kind.__module__ == module.__name__
    ]
    # Lines hold the device and the number of a stream;
    # private classes are in no program.
    return [
        kind
        for kind in (*found, WorkspaceNeed)
        if kind is not types.Stream and kind.__name__[0] != "_"
    ]


def test_sample_has_every_line_kind() -> None:
    assert {type(o) for o in objects(SAMPLE)} >= set(LINES)


@pytest.mark.parametrize("kind", [k for k in ir_classes() if k is not definition.Line])
def test_sample_gives_every_field_a_value(kind: type) -> None:
    instances = [o for o in objects(SAMPLE) if type(o) is kind]
    assert instances
    for field in attrs.fields(kind):
        default = field.default
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
            default = default.factory()
        values = [getattr(o, field.name) for o in instances]
        assert any(value != default for value in values), field.name


def test_text_keeps_every_field() -> None:
    assert repr(parse_program(format_program(SAMPLE))) == repr(SAMPLE)


def test_json_keeps_every_field() -> None:
    assert repr(parse_json(format_json(SAMPLE))) == repr(SAMPLE)


def variants() -> Iterator[tuple[str, Program]]:
    """Yield the sample with one field of one line set back to its default."""
    for index, item in enumerate(SAMPLE.lines):
        for field in attrs.fields(type(item)):
            if field.default is attrs.NOTHING:
                continue
            changed = attrs.evolve(item, **{field.name: field.default})
            lines = (*SAMPLE.lines[:index], changed, *SAMPLE.lines[index + 1 :])
            if changed != item:
                yield (
                    f"{type(item).__name__}.{field.name}",
                    attrs.evolve(SAMPLE, lines=lines),
                )


@pytest.mark.parametrize(
    ("name", "variant"), [pytest.param(*v, id=v[0]) for v in variants()]
)
def test_each_field_shows_in_both_forms(name: str, variant: Program) -> None:
    assert format_program(variant) != format_program(SAMPLE)
    assert format_json(variant) != format_json(SAMPLE)
    assert parse_program(format_program(variant)) == variant
    assert parse_json(format_json(variant)) == variant
