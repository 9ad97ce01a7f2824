"""Checks in a fresh process: children of one that uses a device cannot use it."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import TypeAlias

Result: TypeAlias = tuple[str, str, str, str]
"""The feature, case, status and reason of a check."""

SCRIPT = """
import json, sys
from pathlib import Path
from wrapperir.testing.suite import CheckSelection, check_emitter
from wrapperir.emit.c import HEADERS, program_text
from wrapperir_opencl import emitter, lines
found = []
for header, cases in json.loads(sys.argv[1]):
    other = {Path(header).name: Path(header)} if header else {}
    program_text.HEADERS = [other.get(path.name, path) for path in HEADERS]
    driver = Path(lines.__file__).with_name("wir_opencl.h")
    lines.OpenclLines.driver = other.get(driver.name, driver)
    cases = frozenset(cases) or None
    selection = CheckSelection(devices=frozenset({"opencl"}), cases=cases, examples=10)
    report = check_emitter(emitter.OpenclEmitter(), selection)
    found.append([[r.feature, r.case, r.status.value, r.reason] for r in report.results])
print(json.dumps(found))
"""


def check(*runs: tuple[str, Sequence[str]]) -> list[list[Result]]:
    """Return the results of runs on the OpenCL device.

    Each is the path of a header in place of that of its name, and cases; empty is as usual.
    """
    command = [sys.executable, "-c", SCRIPT, json.dumps(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [[(a, b, c, d) for a, b, c, d in results] for results in json.loads(done.stdout)]
