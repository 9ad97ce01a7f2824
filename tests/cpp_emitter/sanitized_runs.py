"""Runs programs whose host code reports errors of memory and undefined behaviour.

It is run with the sanitizers loaded, and given a compiler that adds them and a number n:
every n-th program runs.
"""

import os
import sys

from hypothesis import HealthCheck, Phase, given, settings

from tests.cpp_emitter import test_multi_kernels
from tests.cpp_emitter.test_conformance import has_triton
from wrapperir.ir import Language, Program
from wrapperir.kernels import cpp_build, find_compiler
from wrapperir.testing import CASES, Case, Outcome, check_case, programs
from wrapperir_cpp.emitter import CppEmitter

GENERATED = 12


def run_generated(count: int) -> None:
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(programs(languages=(Language.CPP,), max_steps=24))
    def check(program: Program) -> None:
        run(Case("generated", program, seeds=(0,)))

    check()


def run(case: Case) -> None:
    print(case.name, flush=True)
    assert check_case(CppEmitter(), case) is Outcome.PASSED


def run_multi_kernels() -> None:
    print("multi-kernels", flush=True)
    # No other program has its kernels, so they are compiled together.
    os.cpu_count = lambda: 1
    emitter = CppEmitter()
    call = emitter.load(emitter.emit(test_multi_kernels.PROGRAM), {})
    for rows, columns, sometimes in ((3, 5, 0), (0, 0, 8), (16, 4096, 8)):
        test_multi_kernels.assert_each_ran_once(
            test_multi_kernels.run(call, rows, columns, sometimes)
        )


def main() -> None:
    # Kernels take long to compile, and are not ours: they keep the plain compiler.
    plain = find_compiler()
    setattr(cpp_build, "find_compiler", lambda: plain)  # noqa: B010
    os.environ["CXX"] = sys.argv[1]
    # They are loaded; compilers, which use much memory, would only be slower with them.
    del os.environ["LD_PRELOAD"]
    # Each kernel is compiled alone, and then kept for all programs that have it.
    os.cpu_count = lambda: 64
    nth = int(sys.argv[2])
    for case in [case for case in CASES if not has_triton(case)][::nth]:
        run(case)
    run_generated(GENERATED // nth)
    run_multi_kernels()


if __name__ == "__main__":
    main()
