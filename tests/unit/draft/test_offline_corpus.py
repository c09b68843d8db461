"""Briefs of real threads: whatever is quoted stands in the thread, at a sample of the benchmark's cuts."""

from pathlib import Path

import pytest
from fixture_threads import CORPUS

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import brief, pipeline
from tasuki.harness import registry as harnesses
from tasuki.model import Goal
from tasuki_evals.cases.fidelity import InventedClaim, find_invented, parse_lines
from tasuki_evals.continuation.cuts import (
    find_cuts,
    list_sources,
    unpack_source,
    write_predecessor_copy,
)

EVERY, BUDGET = 4, 4_000
"""Of so many threads one is looked at, and the size of its briefs in tokens."""


@pytest.mark.skipif(not CORPUS, reason="no corpus: set TASUKI_CORPUS")
def test_every_quoted_line_stands_in_the_thread(tmp_path: Path) -> None:
    """Nothing is invented at any cut of every fourth thread, and every brief holds its budget."""
    found: dict[str, list[InventedClaim]] = {}
    quoted = 0
    for source in list_sources([Path(CORPUS)])[::EVERY]:
        path = unpack_source(source, tmp_path)
        harness = harnesses.detect_harness(path)
        for cut in find_cuts(harness.read(path)):
            folder = tmp_path / "cut"
            folder.mkdir(exist_ok=True)
            made = pipeline.make_handoff(
                harness, write_predecessor_copy(harness, cut, folder), Goal(cut.goal, forced=True),
                LoadedSettings(Settings(budget=BUDGET)), handoff_id="0" * 32, to=harness.name, replay=True,
            )  # fmt: skip
            assert brief.count_context_tokens(made.context) <= BUDGET
            quoted += sum(line.excerpt for line in parse_lines(made.context))
            found[cut.name] = find_invented(made.context, made.thread, cut.goal)

    assert len(found) > 10
    assert quoted > 100
    assert {name: what for name, what in found.items() if what} == {}
