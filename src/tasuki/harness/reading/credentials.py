"""Whether a program has credentials on this machine. Nothing of them is read."""

import os
from collections.abc import Iterable
from pathlib import Path

FEWEST_BYTES = 3
"""A file with fewer holds nothing: `{}`."""


def find_credentials(
    variables: Iterable[str], files: Iterable[Path], unsure: Iterable[Path] = ()
) -> bool | None:
    """Tell whether one of the variables is set or one of the files holds something.

    None where only a file of `unsure` does, by which the program may be signed in in another way,
    or where a file may not be looked at.
    """
    found = [*map(_has_content, files)]
    if any(os.environ.get(name) for name in variables) or True in found:
        return True
    return None if None in found or any(map(_has_content, unsure)) else False


def _has_content(path: Path) -> bool | None:
    try:
        return path.stat().st_size >= FEWEST_BYTES
    except PermissionError:
        return None
    except OSError:
        return False
