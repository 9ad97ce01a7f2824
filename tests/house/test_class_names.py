"""A class name has one meaning: no other class or type alias of the product has it."""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(
    r"^(?:[ \t]*class (\w+)|type (\w+)|(_?[A-Z]\w*[a-z]\w*)(?:: \w+)? = )", re.MULTILINE
)
"""A class, also a nested one, or a type alias of a module."""


def repeated_names(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Return the names that two classes or type aliases have, with their files."""
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for path in paths:
        for names in NAMED.findall(path.read_text()):
            found["".join(names)].append(path)
    return {name: places for name, places in found.items() if len(places) > 1}


def test_a_class_name_stands_once_in_the_product() -> None:
    paths = [*(ROOT / "wrapperir").rglob("*.py"), *(ROOT / "emitters").rglob("*.py")]
    assert len(paths) > 300
    assert repeated_names(paths) == {}


def test_a_name_that_stands_twice_is_found(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("class Pool:\n    x = 1\n\n\nSize: TypeAlias = int\nLIMIT = 1\n")
    other.write_text("def f():\n    class Pool: ...\n\n\nSize = int | str\nLIMIT = 2\n")
    assert repeated_names([one, other]) == {"Pool": [one, other], "Size": [one, other]}
