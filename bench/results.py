"""Results of a sweep on disk, one JSON object a line, so that a sweep can resume."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

import click
from attrs import frozen

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.pipeline import find_emitter

Record: TypeAlias = Mapping[str, str | int | float | bool | None]
"""One result; its ``name`` says of what."""

ROOT = Path(__file__).parents[1]
DEFAULT_EMITTER = "python"


def known_emitter(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """Return the name of an installed emitter, as the command line gave it."""
    try:
        return find_emitter(name).name
    except DiagnosticError as error:
        raise click.BadParameter(error.diagnostics[0].message) from error


def of_emitter(name: str, emitter: str) -> str:
    """Return the name of a sweep's files for an emitter; no suffix for the default."""
    return name if emitter == DEFAULT_EMITTER else f"{name}-{emitter}"


def emitter_words(emitter: str) -> dict[str, str]:
    """Return the words for an emitter in an introduction; none for the default."""
    if emitter == DEFAULT_EMITTER:
        return {"title": "", "option": "", "setting": ""}
    return {
        "title": f" with the emitter {emitter}",
        "option": f',\n`options={{"emitter": "{emitter}"}}`,',
        "setting": f" EMITTER={emitter}",
    }


def tested_versions() -> str:
    """Return the versions that results depend on."""
    return " ".join(f"{name}-{version(name)}" for name in ("wrapperir", "torch"))


@frozen
class ResultFile:
    """The results of one sweep for the versions installed."""

    path: Path

    @classmethod
    def of(cls, sweep: str) -> "ResultFile":
        """Return the file of a sweep; its folder is made when a result is added."""
        name = tested_versions().replace(" ", "_") + ".jsonl"
        return cls(ROOT / "out" / sweep / name)

    def read(self) -> dict[str, Record]:
        """Return the results by name, the latest of each; a torn last line is dropped."""
        if not self.path.exists():
            return {}
        records: dict[str, Record] = {}
        for line in self.path.read_text().splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            records[record["name"]] = record
        return records

    def add(self, record: Record) -> None:
        """Append a result."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def clear(self) -> None:
        """Forget every result."""
        self.path.unlink(missing_ok=True)
