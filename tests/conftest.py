"""What tests of several files share."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sessions import Make


@pytest.fixture(scope="module")
def small_model() -> Iterator[str]:
    """The base URL of a real model; skips where its packages cannot be had, but fails in CI."""
    from small_model import missing, serving

    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with serving() as url:
        yield url


@pytest.fixture
def desk(tmp_path: Path) -> "Iterator[Make]":
    """Makes running sessions whose agents follow some rules."""
    from sessions import making

    yield from making(tmp_path)
