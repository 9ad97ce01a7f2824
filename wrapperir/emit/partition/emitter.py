"""An emitter that gives another the parts of a program that the first one lacks."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from wrapperir.caching import digest_of
from wrapperir.diagnostics import Code
from wrapperir.emit.contract import (
    Artifact,
    ComingPrograms,
    DebugSource,
    Emitter,
    GraphCompiler,
    Loaded,
    Support,
)
from wrapperir.emit.partition.compile import (
    EmittedPart,
    Partition,
    PartPasses,
    partition_program,
)
from wrapperir.emit.partition.driver import PartitionedProgram
from wrapperir.emit.partition.plan import PartFacts, format_plan, parse_plan
from wrapperir.emit.partition.report import REPORT_FILE, format_partition, log_partition
from wrapperir.ir import Program
from wrapperir.text import format_program

if TYPE_CHECKING:
    import torch

    from wrapperir.pipelines import PassLike

PLAN_FILE = "plan.json"
SEPARATOR = "+"
"""Between the names of two emitters, the second the fallback of the first."""


def no_passes(emitter: Emitter) -> "Sequence[PassLike]":
    """Return no passes, for any emitter."""
    return ()


@frozen(eq=False)
class PartitioningEmitter(Emitter):
    """Emits by ``chosen``, and by ``fallback`` what that one lacks.

    A program that ``chosen`` takes as a whole is emitted as by ``chosen`` alone.  Of
    another, the artifact has the artifacts of all parts, their programs, the plan that runs
    them and the report.  ``passes`` run on each part.
    """

    chosen: Emitter
    fallback: Emitter
    passes: PartPasses = no_passes
    checks_inputs: bool = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """The names of both emitters."""
        return f"{self.chosen.name}{SEPARATOR}{self.fallback.name}"

    @property
    def support(self) -> Support:  # type: ignore[override]
        """What either of both emitters supports."""
        first, second = self.chosen.support, self.fallback.support
        return Support(
            lines=first.lines | second.lines,
            languages=first.languages | second.languages,
            devices=_united(first.devices, second.devices, first.hosted),
            streams=first.streams | second.streams,
            zero_modes=first.zero_modes | second.zero_modes,
            descriptors=first.descriptors or second.descriptors,
            choosing=first.choosing or second.choosing,
            branching=first.branching and second.branching,
            operators=_united(first.operators, second.operators),
            hosted=first.hosted | second.hosted,
            greatest_alignment=_greater(
                first.greatest_alignment, second.greatest_alignment
            ),
            limits=(*first.limits, *second.limits),
        )

    def checking_memory(self) -> Emitter:
        """Return this emitter, with both emitters checking their memory.

        Raises:
            DiagnosticError: WIR705, one of them has no such checks.
        """
        return self._with(lambda emitter: emitter.checking_memory())

    def trusting_inputs(self) -> Emitter:
        """Return this emitter, made for callers whose guards have checked the inputs."""
        return evolve(
            self._with(lambda emitter: emitter.trusting_inputs()), checks_inputs=False
        )

    def _with(self, change: Callable[[Emitter], Emitter]) -> "PartitioningEmitter":
        return evolve(self, chosen=change(self.chosen), fallback=change(self.fallback))

    def compiling_graphs(self, compile_graph: GraphCompiler) -> Emitter:
        """Return this emitter, with the graphs of the chosen one compiled.

        Raises:
            DiagnosticError: WIR705, the chosen emitter makes no graphs.
        """
        return evolve(self, chosen=self.chosen.compiling_graphs(compile_graph))

    def debugging(self, source: DebugSource) -> Emitter:
        """Return this emitter, with the code of the chosen one made for debuggers.

        Raises:
            DiagnosticError: WIR705, the chosen emitter has no such debug information.
        """
        return evolve(self, chosen=self.chosen.debugging(source))

    def cache_facts(self) -> str | None:
        """Return the facts of both emitters; ``None`` if one of them has none."""
        facts = [self.chosen.cache_facts(), self.fallback.cache_facts()]
        return None if None in facts else digest_of({"name": self.name, "facts": facts})

    def live_bytes(self, device: str) -> int | None:
        """Return the bytes that the chosen emitter counts."""
        return self.chosen.live_bytes(device)

    def preparations(self, coming: ComingPrograms) -> Sequence[Callable[[], object]]:
        """Return what both emitters prepare."""
        return (*self.chosen.preparations(coming), *self.fallback.preparations(coming))

    def partition(self, program: Program) -> Partition:
        """Return the emitted parts of a verified program, with their report.

        Raises:
            DiagnosticError: both emitters lack something for a line, or one of them fails.
        """
        return partition_program(
            program,
            self.chosen,
            self.fallback,
            self.passes,
            checks_inputs=self.checks_inputs,
        )

    def emit(self, program: Program) -> Artifact:
        """Return the artifact of all parts, or that of the chosen emitter alone.

        The report is logged.

        Raises:
            DiagnosticError: both emitters lack something for a line, or one of them fails.
        """
        found = self.partition(program)
        if found.plan is None:
            return found.parts[0].artifact
        log_partition(found.report)
        report = format_partition(found.report)
        files: dict[str, str | bytes] = {REPORT_FILE: report}
        facts: list[PartFacts] = []
        for number, part in enumerate(found.parts):
            folder = f"part{number}"
            files[f"{folder}.wir"] = format_program(part.program)
            files.update(_filed(part.artifact, folder))
            facts.append(_facts(part, folder))
        files[PLAN_FILE] = format_plan(found.plan, facts)
        return Artifact(self.name, files, PLAN_FILE)

    def shown_files(self, artifact: Artifact) -> Sequence[str]:
        """Return the report, then the code of each part."""
        parts = self._parts(artifact)
        if parts is None:
            return self._emitter(artifact.emitter).shown_files(artifact)
        shown = [
            f"{folder}/{path}"
            for folder, part in parts.items()
            for path in self._emitter(part.emitter).shown_files(part)
        ]
        return (REPORT_FILE, *shown)

    def build(
        self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]
    ) -> Artifact:
        """Return the artifact, with the code of its parts compiled ahead.

        Raises:
            DiagnosticError: a constant is missing, or something does not compile.
        """
        parts = self._parts(artifact)
        if parts is None:
            return self._emitter(artifact.emitter).build(artifact, constants)
        files = dict(artifact.files)
        for folder, part in parts.items():
            built = self._emitter(part.emitter).build(part, constants)
            files.update(_filed(built, folder))
        return evolve(artifact, files=files)

    def load(self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]) -> Loaded:
        """Load all parts; this compiles and executes their code.

        Raises:
            DiagnosticError: WIR710, the plan is malformed; WIR707, a constant is missing;
                or a kernel does not compile.
        """
        parts = self._parts(artifact)
        if parts is None:
            return self._emitter(artifact.emitter).load(artifact, constants)
        plan, _ = parse_plan(_text(artifact, PLAN_FILE))
        for name in plan.constants.values():
            if name not in constants:
                message = f"no tensor was given for constant {name[:80]!a}"
                raise Code.MISSING_CONSTANT.error(message)
        return PartitionedProgram(
            plan,
            [self._emitter(each.emitter).load(each, constants) for each in parts.values()],
            {key: constants[name] for key, name in plan.constants.items()},
        )

    def _emitter(self, name: str) -> Emitter:
        """Return the emitter that made an artifact."""
        from wrapperir.plugin import plugin_manager  # plugins are imported late

        own = {self.fallback.name: self.fallback, self.chosen.name: self.chosen}
        return own[name] if name in own else plugin_manager().emitter(name)

    def _parts(self, artifact: Artifact) -> Mapping[str, Artifact] | None:
        """Return the artifact of each part by its folder; ``None`` if it has no parts."""
        if artifact.emitter != self.name:
            return None
        _, facts = parse_plan(_text(artifact, PLAN_FILE))
        parts: dict[str, Artifact] = {}
        for part in facts:
            folder = part.folder
            files = {
                path.removeprefix(f"{folder}/"): content
                for path, content in artifact.files.items()
                if path.startswith(f"{folder}/")
            }
            shown = None if artifact.folder is None else artifact.folder / folder
            parts[folder] = Artifact(
                part.emitter, files, part.entry, part.metadata, folder=shown
            )
        return parts


def _united(
    first: frozenset[str] | None,
    second: frozenset[str] | None,
    more: frozenset[str] = frozenset(),
) -> frozenset[str] | None:
    return None if first is None or second is None else first | second | more


def _greater(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else max(first, second)


def _filed(artifact: Artifact, folder: str) -> dict[str, str | bytes]:
    return {f"{folder}/{path}": content for path, content in artifact.files.items()}


def _facts(part: EmittedPart, folder: str) -> PartFacts:
    artifact = part.artifact
    return PartFacts(
        folder=folder,
        emitter=artifact.emitter,
        entry=artifact.entry,
        metadata=dict(artifact.metadata),
    )


def _text(artifact: Artifact, path: str) -> str:
    content = artifact.files.get(path, "")
    return content if isinstance(content, str) else ""
