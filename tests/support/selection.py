"""Which of a test's parameters run by default; the others are `long`."""

from collections.abc import Iterable
from typing import Any

import pytest


def by_default(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """All values as parameters; those that are not chosen run with `--all`, or when they are named."""
    made = []
    for value in values:
        words = value if isinstance(value, tuple) else (value,)
        made.append(pytest.param(*words, marks=[] if value in chosen else pytest.mark.long))
    return made
