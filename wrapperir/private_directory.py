"""Where code that this user's processes execute may be kept."""

import os
import stat
from pathlib import Path


def private_directory(path: Path) -> Path:
    """Make a directory that only this user can write to, and return its path.

    Raises:
        OSError: it cannot be made, or is not this user's own directory.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{path} is not this user's own directory for code")
    path.chmod(0o700)
    return path
