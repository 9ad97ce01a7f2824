"""Diagnostics as SARIF logs: the form of the standard, and places that are right."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wrapperir.diagnostics import (
    CheckedFile,
    Code,
    Diagnostic,
    Note,
    Position,
    Severity,
    format_diagnostics_sarif,
)
from wrapperir.text import parse_with_positions

TEXT = """wrapperir 1
program @main(%x: f32[4]) {
  free %x
  free %x
  return %x
}
"""
POSITIONS = parse_with_positions(TEXT).positions
TWICE = Diagnostic(
    code=Code.BAD_NAME,
    message="%x is dropped twice",
    path=("lines", 1),
    subject="%x",
    notes=(Note(message="dropped here", path=("lines", 0)),),
    hint="drop it once",
)


def run_of(*files: CheckedFile) -> dict[str, Any]:
    log = json.loads(format_diagnostics_sarif(files, "1.2.3"))
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert set(run) == {"tool", "columnKind", "artifacts", "results"}
    check_indices(run)
    return dict(run)


def check_indices(run: dict[str, Any]) -> None:
    """Check what the standard asks of references between the parts of a run."""
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        assert result["message"]["text"]
        related = result.get("relatedLocations", [])
        assert [place["id"] for place in related] == [*range(1, len(related) + 1)]
        for place in (*result["locations"], *related):
            where = place["physicalLocation"]
            file = where["artifactLocation"]
            assert run["artifacts"][file["index"]]["location"]["uri"] == file["uri"]
            region = where.get("region")
            if region is not None:
                assert region["startLine"] == region["endLine"] >= 1
                assert region["endColumn"] > region["startColumn"] >= 1


def test_a_diagnostic_has_its_rule_its_place_and_its_notes() -> None:
    run = run_of(CheckedFile("programs/add.wir", TEXT, POSITIONS, (TWICE,)))
    (result,) = run["results"]
    (place,) = result["locations"]
    where = {"uri": "programs/add.wir", "index": 0}
    assert place["physicalLocation"] == {
        "artifactLocation": where,
        "region": {"startLine": 4, "startColumn": 8, "endLine": 4, "endColumn": 10},
    }
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["region"]["startLine"] == 3
    assert related["message"] == {"text": "dropped here"}
    assert result["message"]["text"] == "%x is dropped twice (hint: drop it once)"
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["semanticVersion"]) == ("wrapperir", "1.2.3")
    assert driver["rules"] == [
        {
            "id": "WIR010",
            "name": "BadName",
            "shortDescription": {"text": "bad name"},
            "help": {"text": "WIR010 in docs/reference/diagnostics/reading.md"},
        }
    ]


def test_each_rule_names_the_page_that_has_its_code() -> None:
    found = tuple(Diagnostic(code=code, message="m") for code in Code)
    run = run_of(CheckedFile("a.wir", "", {}, found))
    root = Path(__file__).parents[2]
    for rule in run["tool"]["driver"]["rules"]:
        code, page = rule["help"]["text"].split(" in ")
        assert f"\n## {code} " in (root / page).read_text()


def test_files_are_relative_or_absolute() -> None:
    names = ["a b.wir", "/models/a.wir", "<stdin>"]
    run = run_of(*(CheckedFile(name, "", {}, ()) for name in names))
    assert [each["location"]["uri"] for each in run["artifacts"]] == [
        "a%20b.wir",
        "file:///models/a.wir",
        "%3Cstdin%3E",
    ]
    assert run["results"] == []


positions = st.builds(Position, st.integers(1, 99), st.integers(1, 99), st.integers(0, 99))
diagnostics = st.builds(
    Diagnostic,
    code=st.sampled_from(Code),
    message=st.text(min_size=1),
    severity=st.sampled_from(Severity),
    path=st.sampled_from([None, *POSITIONS, ("lines", 99)]),
    subject=st.none() | st.text(),
    position=st.none() | positions,
    notes=st.lists(
        st.builds(Note, message=st.text(), position=st.none() | positions), max_size=2
    ).map(tuple),
    hint=st.none() | st.text(),
    origin=st.none() | st.text(),
)
files = st.builds(
    CheckedFile,
    st.text(min_size=1).filter(lambda name: "\0" not in name),
    st.just(TEXT),
    st.just(POSITIONS),
    st.lists(diagnostics, max_size=4).map(tuple),
)


@given(st.lists(files, max_size=3))
def test_any_diagnostics_make_a_log(given_files: list[CheckedFile]) -> None:
    run = run_of(*given_files)
    codes = [x.code.value for file in given_files for x in file.diagnostics]
    assert [result["ruleId"] for result in run["results"]] == codes
