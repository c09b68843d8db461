"""Every file of redaction moves a figure of its bench."""

from collections.abc import Iterator

import pytest
from redaction_parts import Bench, Figures, list_functions, list_modules, switched_off


@pytest.fixture(scope="module")
def bench() -> Bench:
    """One sample in six of every set."""
    return Bench(6)


@pytest.fixture(scope="module")
def whole(bench: Bench) -> Iterator[Figures]:
    """The figures with every file; they are the same when each has been switched off and on again."""
    figures = bench.measure()
    yield figures
    assert bench.measure() == figures


@pytest.mark.parametrize("name", list_modules())
def test_each_file_moves_a_figure(bench: Bench, whole: Figures, name: str) -> None:
    """Without what a file of redaction does, fewer secrets are caught; with it again, as many as before."""
    functions = list_functions(list_modules()[name])
    with switched_off(*functions.values()):
        worse = bench.measure().compare(whole)

    assert functions
    assert set(worse) & set(bench.sets), name
