"""The published JSON Schema is current and says what readers do."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings

from tests.draws import draws
from wrapperir.ir import Program
from wrapperir.testing.arbitrary import programs
from wrapperir.text import format_json
from wrapperir.text.json_schema import format_json_schema, json_schema

from .samples import SAMPLE

FILE = Path(__file__).parents[2] / "docs/reference/wrapperir.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_published_schema_is_current() -> None:
    message = f"run: python -m wrapperir.text.json_schema > {FILE.name}"
    assert FILE.read_text() == format_json_schema(), message


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_schema_accepts_the_sample() -> None:
    VALIDATOR.validate(json.loads(format_json(SAMPLE)))


@settings(max_examples=draws(20, fuzz=40))
@given(programs)
def test_schema_accepts_what_is_written(program: Program) -> None:
    VALIDATOR.validate(json.loads(format_json(program)))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ('"wrapperir":1', '"wrapperir":2'),
        ('"kind":"free"', '"kind":"fee"'),
        ('"dim":0', '"dim":"0"'),
        ('"result":"ws"', '"result":"w s"'),
        ('"kind":"free",', '"kind":"free","more":1,'),
        ('"source":"ws",', ""),
        ('"kind":"allocate_pool"', '"kind":"allocate"'),
        ('"kind":"place",', '"kind":"place","more":1,'),
        ('"pool":"inner",', ""),
        ('"alignment":512', '"alignment":"512"'),
        ('"kind":"event"', '"kind":"pool"'),
        ('"kind":"wait_event"', '"kind":"record_event"'),
        ('"dtype":"f32"', '"dtype":"f31"'),
        ('{"symbol":"s0"}', '{"symbol":1}'),
        ('"index":0', '"index":-1'),
    ],
)
def test_schema_refuses(was: str, becomes: str) -> None:
    text = format_json(SAMPLE)
    assert was in text
    assert not VALIDATOR.is_valid(json.loads(text.replace(was, becomes)))
