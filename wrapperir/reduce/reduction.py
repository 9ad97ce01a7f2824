"""Delta debugging of a program: smaller ones are tried while any still shows the fault.

The parts of each kind are removed in chunks, as in A. Zeller and R. Hildebrandt,
*Simplifying and isolating failure-inducing input* (2002), from half of them to single ones,
until no part can be removed.
"""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeAlias

from wrapperir.diagnostics import Code
from wrapperir.ir import Program
from wrapperir.reduce.parts import PART_KINDS, PartKind
from wrapperir.verify import verify

Interesting: TypeAlias = Callable[[Program], bool]
"""Says whether a program still shows what is looked for."""


def reduce_program(
    program: Program,
    is_interesting: Interesting,
    *,
    jobs: int = 1,
    rejected: set[str] | None = None,
    tell: Callable[[Program, int], None] | None = None,
) -> Program:
    """Return a small program that is interesting, too: no part of it can be removed.

    Every program that is tried is one that the verifier accepts, or has no other codes than
    ``program`` itself.  The result is the same for any number of ``jobs``, the threads that
    ask ``is_interesting``.  ``rejected`` keeps the digests of programs that are not
    interesting, so that a reduction goes on where another one was stopped.  ``tell`` is
    given each program that is smaller than those before, and how many were tried so far.

    Raises:
        DiagnosticError: WIR913, ``program`` is not interesting.
    """
    if not is_interesting(program):
        raise Code.NOTHING_TO_REDUCE.error(
            "the program does not show what the reduction looks for",
            hint="the oracle must hold for the program that is reduced; see what it does",
        )
    with ThreadPoolExecutor(jobs) as pool:
        search = _Search(program, is_interesting, jobs, pool, rejected, tell)
        while True:
            before = search.best
            for kind in PART_KINDS:
                search.remove(kind)
            if search.best == before:
                return before


class _Search:
    """The smallest program so far, and what was tried."""

    def __init__(
        self,
        program: Program,
        is_interesting: Interesting,
        jobs: int,
        pool: ThreadPoolExecutor,
        rejected: set[str] | None,
        tell: Callable[[Program, int], None] | None,
    ) -> None:
        self.best = program
        self._codes = _codes_of(program)
        self._is_interesting = is_interesting
        self._jobs = jobs
        self._pool = pool
        self._rejected: set[str] = set() if rejected is None else rejected
        self._tell = tell
        self._tried = 0

    def remove(self, kind: PartKind) -> None:
        """Remove parts of a kind, in smaller and smaller chunks."""
        size = kind.count(self.best)
        while size:
            start: int | None = 0
            while start is not None:
                start = self._first_interesting(kind, start, size)
            size //= 2

    def _first_interesting(self, kind: PartKind, start: int, size: int) -> int | None:
        """Take the first interesting program without a chunk; return where the chunk began.

        Chunks before ``start`` are known to be needed.
        """
        candidates = self._candidates(kind, start, size)
        while batch := list(islice(candidates, self._jobs)):
            programs = [program for _, program, _ in batch]
            self._tried += len(batch)
            answers = list(self._pool.map(self._is_interesting, programs))
            for (at, program, digest), is_interesting in zip(batch, answers, strict=True):
                if is_interesting:
                    self.best = program
                    if self._tell is not None:
                        self._tell(program, self._tried)
                    return at
                self._rejected.add(digest)
        return None

    def _candidates(
        self, kind: PartKind, start: int, size: int
    ) -> Iterator[tuple[int, Program, str]]:
        """Yield where a chunk began, a program without it, and the program's digest."""
        best = self.best
        count = kind.count(best)
        for at in range(start, count, size):
            for program in kind.without(best, at, min(at + size, count)):
                if program == best or not _codes_of(program) <= self._codes:
                    continue
                # Not its text: not all programs have one.
                digest = hashlib.sha256(repr(program).encode()).hexdigest()
                if digest not in self._rejected:
                    yield at, program, digest


def _codes_of(program: Program) -> set[Code]:
    return {diagnostic.code for diagnostic in verify(program)}
