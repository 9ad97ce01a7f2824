"""Checks of what the hooks of a plugin return."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import pluggy

from wrapperir.emit import Emitter, Support
from wrapperir.ir import Language, is_identifier

# The lowering and the passes are imported late: a program that a cache has needs emitters
# only.
if TYPE_CHECKING:
    from wrapperir.lowering.renderer import Renderer
    from wrapperir.passes import InstalledPass, InstalledPipeline

T = TypeVar("T")


def results_of(
    plugin: str, hook: pluggy.HookCaller, check: Callable[[object], Sequence[T]]
) -> list[T]:
    """Return what one plugin provides through a hook.

    Each plugin is called alone, to know which one fails.
    """
    found: list[T] = []
    for implementation in hook.get_hookimpls():
        if implementation.plugin_name == plugin:
            found.extend(check(implementation.function()))
    return found


def _check_sequence(result: object, hook: str, kind: type) -> Sequence[object]:
    if not isinstance(result, Sequence):
        wanted = f"a sequence of {kind.__name__.lower()}s"
        raise TypeError(f"{hook} must return {wanted}, not {result!a:.200}")
    items = cast(Sequence[object], result)
    for item in items:
        if not isinstance(item, kind):
            wanted = f"instances of {kind.__name__}"
            raise TypeError(f"{hook} must return {wanted}, not {item!a:.200}")
    return items


def check_emitters(result: object) -> Sequence[Emitter]:
    """Check the emitters of a plugin.

    Raises:
        TypeError: the result is not a sequence of emitters.
    """
    items = _check_sequence(result, "wrapperir_emitters", Emitter)
    emitters = cast(Sequence[Emitter], items)
    for item in emitters:
        name: object = getattr(item, "name", None)
        if not isinstance(name, str) or not is_identifier(name.replace("-", "_")):
            raise TypeError(f"{type(item).__name__}.name must be a name, not {name!a:.200}")
        if not isinstance(getattr(item, "support", None), Support):
            raise TypeError(f"{type(item).__name__}.support must be a Support")
    return emitters


def check_renderers(result: object) -> "Sequence[Renderer]":
    """Check the renderers of a plugin.

    Raises:
        TypeError: the result is not a sequence of renderers.
    """
    from wrapperir.lowering.renderer import Renderer

    items = _check_sequence(result, "wrapperir_renderers", Renderer)
    renderers = cast(Sequence[Renderer], items)
    for item in renderers:
        if not isinstance(getattr(item, "language", None), Language):
            raise TypeError(f"{type(item).__name__}.language must be a Language")
        if not isinstance(getattr(item, "device_kinds", None), frozenset):
            raise TypeError(f"{type(item).__name__}.device_kinds must be a frozenset")
    return renderers


def check_passes(result: object) -> "Sequence[InstalledPass | InstalledPipeline]":
    """Check the passes of a plugin; they have no origin yet.

    Raises:
        TypeError: the result is not a mapping from names to passes and texts.
        DiagnosticError: WIR741, the text of a pipeline is malformed.
    """
    from wrapperir.passes import (
        InstalledPass,
        InstalledPipeline,
        PassFunction,
        parameters_of,
        parse_pipeline,
    )

    if not isinstance(result, Mapping):
        wanted = "a mapping from names to passes"
        raise TypeError(f"wrapperir_passes must return {wanted}, not {result!a:.200}")
    found: list[InstalledPass | InstalledPipeline] = []
    for name, value in cast(Mapping[object, object], result).items():
        if not isinstance(name, str) or not is_identifier(name):
            raise TypeError(f"the name of a pass must be an identifier, not {name!a:.200}")
        if isinstance(value, str):
            parse_pipeline(value)
            found.append(InstalledPipeline(name, value))
        elif callable(value):
            run = cast(PassFunction, value)
            found.append(InstalledPass(name, run, parameters_of(run)))
        else:
            wanted = "a function or the text of a pipeline"
            raise TypeError(f"the pass {name} must be {wanted}, not {value!a:.200}")
    return found
