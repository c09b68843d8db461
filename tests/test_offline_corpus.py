"""Briefs of real threads: whatever is quoted stands in the thread, at a sample of the benchmark's cuts."""

from pathlib import Path

import pytest
from fixture_threads import CORPUS

from tasuki import harness as harnesses
from tasuki.config import Loaded, Settings
from tasuki.draft import brief, pipeline
from tasuki.evals.cuts import cuts, predecessor_copy
from tasuki.evals.fidelity import Invented, invented, lines
from tasuki.evals.places import sources, unpacked
from tasuki.model import Goal

EVERY, BUDGET = 4, 4_000
"""Of so many threads one is looked at, and the size of its briefs in tokens."""


@pytest.mark.skipif(not CORPUS, reason="no corpus: set TASUKI_CORPUS")
def test_every_quoted_line_stands_in_the_thread(tmp_path: Path) -> None:
    """Nothing is invented at any cut of every fourth thread, and every brief holds its budget."""
    found: dict[str, list[Invented]] = {}
    quoted = 0
    for source in sources([Path(CORPUS)])[::EVERY]:
        path = unpacked(source, tmp_path)
        harness = harnesses.of_file(path)
        for cut in cuts(harness.read(path)):
            folder = tmp_path / "cut"
            folder.mkdir(exist_ok=True)
            made = pipeline.make(
                harness, predecessor_copy(harness, cut, folder), Goal(cut.goal, forced=True),
                Loaded(Settings(budget=BUDGET)), handoff_id="0" * 32, to=harness.name, replay=True,
            )  # fmt: skip
            assert brief.size(made.context) <= BUDGET
            quoted += sum(line.excerpt for line in lines(made.context))
            found[cut.name] = invented(made.context, made.thread, cut.goal)

    assert len(found) > 10
    assert quoted > 100
    assert {name: what for name, what in found.items() if what} == {}
