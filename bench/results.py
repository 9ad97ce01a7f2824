"""Results of a sweep on disk, one JSON object a line, so that a sweep can resume."""

import json
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click
from attrs import frozen

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.pipeline import find_emitter

F = TypeVar("F", bound=Callable[..., Any])

Record: TypeAlias = Mapping[str, str | int | float | bool | None]
"""One result; its ``name`` says of what."""

ROOT = Path(__file__).parents[1]
DEFAULT_EMITTER = "python"
DEFAULT_FRONTEND = "inductor"


@frozen
class Variant:
    """What a sweep tries: an emitter and a frontend of the backend."""

    emitter: str = DEFAULT_EMITTER
    frontend: str = DEFAULT_FRONTEND

    @property
    def options(self) -> dict[str, str]:
        """The options of the backend."""
        given = {"emitter": self.emitter}
        if self.frontend != DEFAULT_FRONTEND:
            given["frontend"] = self.frontend
        return given

    def file_name(self, name: str) -> str:
        """Return the name of a sweep's files; defaults have no suffix."""
        emitter = "" if self.emitter == DEFAULT_EMITTER else f"-{self.emitter}"
        frontend = "" if self.frontend == DEFAULT_FRONTEND else f"-{self.frontend}"
        return f"{name}{frontend}{emitter}"

    @property
    def words(self) -> dict[str, str]:
        """The words for it in an introduction; none for the defaults."""
        named: dict[str, str] = {}
        if self.frontend != DEFAULT_FRONTEND:
            named["frontend"] = self.frontend
        if self.emitter != DEFAULT_EMITTER:
            named["emitter"] = self.emitter
        if not named:
            return {"title": "", "option": "", "setting": ""}
        title = " and ".join(f"the {key} {name}" for key, name in named.items())
        options = ", ".join(f'"{key}": "{name}"' for key, name in named.items())
        setting = "".join(f" {key.upper()}={name}" for key, name in named.items())
        return {
            "title": f" with {title}",
            "option": f",\n`options={{{options}}}`,",
            "setting": setting,
        }


def known_emitter(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """Return the name of an installed emitter, as the command line gave it."""
    try:
        return find_emitter(name).name
    except DiagnosticError as error:
        raise click.BadParameter(error.diagnostics[0].message) from error


def variant_options(command: F) -> F:
    """Take ``--emitter`` and ``--frontend``."""
    emitter = click.option("--emitter", default=DEFAULT_EMITTER, callback=known_emitter)
    choices = click.Choice([DEFAULT_FRONTEND, "lowering"])
    frontend = click.option("--frontend", default=DEFAULT_FRONTEND, type=choices)
    return emitter(frontend(command))


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
