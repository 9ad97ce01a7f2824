"""The manager of plugins: finds them through entry points and loads them on demand."""

import functools
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, TypeAlias, cast

import pluggy
from attrs import evolve, frozen

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError, did_you_mean
from wrapperir.emit import Emitter
from wrapperir.plugin import hookspecs
from wrapperir.plugin.hook_results import (
    check_emitters,
    check_passes,
    check_renderers,
    results_of,
)

# The lowering and the passes are imported late: a program that a cache has needs emitters
# only.
if TYPE_CHECKING:
    from wrapperir.lowering.loops import Nest
    from wrapperir.lowering.renderer import Renderer
    from wrapperir.passes import InstalledPass, InstalledPipeline

    Installed: TypeAlias = InstalledPass | InstalledPipeline


@frozen
class Plugin:
    """A plugin that loaded: its entry point's name, distribution and what it provides.

    It provides nothing through a hook that fails; what the others return is kept.
    """

    name: str
    distribution: str
    version: str
    emitters: tuple[str, ...]
    """The names of its emitters."""
    renderers: "tuple[Renderer, ...]" = ()
    passes: "tuple[Installed, ...]" = ()
    """Its passes and pipelines."""
    failed: frozenset[str] = frozenset()
    """The names of its hooks that failed."""

    @property
    def origin(self) -> str:
        """The distribution and its version, for people to read."""
        return f"{self.distribution} {self.version}".strip()


@frozen
class BrokenPlugin:
    """A plugin that did not load, or a hook that did not return what it is asked for.

    ``traceback`` is that of the error, and ``hook`` the name of the hook; ``None``: the
    plugin did not load, and provides nothing.
    """

    name: str
    distribution: str
    traceback: str
    hook: str | None = None

    @property
    def problem(self) -> str:
        """What failed, for people to read."""
        failed = "did not load" if self.hook is None else f"failed in {self.hook}"
        return f"{self.name} of {self.distribution} {failed}"


