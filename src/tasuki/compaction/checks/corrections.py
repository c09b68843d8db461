"""Check the summary of a compaction, claim by claim, against the thread it was made of."""

from collections.abc import Iterator

from msgspec.structs import replace

from tasuki.compaction.checks.evidence import Correction, SummaryEvidence
from tasuki.compaction.checks.name_checks import check_names
from tasuki.compaction.checks.summary_lines import split_summary
from tasuki.compaction.checks.user_checks import check_user_words
from tasuki.compaction.checks.work_checks import check_work
from tasuki.compaction.rules import UserRule
from tasuki.draft.text.split import shorten

MAX_CLAIM = 100
"""Characters of a wrong sentence that are quoted."""
MOST_LINES = 1_500
"""Lines of a summary that are checked."""


def check_summary(
    summary: str, evidence: SummaryEvidence, rules: list[UserRule]
) -> list[Correction]:
    """Return what a summary gets wrong, each once, in the summary's order."""
    found: dict[tuple[str, str], Correction] = {}
    for correction in _check_lines(summary, evidence, rules):
        claim = shorten(correction.claim, MAX_CLAIM)
        found.setdefault((claim, correction.truth), replace(correction, claim=claim))
    return list(found.values())


def _check_lines(
    summary: str, evidence: SummaryEvidence, rules: list[UserRule]
) -> Iterator[Correction]:
    for number, line in enumerate(split_summary(summary)):
        if number >= MOST_LINES:
            return
        yield from check_user_words(line, evidence, rules)
        yield from check_work(line, evidence)
        yield from check_names(line, evidence)
