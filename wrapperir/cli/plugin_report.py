"""The table of ``plugins check``, and its failures with the commands that repeat them."""

import shlex
from collections.abc import Iterable, Sequence

import click

from wrapperir.cli.progress import stage
from wrapperir.cli.source import notice, shows_tracebacks
from wrapperir.diagnostics import Code, did_you_mean
from wrapperir.emit import Emitter
from wrapperir.ir import Program
from wrapperir.testing.suite import (
    CheckReport,
    CheckResult,
    CheckSelection,
    Status,
    check_emitter,
    check_program,
    suite_names,
)
from wrapperir.testing.suite.features import DRAWN

_MOST_FAILURES = 20
"""Failures that are shown of one run."""
_END = "END_OF_PROGRAM"


def check_and_report(
    emitter: Emitter,
    *,
    program: Program | None = None,
    features: Sequence[str] = (),
    cases: Sequence[str] = (),
    devices: Sequence[str] = (),
    examples: int = 0,
    seed: int = 0,
) -> bool:
    """Check an emitter, or one program of it, write the table, and return if all is well.

    Raises:
        DiagnosticError: WIR910, a feature, case or device does not exist.
    """
    known = suite_names(emitter)
    for given, names in zip((features, cases, devices), known, strict=True):
        for name in given:
            _check_name(name, names)
    if program is not None:
        _announce(emitter)
        with stage("checking"):
            device = devices[0] if devices else None
            report = check_program(emitter, program, seed, device)
    else:
        selection = CheckSelection(
            features=frozenset(features) or None,
            cases=frozenset(cases) or None,
            devices=frozenset(devices) or None,
            examples=examples,
            seed=seed,
        )
        _announce(emitter)
        with stage("checking"):
            report = check_emitter(emitter, selection)
    text = format_report(
        report,
        emitter.name,
        show_programs=bool(cases),
        show_tracebacks=bool(cases) or shows_tracebacks(),
    )
    click.echo(text, nl=False)
    return report.holds


def _announce(emitter: Emitter) -> None:
    notice(f"executing code of the {emitter.name} emitter")


def _check_name(name: str, known: Sequence[str]) -> None:
    if name in known:
        return
    hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
    raise Code.UNKNOWN_CHECK.error(f"no check is named {name[:80]!a}", hint=hint)


def format_report(
    report: CheckReport,
    emitter: str,
    *,
    show_programs: bool = False,
    show_tracebacks: bool = False,
) -> str:
    """Return the table of a report, then what failed and why the rest was skipped."""
    parts = [_format_table(report)]
    failures = report.of(Status.FAILED)
    if failures:
        parts.append(f"\nfailed: {len(failures)}\n")
        for result in failures[:_MOST_FAILURES]:
            parts.append(_format_failure(result, emitter, show_programs))
            if show_tracebacks and result.traceback:
                parts.append("".join(f"    {x}\n" for x in result.traceback.splitlines()))
        if len(failures) > _MOST_FAILURES:
            parts.append(f"  and {len(failures) - _MOST_FAILURES} more\n")
    skipped = report.of(Status.SKIPPED)
    if skipped:
        parts.append(f"\nskipped: {len(skipped)}\n{_format_skipped(skipped)}")
    if not report.of(Status.PASSED) and not failures:
        parts.append("\nNothing was run, which is a failure.\n")
    return "".join(parts)


def _format_table(report: CheckReport) -> str:
    rows = [["FEATURE", "PASSED", "FAILED", "SKIPPED"]]
    for feature, counts in report.rows().items():
        rows.append([feature, *(str(counts[status]) for status in Status)])
    rows.append(["all", *(str(len(report.of(status))) for status in Status)])
    width = max(len(row[0]) for row in rows)
    return "".join(
        f"{row[0].ljust(width)}" + "".join(f"{cell:>9}" for cell in row[1:]) + "\n"
        for row in rows
    )


def _format_failure(result: CheckResult, emitter: str, show_program: bool) -> str:
    title = f"  {result.feature}: {result.case}\n"
    reason = "".join(f"    {line}\n" for line in result.reason.splitlines())
    feature, _, device = result.feature.partition(" on ")
    command = f"wrapperir plugins check {emitter}"
    if device:
        command = f"{command} --device {device}"
    if feature == DRAWN:
        program = f"{command} --program - --seed {result.seed} <<'{_END}'\n"
        return f"{title}{reason}    repeat with:\n{program}{result.program}{_END}\n"
    repeat = f"{command} --feature {shlex.quote(feature)} --case {result.case}"
    text = f"{title}{reason}    repeat with: {repeat}\n"
    if show_program and result.program:
        text += "".join(f"    {line}\n" for line in result.program.splitlines())
    return text


def _format_skipped(skipped: Iterable[CheckResult]) -> str:
    """Return each reason with the features and numbers of checks that it skipped."""
    reasons: dict[str, dict[str, int]] = {}
    for result in skipped:
        counts = reasons.setdefault(result.reason, {})
        counts[result.feature] = counts.get(result.feature, 0) + 1
    return "".join(
        f"  {reason}\n    {', '.join(f'{name} ({n})' for name, n in counts.items())}\n"
        for reason, counts in reasons.items()
    )
