"""A Python emitter that is wrong."""

import re

import pytest
from attrs import evolve

from wrapperir.emit import Artifact
from wrapperir.ir import Program
from wrapperir_python.emitter import ENTRY, PythonEmitter


def call_another(monkeypatch: pytest.MonkeyPatch, called: str, instead: str) -> None:
    """Have emitted Python call another function of a module in place of one."""
    emit = PythonEmitter.emit

    def wrong(self: PythonEmitter, program: Program) -> Artifact:
        artifact = emit(self, program)
        text = artifact.files[ENTRY]
        assert isinstance(text, str)
        changed = re.sub(rf"\.{called}\b", f".{instead}", text)
        return evolve(artifact, files={**artifact.files, ENTRY: changed})

    monkeypatch.setattr(PythonEmitter, "emit", wrong)
