"""The public names of wrapperir, and what a caller sees of each.

    python docs/public_api.py > docs/reference/public-api.txt

writes what a release promises; see docs/reference/stability.md.  Sources are parsed, not
imported, so that the text is the same with every Python.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

SHORT = "wrapperir"
"""The package that gives names of other packages again, so that they are short."""

MODULES = (
    SHORT,
    "wrapperir.analysis",
    "wrapperir.diagnostics",
    "wrapperir.emit",
    "wrapperir.emit.assert_messages",
    "wrapperir.emit.blocks",
    "wrapperir.emit.c.context",
    "wrapperir.emit.c.emitter",
    "wrapperir.emit.c.expressions",
    "wrapperir.emit.c.kernels",
    "wrapperir.emit.c.lines",
    "wrapperir.emit.checked_inputs",
    "wrapperir.emit.context",
    "wrapperir.emit.number_kinds",
    "wrapperir.emit.partial_lines",
    "wrapperir.emit.pools",
    "wrapperir.emit.python.compiled_launches",
    "wrapperir.emit.python.cpp_kernels",
    "wrapperir.emit.python.expressions",
    "wrapperir.emit.python.kernels",
    "wrapperir.emit.python.load_module",
    "wrapperir.emit.python.module_text",
    "wrapperir.emit.runnable_kernels",
    "wrapperir.emit.stream_actions",
    "wrapperir.emit.support",
    "wrapperir.emit.torch_dtypes",
    "wrapperir.interp",
    "wrapperir.ir",
    "wrapperir.ir.blocks",
    "wrapperir.ir.effects",
    "wrapperir.ir.line_effects",
    "wrapperir.ir.mentions",
    "wrapperir.lowering.c.functions",
    "wrapperir.lowering.c.indices",
    "wrapperir.lowering.c.instructions",
    "wrapperir.lowering.c.language",
    "wrapperir.lowering.c.plain",
    "wrapperir.lowering.c.points",
    "wrapperir.lowering.c.reductions",
    "wrapperir.lowering.c.vector_language",
    "wrapperir.lowering.c.vectors",
    "wrapperir.lowering.dtypes",
    "wrapperir.lowering.loops",
    "wrapperir.lowering.renderer",
    "wrapperir.lowering.scalar_op",
    "wrapperir.lowering.source_parts",
    "wrapperir.passes",
    "wrapperir.pipelines",
    "wrapperir.planning",
    "wrapperir.plugin",
    "wrapperir.profiling",
    "wrapperir.reduce",
    "wrapperir.testing",
    "wrapperir.text",
    "wrapperir.trace",
    "wrapperir.verify",
)
"""The modules and packages whose names are public."""


@functools.cache
def _tree(module: str) -> tuple[ast.Module, bool]:
    """Return the parsed module, and whether it is a package."""
    place = ROOT.joinpath(*module.split("."))
    is_package = place.is_dir()
    path = place / "__init__.py" if is_package else place.with_suffix(".py")
    return ast.parse(path.read_text()), is_package


def public_names(module: str) -> list[str]:
    """Return the names that a module makes public, sorted.

    These are the names in its ``__all__``; else, for a package, what it imports by
    ``as`` or ``*``; else what it defines without a leading underscore.
    """
    tree, is_package = _tree(module)
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")], value=ast.List(elts=items)):
                return sorted(str(ast.literal_eval(item)) for item in items)
            case ast.AnnAssign(target=ast.Name("__all__"), value=ast.List(elts=items)):
                return sorted(str(ast.literal_eval(item)) for item in items)
            case _:
                pass
    found = {name for node in tree.body for name in _defined(node)}
    for each in ast.walk(tree) if is_package else ():  # maybe under TYPE_CHECKING
        if isinstance(each, ast.ImportFrom) and each.module is not None:
            found |= {alias.name for alias in each.names if alias.asname == alias.name}
            if each.names[0].name == "*":
                found.update(public_names(each.module))
    return sorted(name for name in found if not name.startswith("_"))


def _defined(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef():
            yield node.name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(name)):
            yield name
        case _:
            pass


def definition(module: str, name: str) -> tuple[str, ast.stmt]:
    """Return the module that defines a name which this one may import, and the statement.

    Raises:
        LookupError: the module neither defines nor imports the name.
    """
    tree, _ = _tree(module)
    for node in tree.body:
        if name in _defined(node):
            return module, node
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom) and each.module is not None:
            for alias in each.names:
                if name in (alias.asname, alias.name):
                    return definition(each.module, alias.name)
                if alias.name == "*" and name in public_names(each.module):
                    return definition(each.module, name)
    raise LookupError(f"{module} has no {name}")


def first_home(module: str, name: str) -> str:
    """Return the public module that a name of this one comes from; short names have one."""
    if module != SHORT:
        return module
    others = (each for each in MODULES if each != SHORT)
    return next((each for each in others if name in public_names(each)), module)


def api_lines() -> list[str]:
    """Return a line for each public name, and for each public member of a class."""
    lines: list[str] = []
    for module in MODULES:
        for name in public_names(module):
            home, path = first_home(module, name), f"{module}.{name}"
            if home != module:
                lines.append(f"{path}: {home}.{name}")
            else:
                lines.extend(_lines_of(path, definition(module, name)[1]))
    return lines


def _lines_of(path: str, node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.ClassDef():
            bases = [ast.unparse(each) for each in (*node.bases, *node.keywords)]
            yield f"{path}: class({', '.join(bases)})"
            for member in node.body:
                if any(not name.startswith("_") for name in _defined(member)):
                    (name,) = _defined(member)
                    yield from _lines_of(f"{path}.{name}", member)
                elif isinstance(member, ast.FunctionDef) and member.name == "__init__":
                    yield from _lines_of(f"{path}.__init__", member)
        case ast.FunctionDef():
            marks = [ast.unparse(each) for each in node.decorator_list]
            shown = "".join(f"@{mark} " for mark in marks if mark in _SEEN)
            result = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
            yield f"{path}: {shown}({ast.unparse(node.args)}){result}"
        case ast.AnnAssign():
            value = "" if node.value is None else " = ..."
            yield f"{path}: {ast.unparse(node.annotation)}{value}"
        case _:
            yield f"{path}: constant"


_SEEN = ("property", "classmethod", "staticmethod", "cached_property", "abstractmethod")
"""Decorators that a caller sees."""


if __name__ == "__main__":
    print("\n".join(api_lines()))
