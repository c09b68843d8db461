"""Check the summary of a compaction, claim by claim, against the thread it was made of."""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from tasuki.draft.claims.evidence import ThreadEvidence
from tasuki.draft.claims.judge import judge_sentence
from tasuki.draft.claims.literals import extract_claims
from tasuki.draft.claims.sentences import Correction, Sentence, split_summary
from tasuki.draft.claims.user_words import get_first_words
from tasuki.draft.facts.rules import UserRule
from tasuki.draft.text.entries import TextClaim
from tasuki.draft.text.split import shorten

MOST_CORRECTIONS, PART = 12, 100
"""Corrections after which the check ends, and lines whose claims are looked up together."""
MAX_CLAIM = 100
"""Characters of a wrong sentence that are quoted."""
MOST_LINES, MAX_CHECKED = 1_500, 200_000
"""Lines and characters of a summary that are checked."""


def check_summary(
    summary: str, evidence: ThreadEvidence, rules: list[UserRule]
) -> list[Correction]:
    """Return what a summary gets wrong first, each once, in the summary's order."""
    found: dict[tuple[str, str], Correction] = {}
    for correction in _check_lines(summary, evidence, rules):
        claim = shorten(correction.claim, MAX_CLAIM)
        found.setdefault((claim, correction.truth), replace(correction, claim=claim))
        if len(found) == MOST_CORRECTIONS:
            break
    return list(found.values())


def _check_lines(
    summary: str, evidence: ThreadEvidence, rules: list[UserRule]
) -> Iterator[Correction]:
    lines = list(islice(split_summary(summary[:MAX_CHECKED]), MOST_LINES))
    for start in range(0, len(lines), PART):
        part = lines[start : start + PART]
        # Together, since what is not in the entries is looked for in whole files.
        evidence.lookup.look_up_claims([(claim,) for line in part for claim in _list_claims(line)])
        for line in part:
            yield from judge_sentence(line, evidence, rules)


def _list_claims(line: Sentence) -> Iterator[TextClaim]:
    """Yield what of a line may have to be looked for in the thread's files."""
    for claim in extract_claims(line.text):
        if claim.kind == "quote":
            yield TextClaim("value", get_first_words(claim.text))
        elif claim.kind == "path" or f"`{claim.text}`" in line.text:
            yield claim
