"""Writes a new plugin from the template of its target."""

import keyword
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from wrapperir.diagnostics import Code
from wrapperir.emit.artifact import replacing

HostLanguage: TypeAlias = Literal["python", "c", "cpp"]
"""The language of the host programs that an emitter writes."""

TARGETS: tuple[HostLanguage, ...] = get_args(HostLanguage)

_TEMPLATES = Path(__file__).parent
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_SUFFIX = ".in"
_BUILT_IN = frozenset({"python", "cpp", "fx"})


def write_plugin(name: str, target: HostLanguage, folder: Path) -> Sequence[str]:
    """Write a distribution with an emitter ``name``, and return its files' paths.

    Raises:
        DiagnosticError: WIR911, the name cannot be that of a package, or the folder exists.
        OSError: a file cannot be written.
    """
    _check_name(name)
    if folder.exists():
        raise Code.PLUGIN_NAME.error(
            f"{folder} exists already, and is not changed",
            hint="give another directory with -o",
        )
    files = render_plugin(name, target)
    with replacing(folder) as new:
        for path, text in files.items():
            file = new / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return list(files)


def render_plugin(name: str, target: HostLanguage) -> Mapping[str, str]:
    """Return the text of each file of a new distribution, by its path."""
    own = "python" if target == "python" else "native"
    words = {
        "@NEXT@": (_TEMPLATES / own / "next.md").read_text("utf-8").rstrip(),
        "@NAME@": name,
        "@UPPER@": name.upper(),
        "@DASHED@": name.replace("_", "-"),
        "@PACKAGE@": f"wrapperir_{name}",
        "@CLASS@": "".join(word.capitalize() for word in name.split("_")),
        "@TARGET@": {"python": "Python", "c": "C", "cpp": "C++"}[target],
        "@SUFFIX@": target,
        "@DECLARATION@": """'extern "C" {};'""" if target == "cpp" else '"{};"',
        "@DRIVER@": "runtime.py" if target == "python" else f"{name}.h",
    }
    files: dict[str, str] = {}
    for root in (_TEMPLATES / "shared", _TEMPLATES / own):
        for template in sorted(root.rglob(f"*{_SUFFIX}")):
            path = template.relative_to(root).as_posix().removesuffix(_SUFFIX)
            path = path.replace("PACKAGE/", "@PACKAGE@/").replace("NAME.", "@NAME@.")
            files[_filled(path, words)] = _filled(template.read_text("utf-8"), words)
    return dict(sorted(files.items()))


def _filled(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or name.endswith("_"):
        raise Code.PLUGIN_NAME.error(
            f"{name[:80]!a} is not a name for a plugin",
            hint="names are lower-case letters, digits and _, and begin with a letter",
        )
    if name in _BUILT_IN:
        raise Code.PLUGIN_NAME.error(
            f"{name!a} is the name of a built-in emitter", hint="choose another name"
        )