class PluginManager:
    """The installed plugins and what they provide.

    Plugins are imported when something they provide is first needed, and asked for their
    renderers when one of these is, and for their passes likewise.  A plugin or hook that
    fails is listed in :attr:`broken`; other plugins, and other hooks of the same one, still
    work.
    """

    def __init__(self, entry_points: Iterable[metadata.EntryPoint] | None = None) -> None:
        """Use the given entry points; the default is the group ``wrapperir``."""
        self._entry_points = entry_points
        self._pluggy = pluggy.PluginManager(hookspecs.PROJECT)
        self._pluggy.add_hookspecs(hookspecs)
        self._lock = threading.RLock()
        """Held while plugins are imported and asked; these may ask the manager again."""
        self._loaded = False
        self._plugins: dict[str, Plugin] = {}
        """The plugins that loaded, by their names for pluggy."""
        self._waiting: dict[str, list[str]] = {hook: [] for hook in _LATE_HOOKS}
        """The plugins that each hook has not asked."""
        self._broken: list[BrokenPlugin] = []
        self._provided: dict[str, list[tuple[Emitter, Plugin]]] = {}

    def register(self, plugin: ModuleType | object, name: str) -> None:
        """Add a plugin that is not installed, such as one made by a test."""
        with self._lock:
            self._add(plugin, name, distribution=name, version="")

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins that loaded."""
        self._ask_all()
        return tuple(self._plugins.values())

    @property
    def broken(self) -> tuple[BrokenPlugin, ...]:
        """The plugins that did not load, and the hooks of others that failed."""
        self._ask_all()
        return tuple(self._broken)

    def problems_of(self, hook: str) -> tuple[str, ...]:
        """Return what keeps plugins from providing something through a hook."""
        return tuple([each.problem for each in self._broken if each.hook in (None, hook)])

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
        self._ask("wrapperir_renderers")
        return tuple(
            renderer
            for plugin in tuple(self._plugins.values())
            for renderer in plugin.renderers
            if device_kind in renderer.device_kinds
        )

    def kernel_device(self, emitter: Emitter) -> str | None:
        """Return the kind of device that kernels of CPU tensors are for.

        That is a device of the emitter's whose tensors callers have on the host, if there
        is a renderer for its kernels; ``None`` is the CPU.
        """
        hosted = sorted(emitter.support.hosted)
        return next((kind for kind in hosted if self.renderers(kind)), None)

    def missing_kernels(self, emitter: Emitter, frontend: str) -> Diagnostic | None:
        """Return why models are compiled for the CPU, not for an emitter's device: WIR704.

        ``None``: they are compiled for it, or callers have its tensors themselves.
        """
        hosted = " and ".join(sorted(emitter.support.hosted))
        device = self.kernel_device(emitter)
        if not hosted or (frontend == "lowering" and device is not None):
            return None
        cause = f"no renderer writes kernels for {hosted}"
        hint = "provide one with wrapperir_renderers, and use the frontend 'lowering'"
        if device is not None:
            cause = f"the frontend {frontend!r} makes programs of the CPU"
            hint = "use the frontend 'lowering'"
        return Diagnostic(
            Code.UNSUPPORTED_DEVICE,
            f"the {emitter.name} emitter is given no program for {hosted}: {cause}",
            subject=hosted,
            hint=hint,
        )

    def renderer(self, nest: "Nest", device_kind: str) -> "Renderer | None":
        """Return the first renderer that does not refuse a nest, if there is one."""
        for renderer in self.renderers(device_kind):
            if renderer.refusal(nest) is None:
                return renderer
        return None

    @property
    def passes(self) -> "Mapping[str, Installed]":
        """The passes and pipelines of plugins by name, without names claimed twice."""
        claims = self._claims_of_passes()
        return MappingProxyType({n: f[0] for n, f in claims.items() if len(f) == 1})

    def find_pass(self, name: str) -> "Installed | None":
        """Return the pass or pipeline of that name that a plugin provides, if one does.

        Raises:
            DiagnosticError: WIR744, several plugins provide it.
        """
        claims = self._claims_of_passes().get(name, ())
        if len(claims) > 1:
            raise DiagnosticError(_duplicate_pass(name, claims))
        return claims[0] if claims else None

    def _claims_of_passes(self) -> "Mapping[str, Sequence[Installed]]":
        """Return all that claims each name; built-in passes claim theirs too."""
        from wrapperir.passes import BUILT_IN_PASSES

        self._ask("wrapperir_passes")
        claims: dict[str, list[Installed]] = {}
        for plugin in tuple(self._plugins.values()):
            for each in plugin.passes:
                claims.setdefault(each.name, []).append(each)
        for name in claims.keys() & BUILT_IN_PASSES.keys():
            claims[name].append(BUILT_IN_PASSES[name])
        return claims

    @property
    def conflicts(self) -> tuple[Diagnostic, ...]:
        """An error for each name of an emitter or pass that is claimed twice."""
        self._load()
        emitters = self._provided.items()
        passes = self._claims_of_passes().items()
        return (
            *(_duplicate(name, given) for name, given in emitters if len(given) > 1),
            *(_duplicate_pass(name, given) for name, given in passes if len(given) > 1),
        )

    def emitter(self, name: str) -> Emitter:
        """Return the emitter of that name.

        ``opencl+python`` is ``opencl``, with ``python`` for what that one lacks.

        Raises:
            DiagnosticError: no distribution, or more than one, provides it; or it has one
                name twice.
        """
        self._load()
        first, plus, rest = name.partition("+")
        if plus and first in rest.split("+"):
            raise Code.UNKNOWN_EMITTER.error(
                f"{name[:80]!a} names {first[:80]!a} twice",
                hint="what an emitter lacks falls back to another",
            )
        if plus:
            from wrapperir.emit.partition import PartitioningEmitter

            return PartitioningEmitter(self.emitter(first), self.emitter(rest))
        given = self._provided.get(name, [])
        if len(given) == 1:
            return given[0][0]
        if given:
            raise DiagnosticError(_duplicate(name, given))
        known = sorted(self.emitters)
        problems = "; ".join(self.problems_of("wrapperir_emitters"))
        hints = (did_you_mean(name, known), problems)
        raise Code.UNKNOWN_EMITTER.error(
            f"no emitter is named {name[:80]!a}; there are: {', '.join(known) or 'none'}",
            hint=" ".join(filter(None, hints)) or None,
        )

    def _load(self) -> None:
        with self._lock:
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
        except (Exception, SystemExit):
            self._report(name, distribution)
            return
        emitters: Sequence[Emitter] = ()
        failed: frozenset[str] = frozenset()
        hook = self._pluggy.hook.wrapperir_emitters
        try:
            emitters = results_of(unique, hook, check_emitters)
        except (Exception, SystemExit):
            failed = frozenset({hook.name})
            self._report(name, distribution, hook.name)
        names = tuple(emitter.name for emitter in emitters)
        found = Plugin(name, distribution, version, names, failed=failed)
        self._plugins[unique] = found
        for waiting in self._waiting.values():
            waiting.append(unique)
        for emitter in emitters:
            self._provided.setdefault(emitter.name, []).append((emitter, found))

    def _ask_all(self) -> None:
        for hook in _LATE_HOOKS:
            self._ask(hook)

    def _ask(self, hook: str) -> None:
        """Ask each plugin for what it provides through a hook, once."""
        self._load()
        with self._lock:
            waiting, self._waiting[hook] = self._waiting[hook], []
            for unique in waiting:
                plugin = self._plugins[unique]
                try:
                    plugin = _LATE_HOOKS[hook](plugin, self._pluggy, unique)
                except (Exception, SystemExit):
                    plugin = evolve(plugin, failed=plugin.failed | {hook})
                    self._report(plugin.name, plugin.distribution, hook)
                self._plugins[unique] = plugin

    def _report(self, name: str, distribution: str, hook: str | None = None) -> None:
        text = traceback.format_exc()
        self._broken.append(BrokenPlugin(name, distribution, text, hook))


@functools.cache
def plugin_manager() -> PluginManager:
    """Return the process's plugin manager; plugins are imported on first use of it."""
    return PluginManager()


