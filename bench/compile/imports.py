"""Time of `import wrapperir` and of its text parser, beside `import xdsl.parser`.

Each import runs in new interpreters, which take turns; the medians are compared.
"""

import statistics
import subprocess
import sys

ROUNDS = 21
STATEMENTS = {
    "import wrapperir": "import wrapperir",
    "its parser": "from wrapperir import parse_program",
    "import xdsl.parser": "import xdsl.parser",
}
GOAL = 0.6


def seconds(statement: str) -> float:
    """Return the seconds that a statement takes in a fresh interpreter."""
    script = (
        "import time; start = time.perf_counter()\n"
        f"{statement}\n"
        "print(time.perf_counter() - start)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    """Print the medians and the ratios to xDSL's."""
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(ROUNDS):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, value in medians.items():
        ratio = value / medians["import xdsl.parser"]
        print(f"{name:20} {1000 * value:7.1f} ms  {ratio:.2f} of xDSL's (goal {GOAL})")


if __name__ == "__main__":
    main()
