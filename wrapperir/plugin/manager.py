"""The manager of plugins: finds them through entry points and loads them on demand."""

import functools
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, TypeVar, cast

import pluggy
from attrs import evolve, frozen

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit import Emitter, Support
from wrapperir.ir import Language, is_identifier
from wrapperir.plugin import hookspecs

# The lowering is imported late: a program that a cache has needs emitters only.
if TYPE_CHECKING:
    from wrapperir.lowering.loops import Nest
    from wrapperir.lowering.renderer import Renderer

T = TypeVar("T")


@frozen
class Plugin:
    """A plugin that loaded: its entry point's name, distribution and what it provides."""

    name: str
    distribution: str
    version: str
    emitters: tuple[str, ...]
    """The names of its emitters."""
    renderers: "tuple[Renderer, ...]" = ()


@frozen
class BrokenPlugin:
    """A plugin that did not load or did not return what its hooks ask for.

    ``traceback`` is that of the error.
    """

    name: str
    distribution: str
    traceback: str


class PluginManager:
    """The installed plugins and what they provide.

    Plugins are imported when something they provide is first needed, and asked for their
    renderers when one of these is.  A plugin that fails is listed in :attr:`broken`, and
    the others still work.
    """

    def __init__(self, entry_points: Iterable[metadata.EntryPoint] | None = None) -> None:
        """Use the given entry points; the default is the group ``wrapperir``."""
        self._entry_points = entry_points
        self._pluggy = pluggy.PluginManager(hookspecs.PROJECT)
        self._pluggy.add_hookspecs(hookspecs)
        self._loaded = False
        self._not_asked: list[Plugin] = []
        """Plugins that were not asked for their renderers."""
        self._plugins: list[Plugin] = []
        self._broken: list[BrokenPlugin] = []
        self._provided: dict[str, list[tuple[Emitter, Plugin]]] = {}

    def register(self, plugin: ModuleType | object, name: str) -> None:
        """Add a plugin that is not installed, such as one made by a test."""
        self._add(plugin, name, distribution=name, version="")

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins that loaded."""
        self._load_renderers()
        return tuple(self._plugins)

    @property
    def broken(self) -> tuple[BrokenPlugin, ...]:
        """The plugins that did not load."""
        self._load_renderers()
        return tuple(self._broken)

    @property
    def emitters(self) -> Mapping[str, Emitter]:
        """The emitters by name, without names that two plugins claim."""
        self._load()
        return MappingProxyType(
            {n: given[0][0] for n, given in self._provided.items() if len(given) == 1}
        )

    def renderers(self, device_kind: str) -> "tuple[Renderer, ...]":
        """Return the renderers of kernels for a kind of device.

        They are in the order of their distributions' and plugins' names.
        """
        self._load_renderers()
        return tuple(
            renderer
            for plugin in self._plugins
            for renderer in plugin.renderers
            if device_kind in renderer.device_kinds
        )

    def renderer(self, nest: "Nest", device_kind: str) -> "Renderer | None":
        """Return the first renderer that does not refuse a nest, if there is one."""
        for renderer in self.renderers(device_kind):
            if renderer.refusal(nest) is None:
                return renderer
        return None

    @property
    def conflicts(self) -> tuple[Diagnostic, ...]:
        """An error for each emitter name that two plugins claim."""
        self._load()
        return tuple(
            _duplicate(name, given)
            for name, given in self._provided.items()
            if len(given) > 1
        )

    def emitter(self, name: str) -> Emitter:
        """Return the emitter of that name.

        Raises:
            DiagnosticError: no distribution, or more than one, provides it.
        """
        self._load()
        given = self._provided.get(name, [])
        if len(given) == 1:
            return given[0][0]
        if given:
            raise DiagnosticError(_duplicate(name, given))
        failed = ", ".join(f"{b.name} of {b.distribution}" for b in self._broken)
        raise Code.UNKNOWN_EMITTER.error(
            f"no emitter is named {name[:80]!a}; there are:"
            f" {', '.join(sorted(self.emitters)) or 'none'}",
            hint=f"these plugins did not load: {failed}" if failed else None,
        )

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        found = self._entry_points
        if found is None:
            found = metadata.entry_points(group=hookspecs.PROJECT)
        for entry_point in sorted(found, key=lambda e: (_distribution(e), e.name)):
            self._load_entry_point(entry_point)

    def _load_entry_point(self, entry_point: metadata.EntryPoint) -> None:
        distribution = _distribution(entry_point)
        version = entry_point.dist.version if entry_point.dist is not None else ""
        try:
            plugin = cast(object, entry_point.load())
        # A plugin that exits at import must not end the compiler that asked.
        except (Exception, SystemExit):
            self._report(entry_point.name, distribution)
        else:
            self._add(plugin, entry_point.name, distribution, version)

    def _add(self, plugin: object, name: str, distribution: str, version: str) -> None:
        unique = f"{distribution}:{name}"
        try:
            self._pluggy.register(plugin, unique)
            hook = self._pluggy.hook
            emitters = _provided(unique, hook.wrapperir_emitters, _check_emitters)
        except (Exception, SystemExit):
            self._report(name, distribution)
            return
        names = tuple(emitter.name for emitter in emitters)
        found = Plugin(name, distribution, version, names)
        self._not_asked.append(found)
        for emitter in emitters:
            self._provided.setdefault(emitter.name, []).append((emitter, found))

    def _load_renderers(self) -> None:
        """Ask each plugin for its renderers, once."""
        self._load()
        while self._not_asked:
            plugin = self._not_asked.pop(0)
            unique = f"{plugin.distribution}:{plugin.name}"
            try:
                hook = self._pluggy.hook.wrapperir_renderers
                renderers = _provided(unique, hook, _check_renderers)
            except (Exception, SystemExit):
                self._report(plugin.name, plugin.distribution)
            else:
                self._plugins.append(evolve(plugin, renderers=tuple(renderers)))

    def _report(self, name: str, distribution: str) -> None:
        self._broken.append(BrokenPlugin(name, distribution, traceback.format_exc()))


@functools.cache
def plugin_manager() -> PluginManager:
    """Return the process's plugin manager; plugins are imported on first use of it."""
    return PluginManager()