def _with_renderers(plugin: Plugin, manager: pluggy.PluginManager, unique: str) -> Plugin:
    found = results_of(unique, manager.hook.wrapperir_renderers, check_renderers)
    return evolve(plugin, renderers=tuple(found))


def _with_passes(plugin: Plugin, manager: pluggy.PluginManager, unique: str) -> Plugin:
    from wrapperir.passes import InstalledPass

    module = cast(object, manager.get_plugin(unique))
    if not isinstance(module, ModuleType):
        module = sys.modules[type(module).__module__]
    found = [
        evolve(each, origin=plugin.origin, package=module.__name__.partition(".")[0])
        if isinstance(each, InstalledPass)
        else evolve(each, origin=plugin.origin)
        for each in results_of(unique, manager.hook.wrapperir_passes, check_passes)
    ]
    return evolve(plugin, passes=tuple(found))


_LATE_HOOKS: Mapping[str, Callable[[Plugin, pluggy.PluginManager, str], Plugin]] = (
    MappingProxyType(
        {"wrapperir_renderers": _with_renderers, "wrapperir_passes": _with_passes}
    )
)
"""Hooks that are asked when what they provide is first needed."""


def _distribution(entry_point: metadata.EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist is not None else "unknown"


def _duplicate(name: str, given: Sequence[tuple[Emitter, Plugin]]) -> Diagnostic:
    places = " and ".join(f"{plugin.name} of {plugin.distribution}" for _, plugin in given)
    return Diagnostic(
        Code.DUPLICATE_EMITTER,
        f"the emitter name {name!a} is provided by {places}",
        hint="uninstall one of them",
    )


def _duplicate_pass(name: str, given: "Sequence[Installed]") -> Diagnostic:
    return Diagnostic(
        Code.DUPLICATE_PASS,
        f"the pass name {name!a} is provided by"
        f" {' and '.join(each.origin for each in given)}",
        hint="uninstall one of them",
    )
