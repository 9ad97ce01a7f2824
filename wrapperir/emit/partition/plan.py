"""The plan of a partitioned program: what each part is given, and what is kept of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from attrs import asdict, frozen

from wrapperir.diagnostics import Code

PLAN_VERSION = 1


@frozen(kw_only=True)
class PlanStep:
    """The call of a part.

    Attributes:
        arguments: The keys of the values that the part is given, in order.
        last: Whether each is given away: nothing needs it after this step.
        results: The keys of what the part returns, in order.
    """

    arguments: tuple[str, ...]
    last: tuple[bool, ...]
    results: tuple[str, ...]


@frozen(kw_only=True)
class PartPlan:
    """The steps of a program, in order.

    A key names a value while the plan runs: ``%name`` a value of the program, ``name`` a
    symbol, ``=N`` its output ``N`` if that is not a name.

    Attributes:
        inputs: The keys of the program's inputs.
        constants: The key in the file of constants for each constant that is an output.
        steps: The calls.
        outputs: The keys of the program's outputs.
    """

    inputs: tuple[str, ...]
    constants: Mapping[str, str]
    steps: tuple[PlanStep, ...]
    outputs: tuple[str, ...]


@frozen(kw_only=True)
class PartFacts:
    """Facts about the artifact of a part, whose files are in a folder of their own."""

    folder: str
    emitter: str
    entry: str
    metadata: Mapping[str, str]


def make_plan(
    inputs: Sequence[str],
    constants: Mapping[str, str],
    steps: Sequence[tuple[Sequence[str], Sequence[str]]],
    outputs: Sequence[str],
) -> PartPlan:
    """Return the plan of steps with these arguments and results."""
    needed = set(outputs)
    made: list[PlanStep] = []
    for arguments, results in reversed(steps):
        last = tuple([key not in needed for key in arguments])
        needed.update(arguments)
        made.append(PlanStep(arguments=tuple(arguments), last=last, results=tuple(results)))
    return PartPlan(
        inputs=tuple(inputs),
        constants=dict(constants),
        steps=tuple(reversed(made)),
        outputs=tuple(outputs),
    )


def format_plan(plan: PartPlan, parts: Sequence[PartFacts]) -> str:
    """Return a plan as JSON, with facts about the artifact of each part."""
    facts = [asdict(part) for part in parts]
    content = {"wrapperir_plan": PLAN_VERSION, **asdict(plan), "parts": facts}
    return json.dumps(content, indent=2) + "\n"


def parse_plan(text: str) -> tuple[PartPlan, Sequence[PartFacts]]:
    """Return a plan and the facts about its parts that :func:`format_plan` wrote.

    Raises:
        DiagnosticError: WIR710, it is malformed or of another version.
    """
    try:
        content: Any = json.loads(text)
        if content["wrapperir_plan"] != PLAN_VERSION:
            raise ValueError(f"version {content['wrapperir_plan']!r:.40} is unknown")
        steps = tuple([_step(step) for step in content["steps"]])
        plan = PartPlan(
            inputs=_strings(content["inputs"]),
            constants=_texts(content["constants"]),
            steps=steps,
            outputs=_strings(content["outputs"]),
        )
        parts = tuple([_facts(part) for part in content["parts"]])
        if len(parts) != len(steps):
            raise ValueError(f"{len(steps)} steps of {len(parts)} parts")
        if len({part.folder for part in parts}) != len(parts):
            raise ValueError("two parts have one folder")
        _check_keys(plan)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"a plan of parts is malformed: {type(error).__name__} {error}"
        raise Code.INVALID_ARTIFACT.error(message[:500]) from None
    return plan, parts


def _step(step: Any) -> PlanStep:
    arguments = _strings(step["arguments"])
    last = tuple([each is True for each in step["last"]])
    if len(last) != len(arguments):
        raise ValueError("a step says too little of its arguments")
    return PlanStep(arguments=arguments, last=last, results=_strings(step["results"]))


def _check_keys(plan: PartPlan) -> None:
    """Check that each value that the plan needs is there when it is needed."""
    there = {*plan.inputs, *plan.constants}
    for step in plan.steps:
        for key, is_last in zip(step.arguments, step.last, strict=True):
            if key not in there:
                raise ValueError(f"nothing makes {key!a:.80}, or it was given away")
            if is_last:
                there.remove(key)
        there.update(step.results)
    for key in plan.outputs:
        if key not in there:
            raise ValueError(f"nothing makes the output {key!a:.80}")


def _facts(part: Any) -> PartFacts:
    folder, emitter, entry = _strings([part[k] for k in ("folder", "emitter", "entry")])
    metadata = _texts(part["metadata"])
    return PartFacts(folder=folder, emitter=emitter, entry=entry, metadata=metadata)


def _texts(items: object) -> Mapping[str, str]:
    if not isinstance(items, dict):
        raise TypeError("an object was expected")
    found = cast(Mapping[str, object], items)
    return dict(zip(found, _strings([*found.values()]), strict=True))


def _strings(items: object) -> tuple[str, ...]:
    if not isinstance(items, list):
        raise TypeError("a list was expected")
    found = cast(Sequence[object], items)
    texts = tuple([item for item in found if isinstance(item, str)])
    if len(texts) < len(found):
        raise TypeError("a string was expected")
    return texts
