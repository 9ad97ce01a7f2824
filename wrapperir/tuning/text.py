"""The report of tuning as text: the decision for each kernel and its reason."""

import math
from collections.abc import Iterator, Sequence

from wrapperir.ir import Expr, ExprOp, Operation
from wrapperir.report import counted, visible
from wrapperir.text import format_expr
from wrapperir.tuning.report import (
    CaseReport,
    KernelReport,
    Score,
    TuningReport,
    chosen_score,
    shown_cases,
    single_scores,
)


def format_tuning(report: TuningReport) -> str:
    """Return the report as lines of text; control characters are shown escaped."""
    return "".join(f"{visible(line)}\n" for line in _lines(report))


def _lines(report: TuningReport) -> Iterator[str]:
    if not report.kernels:
        yield f"tuning of @{report.program}: it has no kernels to choose between"
        return
    yield f"tuning of @{report.program} with the {report.emitter} emitter"
    for kernel in report.kernels:
        yield ""
        yield from _kernel(kernel)
    yield ""
    known = f", {report.cached} of them known before" if report.cached else ""
    yield f"in all {counted(report.cases, 'case')}{known}; {report.seconds:.2f} s"


def _kernel(kernel: KernelReport) -> Iterator[str]:
    names = [f"@{name}" for name in kernel.choices]
    if kernel.chosen is None:
        yield f"@{kernel.kernel}: not tuned: {kernel.reason}"
    elif isinstance(kernel.chosen, Operation):
        yield f"@{kernel.kernel}: by sizes"
        yield from _tree(kernel.chosen, names, "  ")
    else:
        assert isinstance(kernel.chosen, int)
        yield f"@{kernel.kernel}: always {names[kernel.chosen]}"
    if kernel.chosen is not None and kernel.reason:
        yield f"  {kernel.reason}"
    for failure in kernel.failures:
        yield f"  @{failure.choice} has no time: {failure.reason}"
    if any(case.best is not None for case in kernel.cases):
        yield f"  on {kernel.device}"
        yield from _ratios(kernel, names)
        yield from _cases(kernel, names)
    cached = sum(case.cached for case in kernel.cases)
    if kernel.cases:
        known = f", {cached} of them known before" if cached else ""
        yield f"  {counted(len(kernel.cases), 'case')}{known}; {kernel.seconds:.2f} s"


def _tree(tree: Expr, names: Sequence[str], indent: str) -> Iterator[str]:
    """Yield a decision tree as conditions, one a line, each with its consequence."""
    word = "if"
    while isinstance(tree, Operation) and tree.op is ExprOp.WHERE:
        condition, yes, no = tree.args
        if isinstance(yes, Operation):
            yield f"{indent}{word} {format_expr(condition)}:"
            yield from _tree(yes, names, f"{indent}  ")
        else:
            yield f"{indent}{word} {format_expr(condition)}: {_name(yes, names)}"
        tree, word = no, "else if"
    yield f"{indent}else: {_name(tree, names)}"


def _name(leaf: Expr, names: Sequence[str]) -> str:
    return names[leaf] if isinstance(leaf, int) else format_expr(leaf)


def _ratios(kernel: KernelReport, names: Sequence[str]) -> Iterator[str]:
    """Yield the ratio of each choice's time to the fastest's, if it were always taken."""
    singles = single_scores(kernel)
    chosen = chosen_score(kernel)
    best = [
        sum(case.best == at for case in kernel.cases) for at in range(len(kernel.choices))
    ]
    rows = [("", "of the best time", "at worst", "best at")]
    if isinstance(kernel.chosen, Operation):
        rows.append(("as chosen", *_scored(chosen), ""))
    for at, (name, single) in enumerate(zip(names, singles, strict=True)):
        rows.append((f"{at} {name}", *_scored(single), counted(best[at], "case")))
    yield from _table(rows, named=True)
    if chosen is None:
        return
    others = [
        (single.mean, at)
        for at, single in enumerate(singles)
        if single is not None and at != kernel.chosen
    ]
    if others:
        mean, at = min(others)
        first = singles[0]
        text = f"  {names[at]}, the next best, takes {mean / chosen.mean:.2f} times as long"
        if first is not None and at != 0 and kernel.chosen != 0:
            text += f", and {names[0]}, the first, {first.mean / chosen.mean:.2f} times"
        yield text


def _scored(found: Score | None) -> tuple[str, str]:
    return ("failed", "") if found is None else (f"{found.mean:.2f}", f"{found.worst:.2f}")


def _cases(kernel: KernelReport, names: Sequence[str]) -> Iterator[str]:
    timed = sum(case.best is not None for case in kernel.cases)
    shown = shown_cases(kernel)
    headings = [shown.cases[0].values[at][0] for at in shown.columns]
    rows = [(*headings, *(f"{name} us" for name in names))]
    for case in shown.cases:
        numbers = (str(case.values[at][1]) for at in shown.columns)
        rows.append((*numbers, *_times(kernel, case)))
    yield from _table(rows, named=False)
    if len(shown.cases) < timed:
        yield f"  {len(shown.cases)} of {timed} cases are shown; * is what is chosen"
    else:
        yield "  * is what is chosen"


def _times(kernel: KernelReport, case: CaseReport) -> Iterator[str]:
    chosen = kernel.chosen_at(case)
    for at, time in enumerate(case.microseconds):
        mark = "*" if at == chosen else " "
        yield f"failed{mark}" if time is None else f"{_shown(time)}{mark}"


def _shown(time: float) -> str:
    """Return microseconds with four digits, or as many as a whole number has."""
    digits = 3 if time <= 0 else min(max(3 - math.floor(math.log10(time)), 0), 3)
    return f"{time:.{digits}f}"


def _table(rows: Sequence[tuple[str, ...]], *, named: bool) -> Iterator[str]:
    """Yield rows in aligned columns; ``named`` rows begin with a name."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        if named:
            cells[0] = row[0].ljust(widths[0])
        yield f"    {'  '.join(cells)}".rstrip()
