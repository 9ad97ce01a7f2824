"""The figures of a run by workload and contender, and the goals that they are held to."""

from collections.abc import Mapping
from statistics import geometric_mean

from attrs import frozen

from bench.gpu.contenders import CONTENDERS
from bench.results import Record

MODELS = ("gpt2", "bert", "resnet", "decoding", "lengths")
CHAINS = ("softmaxes", "products")
EVERYTHING = (*MODELS, "training", *CHAINS)
TABLES = {"calls": ("in_place", "moved", "waited"), "build": ("allocated", "reserved")}
"""The records of a contender, and figures that each of them has."""


@frozen
class Figures:
    """The records of a run, the latest of each name."""

    records: Mapping[str, Record]

    def number(self, workload: str, contender: str, figure: str) -> float | None:
        """Return a figure, or none where it was not measured."""
        for table in TABLES:
            value = self.records.get(f"{workload}/{contender}/{table}", {}).get(figure)
            if isinstance(value, int | float):
                return float(value)
        return None

    def skipped(self, workload: str, contender: str) -> list[str]:
        """Return the reasons why a contender has no figures, without repetitions."""
        names = [f"{workload}/{contender}/{table}" for table in TABLES]
        reasons = [self.records.get(name, {}).get("skipped") for name in names]
        return list(dict.fromkeys(str(reason) for reason in reasons if reason))

    def text(self, name: str) -> str:
        """Return the text of a record that has one, or nothing."""
        return str(self.records.get(name, {}).get("text") or "")

    def complete(self, name: str) -> bool:
        """Return whether a record is there, and nothing of it was skipped."""
        return name in self.records and not self.records[name].get("skipped")

    def refused(self, workload: str, contender: str, table: str = "calls") -> bool:
        """Return whether a reason was recorded why a contender has no figures."""
        return bool(self.records.get(f"{workload}/{contender}/{table}", {}).get("skipped"))

    def settled(self, workload: str, contender: str, table: str) -> bool:
        """Return whether a contender has all figures of a table, or a reason why not."""
        record = self.records.get(f"{workload}/{contender}/{table}", {})
        return all(each in record for each in TABLES[table]) or self.refused(
            workload, contender, table
        )

    def timed(self, workload: str) -> bool:
        """Return whether the times of all contenders of a workload are settled."""
        return all(self.settled(workload, each.name, "calls") for each in CONTENDERS)

    def measured(self, workload: str) -> bool:
        """Return whether a contender of the workload has any figure."""
        records = [r for n, r in self.records.items() if n.startswith(f"{workload}/")]
        return any(f in record for record in records for fs in TABLES.values() for f in fs)

    def turns(self) -> str:
        """Return how many turns contenders had: a number, or the least and the most."""
        found = {int(r["turns"] or 0) for r in self.records.values() if "turns" in r}
        return " to ".join(map(str, sorted({min(found), max(found)}))) if found else ""

    def commits(self, *more: str) -> str:
        """Return the commits that figures are of, the latest last."""
        known = self.text("commits")
        names = [*(known.split(", ") if known else ()), *more]
        return ", ".join(dict.fromkeys(names))


@frozen(kw_only=True)
class Goal:
    """A ratio of a figure of two contenders, and its limits by workload.

    Without a limit it is only told.
    """

    title: str
    contender: str
    base: str
    figure: str = "in_place"
    limits: Mapping[str, float]

    def ratio(self, figures: Figures, workload: str) -> float | None:
        """Return the ratio of a workload; ``None`` if a figure is missing."""
        ours = figures.number(workload, self.contender, self.figure)
        base = figures.number(workload, self.base, self.figure)
        return None if ours is None or not base else ours / base

    def mean(self, figures: Figures) -> float | None:
        """Return the geometric mean of the ratios; ``None`` if there are none."""
        ratios = [self.ratio(figures, workload) for workload in EVERYTHING]
        found = [ratio for ratio in ratios if ratio is not None]
        if 0 in found:  # memory that one contender does without
            return 0.0
        return geometric_mean(found) if found else None

    def met(self, figures: Figures, workload: str) -> bool | None:
        """Return whether the limit holds; ``None`` without a limit or a ratio."""
        ratio, limit = self.ratio(figures, workload), self.limits.get(workload)
        return None if ratio is None or limit is None else round(ratio, 2) <= limit


def _all(limit: float, **others: float) -> dict[str, float]:
    return {**dict.fromkeys(EVERYTHING, limit), **others}


def _memory(title: str, contender: str, base: str, figure: str) -> Goal:
    limits = _all(1.0)
    return Goal(title=title, contender=contender, base=base, figure=figure, limits=limits)


_REPLAY = _all(0.95, gpt2=0.75, resnet=0.75, bert=0.92)

GOALS = (
    Goal(
        title="reduce-overhead / Inductor's",
        contender="replay",
        base="inductor-replay",
        limits=_REPLAY,
    ),
    Goal(
        title="reduce-overhead / Inductor's, each call waited for",
        contender="replay",
        base="inductor-replay",
        figure="waited",
        limits=_REPLAY,
    ),
    Goal(
        title="reduce-overhead, moved inputs / bare replay",
        contender="replay",
        base="bare",
        figure="moved",
        limits=dict.fromkeys((*MODELS, *CHAINS), 1.05),  # training has no bare replay
    ),
    Goal(
        title="Python / Inductor",
        contender="python",
        base="inductor",
        limits={**dict.fromkeys(MODELS, 0.85), "training": 0.9, "softmaxes": 0.75},
    ),
    Goal(
        title="C++ / Inductor's cpp_wrapper",
        contender="cpp",
        base="inductor-cpp",
        limits=dict.fromkeys(MODELS, 0.8),
    ),
    Goal(
        title="C++ / Inductor",
        contender="cpp",
        base="inductor",
        limits={"training": 0.75},
    ),
    Goal(
        title="own kernels, reduce-overhead / Inductor's",
        contender="lowering-replay",
        base="inductor-replay",
        limits=_REPLAY,
    ),
    Goal(
        title="own kernels, C++ / Inductor's cpp_wrapper",
        contender="lowering-cpp",
        base="inductor-cpp",
        limits=dict.fromkeys(MODELS, 0.8),
    ),
    _memory("memory allocated, Python / Inductor", "python", "inductor", "allocated"),
    _memory("memory reserved, Python / Inductor", "python", "inductor", "reserved"),
    _memory("memory allocated, C++ / Inductor", "cpp", "inductor", "allocated"),
    _memory("memory reserved, C++ / Inductor", "cpp", "inductor", "reserved"),
    _memory(
        "memory reserved, reduce-overhead / Inductor's",
        "replay",
        "inductor-replay",
        "reserved",
    ),
)
