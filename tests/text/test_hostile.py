"""Malformed input of every sort gives coded diagnostics, never another error."""

import copy
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.ir import Program
from wrapperir.text import (
    format_json,
    format_program,
    parse_expr,
    parse_json,
    parse_program,
    parse_type,
)

from .samples import SAMPLE

TEXT = format_program(SAMPLE)
JSON = format_json(SAMPLE)
Parse = Callable[[str], object]


def diagnostics(parse: Parse, text: str) -> tuple[Diagnostic, ...]:
    """Return what reading reports; any error but a coded one escapes and fails a test."""
    try:
        parse(text)
    except DiagnosticError as error:
        return error.diagnostics
    return ()


def assert_placed(found: tuple[Diagnostic, ...], text: str) -> None:
    lines = text.split("\n")
    for diagnostic in found:
        position = diagnostic.position
        assert position is not None
        assert 1 <= position.line <= len(lines)
        assert 1 <= position.column <= len(lines[position.line - 1]) + 1
        assert position.length >= 1


def program(*lines: str) -> str:
    return "\n".join(["wrapperir 1", "program @main() {", *lines, "  return", "}", ""])


def test_truncated_text() -> None:
    whole = range(TEXT.index("\n\norigins {"), TEXT.index("origins {") + 1)
    for end in (end for end in range(0, len(TEXT) - 2, 3) if end not in whole):
        text = TEXT[:end]
        found = diagnostics(parse_program, text)
        assert found, end
        assert_placed(found, text)


def test_truncated_json() -> None:
    for end in range(0, len(JSON) - 2, 7):
        (found,) = diagnostics(parse_json, JSON[:end])
        assert found.code is Code.BAD_JSON, end
        assert_placed((found,), JSON[:end])


@settings(max_examples=draws(250, fuzz=500))
@given(st.randoms(use_true_random=False))
def test_mutated_text(random: random.Random) -> None:
    text = TEXT
    for _ in range(random.randint(1, 8)):
        at = random.randrange(len(text))
        piece = random.choice(["", "\n", "{", "}", '"', "(", "9" * 400, "\ud800", "é", "%"])
        text = text[:at] + piece + text[at + random.randint(0, 30) :]
    assert_placed(diagnostics(parse_program, text), text)


VALUES: list[object] = [
    None,
    True,
    -1,
    1.5,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "a b",
    "\ud800",
    "x" * 300,
    [],
    {},
    [[]],
    {"kind": "tensor"},
    {"kind": "pool", "size": 4},
    {"kind": "event", "device": {"kind": "cpu"}},
    {"kind": []},
    {"op": "add", "args": []},
    {"op": "add", "args": [1]},
    {"op": [], "args": [1, 2]},
    {"float": "nan"},
    {"float": 1},
    {"symbol": "true"},
    {"buffer": "%x"},
    {"dtype": "f31"},
    {"complex": [1]},
    {"layout": 1},
    {"device": {"kind": "cuda", "index": -1}},
]


def places(value: object) -> Iterator[tuple[dict[str, object] | list[object], str | int]]:
    """Yield every place of a JSON document: its container and its key there."""
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        for key in keys:
            yield value, key
            yield from places(value[key])


@settings(max_examples=draws(150, fuzz=300))
@given(st.data())
def test_mutated_json(data: st.DataObject) -> None:
    document = json.loads(JSON)
    for _ in range(data.draw(st.integers(1, 2))):
        every = list(places(document))
        container, key = every[data.draw(st.integers(0, len(every) - 1))]
        how = data.draw(st.integers(0, 2))
        if how == 0:
            value = data.draw(st.sampled_from(VALUES))
            container[key] = copy.deepcopy(value)  # type: ignore[index]
        elif how == 1 and isinstance(container, dict):
            container["extra"] = 1
        else:
            del container[key]  # type: ignore[arg-type]
    text = json.dumps(document)
    try:
        changed = parse_json(text)
    except DiagnosticError as error:
        assert_placed(error.diagnostics, text)
    else:
        # Whatever JSON holds, text can spell.
        assert repr(parse_program(format_program(changed))) == repr(changed)


