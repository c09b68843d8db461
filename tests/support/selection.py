"""What of a test runs by default: which of its parameters (the others are `long`), which of its looks."""

from collections.abc import Iterable
from typing import Any

import pytest

takes_long = False
"""Whether this run also takes what takes long: `conftest.py` says so."""


def by_default(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """All values as parameters; those that are not chosen run with `--all`, or when they are named."""
    made = []
    for value in values:
        words = value if isinstance(value, tuple) else (value,)
        made.append(pytest.param(*words, marks=[] if value in chosen else pytest.mark.long))
    return made
