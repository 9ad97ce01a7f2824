"""Emitters: the contract, the source writer, artifacts, and the pipeline to a callable."""

from wrapperir.emit.artifact import artifact_digest, read_artifact, write_artifact
from wrapperir.emit.contract import (
    Artifact,
    ComingPrograms,
    DebugSource,
    Emitter,
    GraphCompiler,
    Loaded,
    OutputCode,
    Support,
    Value,
)
from wrapperir.emit.pipeline import compile_program, emit_program
from wrapperir.emit.recordings import drop_recordings
from wrapperir.emit.source_text import (
    Fragment,
    Namespace,
    NameTable,
    SourceWriter,
    escape_comment,
    fragment,
    joined,
)
from wrapperir.emit.support import check_support

__all__ = [
    "Artifact",
    "ComingPrograms",
    "DebugSource",
    "Emitter",
    "Fragment",
    "GraphCompiler",
    "Loaded",
    "NameTable",
    "Namespace",
    "OutputCode",
    "SourceWriter",
    "Support",
    "Value",
    "artifact_digest",
    "check_support",
    "compile_program",
    "drop_recordings",
    "emit_program",
    "escape_comment",
    "fragment",
    "joined",
    "read_artifact",
    "write_artifact",
]
