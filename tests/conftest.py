"""What tests of several files share."""

import os
from collections.abc import Iterator

import pytest


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