def test_wrong_type_everywhere() -> None:
    document = json.loads(JSON)
    for container, key in list(places(document)):
        was, container[key] = container[key], {"nonsense": []}  # type: ignore[index]
        text = json.dumps(document)
        container[key] = was  # type: ignore[index]
        found = diagnostics(parse_json, text)
        assert len(found) == 1, (key, was)
        assert_placed(found, text)


DEEP = 100_000
HOSTILE = {
    "parentheses": (parse_expr, "(" * DEEP + "1" + ")" * DEEP, Code.TOO_DEEP),
    "unclosed parentheses": (parse_expr, "(" * DEEP, Code.TOO_DEEP),
    "mixed operators": (
        parse_expr,
        "(a or b and not c == d + e * -f ** " * DEEP,
        Code.TOO_DEEP,
    ),
    "minus": (parse_expr, "-" * DEEP + "a", Code.TOO_DEEP),
    "not": (parse_expr, "not " * DEEP + "a", Code.TOO_DEEP),
    "powers": (parse_expr, "a ** " * DEEP + "a", Code.TOO_DEEP),
    "calls": (parse_expr, "min(1, " * DEEP, Code.TOO_DEEP),
    "long chain": (parse_expr, "a - " * DEEP + "a", Code.TOO_DEEP),
    "tuple types": (parse_type, "(" * DEEP, Code.TOO_DEEP),
    "dimensions": (parse_type, f"f32[{'s, ' * 1_000_000}s]", Code.TOO_DEEP),
    "huge strides": (parse_type, f"f32[{', '.join(['9' * 250] * 60)}]", Code.BAD_NUMBER),
    "deep strides": (
        parse_type,
        f"f32[{', '.join(['-' * 90 + 's'] * 60)}]",
        Code.TOO_DEEP,
    ),
    "lists": (parse_program, program("  extern_kernel a.b(" + "[" * DEEP), Code.TOO_DEEP),
    "long integer": (parse_expr, "9" * 1_000_000, Code.BAD_NUMBER),
    "long float": (parse_expr, "1." + "9" * 1_000_000, Code.BAD_NUMBER),
    "huge float": (parse_expr, "1e999", Code.BAD_NUMBER),
    "long name": (parse_expr, "a" * 1_000_000, Code.BAD_NAME),
    "long value": (parse_program, program(f"  free %{'a' * 300}"), Code.BAD_NAME),
    "long operator": (
        parse_program,
        program(f"  extern_kernel {'a.' * 500_000}a()"),
        Code.BAD_NAME,
    ),
    "reserved": (parse_program, program("  assert_scalar none"), Code.UNEXPECTED),
    "unclosed string": (
        parse_program,
        program('  comment "' + "a" * 1_000_000),
        Code.BAD_STRING,
    ),
    "backslashes": (
        parse_program,
        program('  comment "' + "\\" * 1_000_001),
        Code.BAD_STRING,
    ),
    "surrogate": (parse_program, program('  comment "\\ud800"'), Code.BAD_STRING),
    "raw surrogate": (parse_program, program('  comment "\ud800"'), Code.BAD_ENCODING),
    "blocks": (
        parse_program,
        program(*["  subgraph_call @b () {\nbody () {"] * DEEP),
        Code.TOO_DEEP,
    ),
    "unclosed blocks": (
        parse_program,
        "wrapperir 1\nprogram @m() {\n" + "  subgraph_call @b () {\nbody () {\n" * 50,
        Code.UNCLOSED_BLOCK,
    ),
    "closing braces": (parse_program, program(*["}"] * DEEP), Code.MISPLACED_STATEMENT),
    "malformed blocks": (
        parse_program,
        program(*["  conditional {"] * DEEP),
        Code.UNEXPECTED,
    ),
    "malformed lines": (parse_program, program(*["  free"] * DEEP), Code.UNEXPECTED),
    "unknown words": (
        parse_program,
        program(*[f"  {'x' * 10_000} 1"] * 100),
        Code.UNKNOWN_STATEMENT,
    ),
    "version": (parse_program, "wrapperir 2\n", Code.UNKNOWN_VERSION),
    "huge version": (parse_program, f"wrapperir {'1' * 5000}\n", Code.UNKNOWN_VERSION),
    "empty": (parse_program, "", Code.BAD_HEADER),
    "NULs": (parse_program, "\0" * 1_000_000, Code.BAD_HEADER),
    "carriage returns": (
        parse_program,
        program("  free %a").replace("\n", "\r\n"),
        Code.BAD_ENCODING,
    ),
    "nested arrays": (parse_json, "[" * DEEP, Code.TOO_DEEP),
    "nested objects": (parse_json, '{"a":' * DEEP, Code.TOO_DEEP),
    "long JSON integer": (parse_json, f'{{"wrapperir": {"9" * 5000}}}', Code.BAD_NUMBER),
    "NaN": (parse_json, '{"wrapperir": NaN}', Code.BAD_JSON),
    "duplicate key": (
        parse_json,
        JSON.replace('"name":"sample"', '"name":"sample","name":"other"'),
        Code.DUPLICATE_KEY,
    ),
    "duplicate field": (
        parse_json,
        JSON.replace('"kind":"free"', '"kind":"free","buffer":"a"'),
        Code.DUPLICATE_KEY,
    ),
    "duplicate kind": (
        parse_json,
        JSON.replace('"kind":"free"', '"kind":"free","kind":"free"'),
        Code.DUPLICATE_KEY,
    ),
    "duplicate operand": (
        parse_json,
        JSON.replace('{"op":"min",', '{"args":[1,2],'),
        Code.DUPLICATE_KEY,
    ),
    "not an object": (parse_json, "[]", Code.WRONG_TYPE),
    "no version": (parse_json, "{}", Code.BAD_HEADER),
    "JSON version": (parse_json, '{"wrapperir": 2}', Code.UNKNOWN_VERSION),
    "true version": (parse_json, '{"wrapperir": true}', Code.UNKNOWN_VERSION),
    "missing field": (parse_json, '{"wrapperir": 1}', Code.MISSING_FIELD),
    "unknown field": (
        parse_json,
        JSON.replace('"outputs"', '"more":1,"outputs"'),
        Code.UNKNOWN_FIELD,
    ),
    "empty key": (
        parse_json,
        JSON.replace('"kind":"free"', '"kind":"free","":1'),
        Code.UNKNOWN_FIELD,
    ),
    "unknown kind": (
        parse_json,
        JSON.replace('"kind":"free"', '"kind":"fee"'),
        Code.UNKNOWN_WORD,
    ),
    "string for number": (
        parse_json,
        JSON.replace('"dim":0', '"dim":"0"'),
        Code.WRONG_TYPE,
    ),
    "true for number": (
        parse_json,
        JSON.replace('"dim":0', '"dim":true'),
        Code.WRONG_TYPE,
    ),
    "huge JSON float": (parse_json, JSON.replace("1.5", "1e999"), Code.BAD_NUMBER),
    "JSON surrogate": (
        parse_json,
        JSON.replace('"text":"', '"text":"\\ud800'),
        Code.BAD_STRING,
    ),
    "JSON name": (
        parse_json,
        JSON.replace('"result":"ws"', '"result":"w\\"\\ns"'),
        Code.BAD_NAME,
    ),
    "JSON reserved symbol": (
        parse_json,
        JSON.replace('"symbol":"s1"', '"symbol":"true"'),
        Code.BAD_NAME,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str) -> None:
    parse, text, code = HOSTILE[name]
    start = time.perf_counter()
    found = diagnostics(parse, text)
    seconds = time.perf_counter() - start
    assert code in {d.code for d in found}
    assert len(found) <= 100
    assert_placed(found, text)
    assert all(len(d.message) < 500 for d in found)
    # A guard against quadratic time, with room for a slow machine.
    assert seconds < 10


def test_many_symbols() -> None:
    lines = [f"  symbol s{i}: int = size(%x, 0)" for i in range(200_000)]
    (found,) = diagnostics(parse_program, program(*lines, "  free"))
    assert found.code is Code.UNEXPECTED
    assert found.position is not None
    assert found.position.line == 200_003


def test_deepest_of_everything_round_trips() -> None:
    expr = "-" * 100 + "s"
    lists = "[" * 32 + expr + "]" * 32
    types = "(" * 32 + f"f32[; offset {expr}]" + ")" * 32
    opening = [f"subgraph_call @b ({expr}) {{\nbody () {{"] * 64
    inner = f"extern_kernel a.b({lists}) : {types}"
    text = program(*opening, inner, *["return\n}\n}"] * 64)
    read = parse_program(text)
    assert parse_program(format_program(read)) == read
    assert parse_json(format_json(read)) == read


def test_every_error_is_reported_with_its_place() -> None:
    text = program("  fee %a", "  free a", "  free %a", "  %a = allocate f33[2]")
    found = diagnostics(parse_program, text)
    assert [(d.code, d.position and d.position.line) for d in found] == [
        (Code.UNKNOWN_STATEMENT, 3),
        (Code.UNEXPECTED, 4),
        (Code.UNKNOWN_WORD, 6),
    ]
    assert [d.hint for d in found] == ["did you mean `free`?", None, "did you mean `f32`?"]


@pytest.mark.parametrize("other", ["true", "1.0", '"1"'])
def test_what_equals_a_shared_object_is_not_taken_for_it(other: str) -> None:
    line = '{"kind":"kernel_call","kernel":"k","arguments":[],"device":%s}'
    device = '{"kind":"cuda","index":%s}'
    lines = ",".join(line % (device % index) for index in ("1", "1", other))
    text = format_json(Program()).replace('"lines":[]', f'"lines":[{lines}]')
    (found,) = diagnostics(parse_json, text)
    assert found.code is Code.WRONG_TYPE
    assert found.path == ("lines", 2, "device", "index")


def test_every_malformed_json_line_is_reported() -> None:
    text = JSON.replace('"kind":"free"', '"kind":"fee"').replace('"dim":0', '"dim":"0"')
    found = diagnostics(parse_json, text)
    assert [d.path for d in found] == [
        ("symbols", 0, "source", "dim"),
        ("lines", 3, "kind"),
    ]
    assert_placed(found, text)
    lines = text.split("\n")
    assert found[1].position is not None
    assert '"kind":"fee"' in lines[found[1].position.line - 1]


FORBIDDEN = (
    "exec",
    "compile",
    "import",
    "open",
    "os.",
    "subprocess.",
    "socket.",
    "ctypes.",
)


def test_reading_and_printing_execute_nothing() -> None:
    # Python removes no audit hook, and one slows all that its process does after.
    code = "from tests.text.test_hostile import forbidden_events as f; print(f())"
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True
    )
    assert result.stdout == "[]\n", result.stderr


def forbidden_events() -> list[str]:
    """Return the forbidden events of reading and printing."""
    parse_json(JSON)  # what is loaded late is loaded before
    parse_program(TEXT)
    seen: list[str] = []

    def watch(event: str, args: tuple[object, ...]) -> None:
        if event.startswith(FORBIDDEN):
            seen.append(f"{event} {args!r}")

    sys.addaudithook(watch)
    for read in (parse_program(TEXT), parse_json(JSON)):
        assert isinstance(read, Program)
        format_program(read)
        format_json(read)
    diagnostics(parse_program, TEXT[:-40])
    diagnostics(parse_json, JSON[:-40])
    return list(seen)
