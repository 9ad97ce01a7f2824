"""The page of starts on a GPU, from processes that are made up."""

import os
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from bench.gpu import starts
from bench.gpu.starts import CONTENDERS, Starts, format_table, measure_apart

MISSED = """\
Goals that are missed:

- gpt2, warm, own kernels: 1.00 (goal 0.80)
"""


def test_ratios_are_to_inductor_s() -> None:
    found = {
        "inductor": Starts(10.0, (4.0, 2.0, 3.0)),
        "python": Starts(9.0, (3.0, 1.5, 1.0)),
        "cpp": Starts(skipped="no compiler"),
        "lowering": Starts(2.5, (3.0,)),
    }
    table = format_table({"gpt2": found, "bert": {"python": Starts(5.0, (2.0,))}})
    assert "| gpt2 | cold | 10.00 | 9.00 | - | 2.50 | 0.90 | - | 0.25 |\n" in table
    assert "| gpt2 | warm | 3.00 | 1.50 | - | 3.00 | 0.50 | - | 1.00 |\n" in table
    assert "| bert | cold | - | 5.00 | - | - | - | - | - |\n" in table
    assert table.endswith("\n- gpt2, C++: no compiler\n\n" + MISSED)
    met = {name: Starts(each.cold, (1.0,)) for name, each in found.items() if each.cold}
    assert "missed" not in format_table({"gpt2": {**met, "inductor": found["inductor"]}})


def test_each_workload_has_processors_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, str, frozenset[int]]] = []
    before = os.sched_getaffinity(0)
    at_once = min(2, len(before))
    both = threading.Barrier(at_once)  # else one of them does the other's work too

    def start(
        workload: str, contender: str, caches: str, environment: Mapping[str, str]
    ) -> Mapping[str, Any]:
        processors = frozenset(os.sched_getaffinity(0))
        if workload in ("a", "b") and not any(each[0] == workload for each in asked):
            both.wait(60)
        asked.append((workload, contender, caches, processors))
        return {"total": float(len(asked))} if workload != "c" else {"skipped": "no model"}

    monkeypatch.setattr(starts, "start", start)
    monkeypatch.setattr(starts, "with_bytecode", lambda _: {})
    found = measure_apart(["a", "b", "c"], 2, at_once)
    assert os.sched_getaffinity(0) == before
    assert list(found) == ["a", "b", "c"]
    assert all(each == Starts(skipped="no model") for each in found["c"].values())
    used: dict[str, set[frozenset[int]]] = {}
    for workload, contender, caches, processors in asked:
        used.setdefault(workload, set()).add(processors)
        assert caches.endswith(f"/{workload}-{contender}")
    if at_once == 2:
        (first,), (second,) = used["a"], used["b"]
        assert not first & second
    folders = [each[2] for each in asked if each[0] == "a"]
    assert len(folders) == 3 * len(CONTENDERS)
    assert len(set(folders)) == len(CONTENDERS)
