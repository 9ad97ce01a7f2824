"""Passes and pipelines that can be named: our own, and those that plugins provide."""

from attrs import frozen

from wrapperir.passes.parameters import PassFunction, PassParameter

OUR_ORIGIN = "wrapperir"
"""The origin of built-in passes."""


@frozen
class InstalledPass:
    """A pass with its name, parameters and the distribution that provides it.

    ``package`` is the importable package of the plugin.
    """

    name: str
    run: PassFunction
    parameters: tuple[PassParameter, ...]
    origin: str = OUR_ORIGIN
    package: str = "wrapperir"

    @property
    def packages(self) -> frozenset[str]:
        """The packages whose files decide what the pass does: of plugin and function."""
        defining = getattr(self.run, "__module__", None) or type(self.run).__module__
        return frozenset({self.package, defining.partition(".")[0]})


@frozen
class InstalledPipeline:
    """A name for a pipeline, whose text names passes and other pipelines."""

    name: str
    text: str
    origin: str = OUR_ORIGIN
