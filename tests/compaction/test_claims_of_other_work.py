"""Sentences of summaries in five styles and three languages, about four kinds of work."""

from pathlib import Path

import pytest
from summary_claims import FALSE, THREADS, TRUE

from tasuki.compaction.block import RestoreBlock, build_block
from tasuki.compaction.moment import find_last_compaction
from tasuki.harness import registry as harnesses


def check_claim(harness: str, claim: str, folder: Path) -> RestoreBlock:
    """The block behind a summary that says one thing."""
    path = THREADS[harness]().compaction(f"We go on with the work.\n{claim}").write(folder)
    compaction = find_last_compaction(harnesses.get_harness(harness).read(path))
    assert compaction is not None
    return build_block(compaction)


@pytest.mark.parametrize(("harness", "claim"), [(h, c) for h in FALSE for c in FALSE[h]])
def test_a_false_claim_is_corrected(harness: str, claim: str, tmp_path: Path) -> None:
    """Whatever the work, the style and the language."""
    assert check_claim(harness, claim, tmp_path).corrections


@pytest.mark.parametrize(("harness", "claim"), [(h, c) for h in TRUE for c in TRUE[h]])
def test_a_true_claim_is_left_alone(harness: str, claim: str, tmp_path: Path) -> None:
    """Also what failed first and passes now, what is planned, and what was never wanted."""
    assert check_claim(harness, claim, tmp_path).corrections == ()