def _provided(
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


def _check_emitters(result: object) -> Sequence[Emitter]:
    items = _check_sequence(result, "wrapperir_emitters", Emitter)
    emitters = cast(Sequence[Emitter], items)
    for item in emitters:
        name: object = getattr(item, "name", None)
        if not isinstance(name, str) or not is_identifier(name.replace("-", "_")):
            raise TypeError(f"{type(item).__name__}.name must be a name, not {name!a:.200}")
        if not isinstance(getattr(item, "support", None), Support):
            raise TypeError(f"{type(item).__name__}.support must be a Support")
    return emitters


def _check_renderers(result: object) -> "Sequence[Renderer]":
    from wrapperir.lowering.renderer import Renderer

    items = _check_sequence(result, "wrapperir_renderers", Renderer)
    renderers = cast(Sequence[Renderer], items)
    for item in renderers:
        if not isinstance(getattr(item, "language", None), Language):
            raise TypeError(f"{type(item).__name__}.language must be a Language")
        if not isinstance(getattr(item, "device_kinds", None), frozenset):
            raise TypeError(f"{type(item).__name__}.device_kinds must be a frozenset")
    return renderers


def _distribution(entry_point: metadata.EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist is not None else "unknown"


def _duplicate(name: str, given: Sequence[tuple[Emitter, Plugin]]) -> Diagnostic:
    places = " and ".join(f"{plugin.name} of {plugin.distribution}" for _, plugin in given)
    return Diagnostic(
        Code.DUPLICATE_EMITTER,
        f"the emitter name {name!a} is provided by {places}",
        hint="uninstall one of them",
    )
